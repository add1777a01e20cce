"""Cases of a kind, of which `make test` runs some and `make test-real`, and so CI, the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["few_of"]


def few_of(cases: Iterable[Any], one_in: int) -> list[Any]:
    """All cases for `parametrize`, with the mark `search` on all but one in so many."""
    return [
        case if number % one_in == 0 else pytest.param(case, marks=pytest.mark.search)
        for number, case in enumerate(cases)
    ]
