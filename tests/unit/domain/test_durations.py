"""Durations and times as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.domain.durations import format_duration, format_time, parse_duration, parse_time
from lakesweep.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        ("1d12h", timedelta(days=1, hours=12)),
        ("1.5h", timedelta(minutes=90)),
        ("PT10H", timedelta(hours=10)),
        ("P10D", timedelta(days=10)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("pt15m", timedelta(minutes=15)),
        ("0s", timedelta(0)),
    ],
)
def test_durations_in_both_spellings(text, expected):
    """The short form and ISO 8601 mean the same."""
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "7", "h", "-1h", "P", "PT", "P1Y", "P1M", "12h1d", "1 h", "9" * 30 + "d", "٣d"]
)
def test_what_is_no_duration_is_refused_with_examples(text):
    """No unit is guessed, and months and years have no length."""
    with pytest.raises(ConfigError, match="duration"):
        parse_duration(text)


def test_durations_read_back_what_they_write():
    """What a message prints can be pasted into a flag."""
    for seconds in (0, 0.5, 59, 60, 86400, 87000, 90061):
        duration = timedelta(seconds=seconds)
        assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01T10:00:00Z",
        "2024-05-01T10:00:00",
        "2024-05-01T12:00:00+02:00",
        "20240501T100000Z",
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text):
    """A time without a zone is taken as UTC."""
    assert parse_time(text) == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert parse_time(text).tzinfo is UTC


def test_a_date_is_its_first_moment():
    """`2024-05-01` is midnight UTC."""
    assert format_time(parse_time("2024-05-01")) == "2024-05-01T00:00:00Z"


def test_what_is_no_time_is_refused():
    """Words and numbers are no times."""
    for text in ("yesterday", "", "1714556400", "2024-13-01"):
        with pytest.raises(ConfigError, match="time"):
            parse_time(text)


def test_times_are_written_with_a_z():
    """Messages are always in UTC."""
    assert format_time(parse_time("2024-05-01T12:00:00.25+02:00")) == "2024-05-01T10:00:00.250000Z"
