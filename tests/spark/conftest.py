"""Work functions of these tests go to Spark's workers by value: their modules can be imported from some folders only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _work_goes_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
