"""Rules that hold between settings, and between a setting and the place it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from lakesweep.domain.durations import format_duration, format_time
from lakesweep.errors import ConfigError
from lakesweep.settings.kinds import SECONDS
from lakesweep.settings.resolve import errors_naming
from lakesweep.settings.sources import Found, Rank
from lakesweep.settings.spark_properties import HADOOP_PREFIX

if TYPE_CHECKING:
    from lakesweep.settings.values import CollectSettings

__all__ = [
    "OURS",
    "check_combinations",
    "keep_pair_together",
    "raise_min_age_only",
    "refuse_switched_off",
]

OURS = (Rank.FLAG, Rank.ENVIRONMENT, Rank.FILE)

# A Spark property may raise the minimum age and never lower it; this is the least a run would take anyway.
_LEAST_MIN_AGE = timedelta(hours=24, minutes=10)


def raise_min_age_only(sources: dict[str, list[Found]], warnings: list[str]) -> None:
    """Leave out a Spark property that would lower the minimum age, with a warning."""
    kept: list[Found] = []
    for found in sources["min_age"]:
        if found.rank is Rank.SPARK:
            text = str(found.raw).strip()
            age = timedelta(0)
            if text and not text.startswith("-"):
                # A text that nobody understands may be meant to keep more, so it is an error.
                with errors_naming(found.where):
                    age = cast(timedelta, SECONDS.parse(text))
            if age <= _LEAST_MIN_AGE:
                warnings.append(
                    f"{found.where}={text} is left out: it may raise the minimum age of "
                    f"{format_duration(_LEAST_MIN_AGE)}, never lower it."
                )
                continue
            found = Found(format_duration(age), found.where, found.rank)
        kept.append(found)
    sources["min_age"] = kept


def keep_pair_together(sources: dict[str, list[Found]]) -> None:
    """A lakeFS key id and its secret come from one family of places: ours, Spark's, or lakectl's."""
    names = ("access_key_id", "secret_access_key")

    def family(found: Found) -> Rank:
        return Rank.FLAG if found.rank in OURS else found.rank

    families = [family(found) for name in names for found in sources[name]]
    if families:
        best = min(families)
        for name in names:
            sources[name] = [found for found in sources[name] if family(found) is best]


def check_combinations(
    plain: Mapping[str, Any], values: Mapping[str, tuple[Any, str]], current_time: datetime
) -> None:
    """Refuse what can't be meant.

    Raises:
        ConfigError: which settings don't go together, and why.
    """
    do_mark, do_sweep, mark_id = plain["do_mark"], plain["do_sweep"], plain["mark_id"]
    prefix = f"{HADOOP_PREFIX}lakefs.gc."
    if not do_mark and not do_sweep:
        raise ConfigError(
            f"{prefix}do_mark=false with {values['do_sweep'][1]}=… leaves nothing to do: "
            "neither mark nor sweep. Nothing was touched. Leave one of them out.",
            kind="nothing-asked",
        )
    if not do_mark and mark_id is None:
        raise ConfigError(
            f"{prefix}do_mark=false sweeps an earlier mark, so it needs {prefix}mark_id. Nothing was touched.",
            kind="no-mark-id",
        )
    if not do_mark and plain["inventory"] is not None:
        raise ConfigError(
            f"{values['inventory'][1]} takes the place of a listing, and {prefix}do_mark=false makes none. Nothing was "
            "touched. Leave one of them out.",
            kind="idle-inventory",
        )
    by_property = values["mark_id"][1].endswith("lakefs.gc.mark_id")
    if do_mark and do_sweep and mark_id is not None and by_property:
        raise ConfigError(
            f"{prefix}mark_id goes with {prefix}do_sweep=false (mark only) or {prefix}do_mark=false "
            "(sweep that mark). With neither, a new mark would be swept and not the one named. Nothing was touched.",
            kind="mark-id-unclear",
        )
    if plain["now"] is not None and plain["now"] > current_time:
        raise ConfigError(
            f"{values['now'][1]}: {format_time(plain['now'])} lies in the future, and retention can't "
            "run ahead of time. Nothing was touched.",
            kind="now-in-future",
        )
    if plain["master"] is not None and plain["remote"] is not None:
        raise ConfigError(
            f"Both a Spark master ({values['master'][1]}) and a Spark Connect server "
            f"({values['remote'][1]}) are given; leave one out."
        )


def refuse_switched_off(
    collect: CollectSettings, *, mark: bool = False, sweep: bool = False
) -> None:
    """Refuse a mark, or a sweep new or resumed, where a Spark property switches it off."""
    for wanted, is_on, name in (
        (mark, collect.do_mark, "do_mark"),
        (sweep, collect.do_sweep, "do_sweep"),
    ):
        if wanted and not is_on:
            raise ConfigError(
                f"A {name.removeprefix('do_')} is asked for, and {HADOOP_PREFIX}lakefs.gc.{name} is false. "
                "Nothing was touched. Leave one of them out.",
                kind="switched-off",
            )
