"""Every error has a status."""

from __future__ import annotations

import pytest

import lakesweep.lake.errors as lake_errors
from lakesweep.errors import StorageError, ThrottledError
from lakesweep.lake.api.rest.errors import STATUS_OF_ERROR, message_of, status_of

LAKE_ERRORS = [getattr(lake_errors, name) for name in lake_errors.__all__ if name != "LakeError"]


@pytest.mark.parametrize("error", LAKE_ERRORS)
def test_every_lake_error_has_a_status_of_its_own(error: type[lake_errors.LakeError]) -> None:
    """None of the lake's own errors falls through to 500."""
    assert status_of(error("why")) != 500


def test_kin_of_an_error_are_not_hidden_behind_it() -> None:
    """First match wins, so no row of the table may be unreachable."""
    for index, (error, _) in enumerate(STATUS_OF_ERROR):
        assert not any(issubclass(error, earlier) for earlier, _ in STATUS_OF_ERROR[:index])


def test_storage_failure_is_ours_and_throttling_is_temporary() -> None:
    """A client may retry 503, and should not be blamed for a store that fails."""
    assert status_of(StorageError("down")) == 500
    assert status_of(ThrottledError("slow down")) == 503


def test_unforeseen_error_says_nothing_of_the_inside() -> None:
    """A traceback's text may hold a path or a secret."""
    assert "s3cret" not in message_of(KeyError("s3cret"))
