"""On random histories, a second look misses nothing that a whole walk would find, and reads what changed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.catalogs.nessie.identify import identify
from lakesweep.catalogs.nessie.live_sets.memory import InMemoryLiveSets
from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.collector.nessie.catalog_now import CatalogNow
from lakesweep.collector.nessie.identify import mark_live
from lakesweep.collector.nessie.live_files import LiveFiles
from lakesweep.collector.nessie.requests import MarkRequest
from lakesweep.collector.phases import Phases
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.live_sets import LiveSetId
from lakesweep_testing.fake_nessie import FakeNessie
from lakesweep_testing.nessie_histories import write_random_history

policy_texts = st.sampled_from(["NONE", "0", "1", "2", "5", "PT0S", "PT5S", "PT15S", "PT-30S"])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(2, 60),
    marked_at=st.integers(1, 59),
    looked_at=st.integers(1, 59),
    ticks=st.sampled_from([0.0, 1.0, 1.0, -1.0]),
    default=policy_texts,
    patterns=st.lists(
        st.tuples(st.sampled_from(["main", "main|dev", "dev.*", "v[0-9]"]), policy_texts),
        max_size=2,
    ),
    keep_state=st.booleans(),
    page_cap=st.integers(1, 12),
    is_foreign=st.booleans(),
)
def test_a_second_look_misses_nothing(
    seed, steps, marked_at, looked_at, ticks, default, patterns, keep_state, page_cap, is_foreign
):
    """Commits, branches on old commits, resets, deleted references, merges, drops; and a third look after it."""
    nessie = FakeNessie(page_cap=page_cap)
    nessie.state.tick = timedelta(seconds=ticks)
    live_sets = InMemoryLiveSets()
    marked: list[tuple[LiveSetId, CatalogNow]] = []

    with nessie.client() as client:

        def before_step(step: int) -> None:
            if step == min(marked_at, steps - 1):
                marked.append(mark())
            if step == looked_at and marked:
                check(*marked[0])

        def mark() -> tuple[LiveSetId, CatalogNow]:
            names = [reference.name for reference in client.references()]
            wanted = parse_policies(default, patterns, nessie.now)
            pairs = tuple((p, t) for p, t in patterns if p not in wanted.unmatched(names))
            policies = parse_policies(default, pairs, nessie.now)
            request = MarkRequest(policies, nessie.now, default, pairs, keep_state)
            found = mark_live(client, live_sets, request, Phases("x"), lambda: nessie.now)
            live_set = live_sets.get(found.live_set_id)
            facts = None if is_foreign else live_sets.facts(found.live_set_id)
            known = {
                (s.metadata_location, s.snapshot_id)
                for s in live_sets.distinct_contents(live_set.id)
            }
            now = CatalogNow(client, live_sets, live_set, facts, known, lambda states: LiveFiles())
            return live_set.id, now

        def check(live_set_id: LiveSetId, now: CatalogNow) -> None:
            before = {
                (s.metadata_location, s.snapshot_id)
                for s in live_sets.distinct_contents(live_set_id)
            }
            seen = now.look()
            found = identify(client, now._policies, keep_state_at_cutoff=keep_state)
            live = {
                DistinctContent(r.content_id, r.content_type, r.metadata_location, r.snapshot_id)
                for r in found.references
            }
            missed = {s for s in live if (s.metadata_location, s.snapshot_id) not in before}
            assert missed <= set(seen.states)
            if not is_foreign:
                facts = live_sets.facts(live_set_id)
                known_others = {o.content_id for o in (*facts.others, *seen.others)}
                assert {o.content_id for o in found.others} <= known_others

        write_random_history(nessie, seed, steps, drops_in_merges=True, before_step=before_step)
        check(*marked[0])
