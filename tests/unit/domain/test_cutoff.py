"""How old an object must be, and whose clock says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.domain.cutoff import (
    SAFETY_FULL,
    assert_clocks_agree,
    decide_cutoff,
    is_old_enough,
)
from lakesweep.errors import ConfigError, UnsafeToSweepError

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def test_the_servers_grace_period_plus_skew_is_the_minimum_age():
    """A server that lets links come for two days is believed."""
    assert decide_cutoff(NOW, 48 * HOUR).min_age == 48 * HOUR + 10 * MINUTE


def test_an_old_servers_short_grace_period_is_not_enough():
    """Servers before 1.80 answer six hours; a day is the least."""
    assert decide_cutoff(NOW, 6 * HOUR).min_age == 24 * HOUR + 10 * MINUTE


def test_an_object_of_exactly_the_minimum_age_is_young():
    """The cut-off is exclusive, and an unknown age is young."""
    cutoff = decide_cutoff(NOW, 24 * HOUR)
    assert not is_old_enough(cutoff.at, cutoff.at)
    assert is_old_enough(cutoff.at - timedelta(microseconds=1), cutoff.at)
    assert not is_old_enough(None, cutoff.at)


def test_a_user_may_ask_for_more_but_not_for_less():
    """Lowering the minimum age takes the ugly flag."""
    assert decide_cutoff(NOW, HOUR, requested_min_age=72 * HOUR).at == NOW - 72 * HOUR
    with pytest.raises(ConfigError, match="unsafe-min-age"):
        decide_cutoff(NOW, HOUR, requested_min_age=HOUR)
    assert decide_cutoff(NOW, HOUR, requested_min_age=HOUR, allow_lower=True).at == NOW - HOUR
    with pytest.raises(ConfigError, match="negative"):
        decide_cutoff(NOW, HOUR, requested_min_age=-HOUR, allow_lower=True)


def test_clocks_further_apart_than_the_tolerated_skew_are_refused():
    """In both directions; up to it, the difference is reported."""
    assert assert_clocks_agree(NOW, NOW + 10 * MINUTE, "the server") == 10 * MINUTE
    for other in (NOW + 11 * MINUTE, NOW - 11 * MINUTE):
        with pytest.raises(UnsafeToSweepError, match="clock of the server"):
            assert_clocks_agree(NOW, other, "the server")


def test_lease_outlives_what_is_authorised_under_it() -> None:
    """Authority and longest request together end before a lease can be taken over."""
    life = SAFETY_FULL.delete_not_after + SAFETY_FULL.longest_request
    assert SAFETY_FULL.lease_life > life
    with pytest.raises(ValueError, match="taken over"):
        replace(SAFETY_FULL, lease_life=life)


@pytest.mark.parametrize(
    ("reading", "authority"),
    [
        (timedelta(0), 10 * MINUTE),
        (5 * MINUTE, 10 * MINUTE),
        (12 * MINUTE, 24 * MINUTE),
        (30 * MINUTE, HOUR),
        (2 * HOUR, HOUR),
        (-HOUR, 10 * MINUTE),
    ],
)
def test_authority_is_twice_the_length_of_the_re_read_within_bounds(
    reading: timedelta, authority: timedelta
) -> None:
    """Ten minutes at least and an hour at most; a lease outlives each of them with its longest request."""
    assert SAFETY_FULL.authority_after(reading) == authority
    life = SAFETY_FULL.lease_life_for(authority)
    assert life > authority + SAFETY_FULL.longest_request
