"""How old a file must be to go, by the mark, by what a user asks, and by the list that it stands on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.collector.nessie.ages import newest_recorded
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.domain.live_sets import LiveSet, LiveSetStatus, MarkFacts, new_live_set_id

MARKED_AT = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
SET = LiveSet(
    new_live_set_id(), LiveSetStatus.EXPIRY_SUCCESS, MARKED_AT, MARKED_AT, None, None, None
)
FACTS = MarkFacts("http://nessie/api/v2", MARKED_AT, "NONE", (), False, {}, (), ())


@pytest.mark.parametrize(
    ("grace", "time", "age"),
    [
        (None, None, HOUR),
        (72 * HOUR, None, 72 * HOUR),
        (24 * HOUR, None, 24 * HOUR),
        (None, MARKED_AT - 48 * HOUR, 48 * HOUR),
    ],
    ids=["nothing is asked", "a longer grace", "the usual grace", "an earlier time"],
)
def test_what_is_asked_of_a_list_counts_before_the_grace_it_was_made_with(
    grace: timedelta | None, time: datetime | None, age: timedelta
) -> None:
    """Whoever lowered it for the list need not say it again, and whoever asks for more is given more."""
    request = ExpireRequest(SET.id, grace=grace, max_file_modification=time)
    assert newest_recorded(SET, FACTS, request, MARKED_AT - HOUR) == MARKED_AT - age
