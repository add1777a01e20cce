"""The public names, and what they cost to import."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest

import lakesweep
from lakesweep import api
from lakesweep.api import CollectOptions, LoweredGuards, MarkOptions
from lakesweep.errors import ConfigError, UnknownOptionError
from lakesweep.settings.lakefs_options import SETTINGS


@pytest.mark.parametrize("name", lakesweep.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """`from lakesweep import …` works for all of them."""
    assert getattr(lakesweep, name) is not None


def test_other_names_are_not() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = lakesweep.nonsense


@pytest.mark.slow
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
    guards = {field.name for field in dataclasses.fields(LoweredGuards)}
    options = set(typing.get_type_hints(CollectOptions)) - {"config"} | guards
    assert options <= names
    flags = {
        s.name
        for s in SETTINGS
        if s.has_flag and s.group in ("server", "storage", "collect", "sweep")
    }
    assert flags <= options


class Untouched:
    """A session that nobody may ask anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the session was asked for {name}")


CALLS: dict[str, Callable[..., object]] = {
    "explain": lambda **options: lakesweep.explain("shop", "data/x", **options),  # type: ignore[arg-type]
    "collect": lambda **options: lakesweep.collect(Untouched(), "shop", **options),  # type: ignore[arg-type]
    "mark": lambda **options: lakesweep.mark(Untouched(), "shop", **options),  # type: ignore[arg-type]
    "sweep": lambda **options: lakesweep.sweep(Untouched(), "shop", "m1", **options),  # type: ignore[arg-type]
    "resume": lambda **options: lakesweep.resume(Untouched(), "shop", "r1", **options),  # type: ignore[arg-type]
    "backup": lambda **options: lakesweep.backup(Untouched(), "shop", "m1", "s3://b", **options),  # type: ignore[arg-type]
    "restore": lambda **options: lakesweep.restore(Untouched(), "shop", "m1", "s3://b", **options),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("function", list(CALLS))
@pytest.mark.parametrize("name", ["dryrun", "markid", "what_", "nonsense"])
def test_unknown_option_is_an_error_before_anything_is_read(function: str, name: str) -> None:
    """`dryrun=True` is not `dry_run=True`, and would delete if it were left out without a word."""
    with pytest.raises(UnknownOptionError, match=name) as caught:
        CALLS[function](**{name: True})
    assert isinstance(caught.value, TypeError)
    assert caught.value.exit_status == ConfigError.exit_status


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("mark", "lakefs.gc.do_mark"),
        ("sweep", "lakefs.gc.do_sweep"),
        ("resume", "lakefs.gc.do_sweep"),
        ("resume", "lakefs.debug.gc.no_delete"),
    ],
)
def test_what_the_session_switches_off_is_refused(
    monkeypatch: pytest.MonkeyPatch, function: str, name: str
) -> None:
    """A cluster on which nothing may be deleted says so in its properties, to functions as to commands."""
    word = "true" if "no_delete" in name else "false"
    properties = {f"spark.hadoop.{name}": word, "spark.hadoop.lakefs.gc.mark_id": "m1"}
    monkeypatch.setattr(api, "_properties", lambda spark: properties)
    with pytest.raises(ConfigError, match=r"is false\. Nothing was touched") as refused:
        CALLS[function]()
    assert refused.value.kind == "switched-off"


def test_error_names_the_option_that_was_meant() -> None:
    """The nearest one of the function's own."""
    with pytest.raises(UnknownOptionError, match="Did you mean 'dry_run'"):
        CALLS["collect"](dryrun=True)
    with pytest.raises(UnknownOptionError, match="has no option 'dry_run'"):
        CALLS["mark"](dry_run=True)


@pytest.mark.parametrize("name", ["unsafe_min_age", "no_lease", "confirm"])
def test_what_lowers_a_guard_is_no_option(name: str) -> None:
    """It works on the command line only; in Python it has an argument of its own, which the error names."""
    with pytest.raises(UnknownOptionError, match=rf"guards=LoweredGuards\({name}="):
        CALLS["collect"](**{name: "shop"})


def test_every_setting_of_the_command_line_alone_is_a_lowered_guard() -> None:
    """A new one can't become an option of Python by being forgotten here."""
    alone = {setting.name for setting in SETTINGS if setting.command_line_only}
    assert alone <= {field.name for field in dataclasses.fields(LoweredGuards)}
    assert not alone & set(typing.get_type_hints(CollectOptions))
    assert not alone & set(typing.get_type_hints(MarkOptions))


def test_lowered_guards_reach_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a share above the default is refused as an option."""
    monkeypatch.setattr("lakesweep.engine.session.session_properties", lambda spark: {})
    session: Any = Untouched()
    guards = LoweredGuards(unsafe_min_age="shop", confirm="0123", max_delete_share=90)
    settings = api._settings(session, {}, CollectOptions, guards)
    collect = settings.collect
    assert (collect.unsafe_min_age, collect.confirm, collect.max_delete_share) == (
        "shop",
        "0123",
        90,
    )
    assert api._settings(session, {"max_delete_share": 20}, CollectOptions, None).collect  # type: ignore[typeddict-unknown-key]
    with pytest.raises(ConfigError, match="LoweredGuards"):
        api._settings(session, {"max_delete_share": 51}, CollectOptions, None)  # type: ignore[typeddict-unknown-key]
