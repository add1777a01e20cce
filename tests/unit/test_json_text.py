"""JSON that somebody else wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep import json_text
from lakesweep.json_text import parse_json

SOURCES = Path(json_text.__file__).parent


def test_values_are_read_from_text_and_bytes() -> None:
    """As Python's own parser reads them."""
    assert parse_json('{"a": [1, null]}') == parse_json(b'{"a": [1, null]}') == {"a": [1, None]}


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":' * 100_000])
def test_all_else_is_one_kind_of_error(text: str) -> None:
    """Nesting that Python's parser gives up on is no other kind: callers expect one."""
    with pytest.raises(ValueError):
        parse_json(text)


def test_nobody_parses_json_by_himself() -> None:
    """What is nested without end would end a program as if it were a bug."""
    by_themselves = [
        str(file.relative_to(SOURCES))
        for file in SOURCES.rglob("*.py")
        if "json.loads(" in file.read_text("utf-8") or "json.load(" in file.read_text("utf-8")
    ]
    assert by_themselves == ["json_text.py"]
