"""On random histories, no table is collected that any reference had within its cut-off during the grace period."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakesweep.catalogs.nessie.dropped import CollectDropped
from lakesweep.catalogs.nessie.identify import identify
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep_testing.fake_nessie import FakeNessie
from lakesweep_testing.nessie_histories import write_random_history

policy_texts = st.sampled_from(["0", "1", "2", "5", "PT0S", "PT3S", "PT10S", "NONE"])


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples)
@example(4623033, 54, "PT0S", [], True, 4, 0)  # live as the state before a head that was old
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(1, 80),
    default=policy_texts,
    patterns=st.lists(
        st.tuples(st.sampled_from(["dev.*", "v[0-9]", "main"]), policy_texts), max_size=2
    ),
    keep_state=st.booleans(),
    grace=st.sampled_from([0, 1, 4, 15, 40]),
    waited=st.sampled_from([0, 1, 10]),
)
def test_a_collected_table_was_live_at_no_moment_of_the_grace(
    seed, steps, default, patterns, keep_state, grace, waited
):
    """Held against every mark that could have been made since the grace began, one a second."""
    nessie = FakeNessie()
    write_random_history(nessie, seed, steps, drops_in_merges=True)
    now = nessie.now + timedelta(seconds=waited)
    collect = CollectDropped(now, timedelta(seconds=grace))

    with nessie.client() as client:
        found = identify(
            client,
            parse_policies(default, patterns, now),
            keep_state_at_cutoff=keep_state,
            collect_dropped=collect,
        )

    collected = {table.content_id for table in found.dropped if table.is_collected}
    for seconds in range(grace + 1):
        at = now - timedelta(seconds=seconds)
        assert collected.isdisjoint(live_ids_at(nessie, at, default, patterns, keep_state))
    for table in found.dropped:
        assert table.last_seen == last_seen(nessie, table.content_id)


def live_ids_at(
    nessie: FakeNessie, at: datetime, default: str, patterns, keep_state: bool
) -> set[str]:
    """What a mark at that time would have found live, had all references been where their logs were then."""
    policies = parse_policies(default, patterns, at)
    found: set[str] = set()
    for reference in nessie.state.references.values():
        log = [commit for commit in nessie.state.log(reference.hash) if commit.time <= at]
        for policy in policies.policies_for(reference.name):
            for number, commit in enumerate(log, start=1):
                is_cut_off = number > 1 and policy.is_cut_off(commit.time, number)
                if not is_cut_off or (keep_state and policy.timestamp is not None):
                    found |= {content["id"] for content in commit.state.values()}
                if is_cut_off:
                    break
    return found


def last_seen(nessie: FakeNessie, content_id: str) -> datetime:
    """When the last commit was made whose parent's state has the content, or that put it."""
    times = []
    for reference in nessie.state.references.values():
        log = list(nessie.state.log(reference.hash))
        for child, commit in zip([None, *log], log, strict=False):
            if any(content["id"] == content_id for content in commit.state.values()):
                times.append(commit.time)
                times += [child.time] if child is not None else []
    return max(times)
