"""Values are read as Java reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.cli.nessie.result_lines import java_duration
from lakesweep.errors import ConfigError
from lakesweep.settings.kinds import COUNT
from lakesweep.settings.nessie_kinds import INSTANT, PROBABILITY, ZONED_TIME, machine_zone, zone

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("Etc/UTC", 0),
        ("Europe/Paris", 2),
        ("Asia/Tokyo", 9),
        ("+02:00", 2),
        ("-0330", -3.5),
        ("GMT+2", 2),
        ("UTC-05:30", -5.5),
    ],
)
def test_zone_ids(text: str, hours: float) -> None:
    """Regions, offsets, and offsets with a prefix."""
    found = zone(text)
    assert found.name == text
    assert NOON.astimezone(found.rules).utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "Mars/Olympus", "+25:00", "../../etc/passwd", "2h"])
def test_wrong_zones(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ConfigError, match="is not a time zone"):
        zone(text)


def test_the_machines_zone(tmp_path: Path) -> None:
    """TZ, else what /etc/localtime points at, else the offset of now; never an error."""
    assert machine_zone("Asia/Tokyo").name == "Asia/Tokyo"
    assert machine_zone(":Asia/Tokyo").name == "Asia/Tokyo"
    link = tmp_path / "localtime"
    (tmp_path / "zoneinfo").mkdir()
    link.symlink_to(tmp_path / "zoneinfo" / "Asia" / "Tokyo")
    assert machine_zone("", link).name == "Asia/Tokyo"
    assert machine_zone("nonsense", tmp_path / "nothing").rules is not None


def test_instants_need_an_offset() -> None:
    """A time without one could be any of 27 moments, and files hang on it."""
    assert INSTANT.parse("2011-12-03T10:15:30Z") == datetime(2011, 12, 3, 10, 15, 30, tzinfo=UTC)
    assert INSTANT.parse("2011-12-03T10:15:30.5+01:00") == datetime(
        2011, 12, 3, 9, 15, 30, 500_000, UTC
    )
    for text in ("2011-12-03T10:15:30", "2011-12-03", "now"):
        with pytest.raises(ConfigError):
            INSTANT.parse(text)


def test_zoned_times_may_name_their_zone() -> None:
    """The offset counts."""
    paris = ZONED_TIME.parse("2011-12-03T10:15:30+01:00[Europe/Paris]")
    assert paris == datetime(2011, 12, 3, 9, 15, 30, tzinfo=UTC)


def test_numbers() -> None:
    """At their edges."""
    assert COUNT.parse("1") == 1
    assert COUNT.parse("+5") == 5
    for text in ("0", "-1", "1.5", "", "x", "١"):
        with pytest.raises(ConfigError):
            COUNT.parse(text)
    assert PROBABILITY.parse("0.00001") == 0.00001
    for text in ("0", "1", "nan", "-0.1", "x"):
        with pytest.raises(ConfigError):
            PROBABILITY.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "PT0S"),
        (2.36, "PT2.36S"),
        (0.000001, "PT0.000001S"),
        (60, "PT1M"),
        (3723, "PT1H2M3S"),
        (90000, "PT25H"),
        (3600.5, "PT1H0.5S"),
    ],
)
def test_durations_as_java_writes_them(seconds: float, text: str) -> None:
    """Scripts read them out of the result lines."""
    assert java_duration(timedelta(seconds=seconds)) == text
