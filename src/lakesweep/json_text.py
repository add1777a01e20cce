"""JSON that somebody else may have written: whatever is wrong with it is one kind of error."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["parse_json"]


def parse_json(text: str | bytes) -> Any:
    """The value of JSON text.

    Raises:
        ValueError: it is not JSON, or nested so deeply that Python's parser gives up, by an error of another kind.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
