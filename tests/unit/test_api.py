"""The public names, and what they cost to import."""

from __future__ import annotations

import subprocess
import sys
import typing

import pytest

import lakesweep
from lakesweep.api import CollectOptions
from lakesweep.settings.declared import SETTINGS


@pytest.mark.parametrize("name", lakesweep.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """`from lakesweep import …` works for all of them."""
    assert getattr(lakesweep, name) is not None


def test_other_names_are_not() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = lakesweep.nonsense


def test_importing_needs_no_spark() -> None:
    """The functions are handed a session; whoever has one has pyspark."""
    program = (
        "import sys; from lakesweep import collect, mark, sweep; print('pyspark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"


def test_options_are_settings() -> None:
    """Same names, so that one page documents both. What a session says itself is no option."""
    names = {setting.name for setting in SETTINGS}
    options = set(typing.get_type_hints(CollectOptions)) - {"config"}
    assert options <= names
    flags = {
        s.name
        for s in SETTINGS
        if s.has_flag and s.group in ("server", "storage", "collect", "sweep")
    }
    assert flags <= options
