"""Which contents each cut-off keeps, asked for all at once, is what `identify` finds when it is asked for one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakesweep.catalogs.nessie.days_kept import MOST_DAYS, contents_by_days
from lakesweep.catalogs.nessie.identify import identify
from lakesweep.domain.cutoff_policies import CutoffPolicies, CutoffPolicy
from lakesweep_testing.fake_nessie import FakeNessie
from lakesweep_testing.nessie_histories import write_random_history

DAY = timedelta(days=1)


def last_before(days: tuple[int, ...], number: int) -> int:
    """The bit of the largest of these days that is not larger than the number."""
    return max(index for index, day in enumerate(days) if day <= number)


@pytest.mark.slow
@settings(max_examples=max(10, settings().max_examples // 5), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(1, 40),
    hours=st.sampled_from([0, 7, 30, -20]),
    pattern=st.sampled_from([None, "NONE", "2"]),
    keep_state=st.booleans(),
    number=st.integers(0, 30),
)
# With a dropped table whose files stay, which chance may leave out.
@example(seed=1, steps=40, hours=30, pattern=None, keep_state=False, number=30)
def test_any_number_of_days_keeps_what_identify_finds(
    seed, steps, hours, pattern, keep_state, number
):
    """States, other contents and dropped tables; also for days on which nothing changes, and with a clock that runs back."""
    nessie = FakeNessie()
    nessie.state.tick = timedelta(hours=hours)
    write_random_history(nessie, seed, steps, drops_in_merges=True)
    now = max([nessie.now, *(c.time for c in nessie.state.commits.values())]) + timedelta(hours=3)
    policies = {None: (), "NONE": [("dev.*", CutoffPolicy())], "2": [("main", CutoffPolicy(2))]}
    with nessie.client() as client:
        kept = contents_by_days(
            client,
            CutoffPolicies(CutoffPolicy(), policies[pattern]),
            now,
            keep_state_at_cutoff=keep_state,
        )
        found = identify(
            client,
            CutoffPolicies(CutoffPolicy(timestamp=now - number * DAY), policies[pattern]),
            keep_state_at_cutoff=keep_state,
        )
    assert kept.left_out == 0
    bit = 1 << last_before(kept.days, number)
    states = {
        (r.content_id, r.content_type, r.metadata_location, r.snapshot_id) for r in found.references
    }
    assert {tuple(state) for state, bits in kept.states.items() if bits & bit} == states
    others = {(o.content_id, place) for o in found.others for place in o.locations}
    ours = {(o.content_id, p) for o, bits in kept.others.items() if bits & bit for p in o.locations}
    assert ours == others
    dropped = {(d.content_id, d.metadata_location, d.snapshot_id) for d in found.dropped}
    last = [state for state, bits in kept.last.items() if bits & bit]
    assert {(d.content_id, d.metadata_location, d.snapshot_id) for d in last} == dropped
    assert kept.at_heads == frozenset(found.head_locations)


def test_of_very_many_days_some_are_asked_and_the_rest_is_counted():
    """As many as there are bits; the chosen ones, and no days at all, are always among them."""
    nessie = FakeNessie()
    nessie.state.tick = timedelta(days=1)
    write_random_history(nessie, 1, 400)
    now = max(c.time for c in nessie.state.commits.values())
    with nessie.client() as client:
        kept = contents_by_days(client, CutoffPolicies(CutoffPolicy()), now, (5, 9))
    assert len(kept.days) == MOST_DAYS
    assert {0, 5, 9} <= set(kept.days)
    assert kept.left_out > 0
