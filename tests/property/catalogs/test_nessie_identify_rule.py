"""On random histories, `identify` finds what a plain walk over each reference finds, and asks for no commit twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.catalogs.nessie.history import FORK_PAGES
from lakesweep.catalogs.nessie.identify import Identified, identify
from lakesweep.domain.cutoff_policies import CutoffPolicies, CutoffPolicy, parse_policies
from lakesweep.domain.durations import format_time
from lakesweep_testing.fake_nessie import FakeNessie
from lakesweep_testing.nessie_histories import write_random_history
from lakesweep_testing.nessie_state import FakeCommit

ICEBERG = ("ICEBERG_TABLE", "ICEBERG_VIEW")

policy_texts = st.sampled_from(
    ["NONE", "0", "1", "2", "5", "PT0S", "PT5S", "PT15S", "PT-30S", "at-a-commit"]
)


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples)
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(1, 80),
    ticks=st.sampled_from([0.0, 1.0, 1.0, -1.0]),
    default=policy_texts,
    patterns=st.lists(
        st.tuples(st.sampled_from(["main|dev", "dev.*", "v[0-9]", ".*/x", "main"]), policy_texts),
        max_size=3,
    ),
    keep_state=st.booleans(),
    page_cap=st.integers(1, 12),
    parallelism=st.integers(1, 3),
)
def test_identify_equals_a_plain_walk(
    seed, steps, ticks, default, patterns, keep_state, page_cap, parallelism
):
    """Shared history, tags, merges, renames, drops, views and other kinds, under every kind of policy."""
    nessie = FakeNessie(page_cap=page_cap)
    nessie.state.tick = timedelta(seconds=ticks)  # a clock that stands still, or runs back, too
    write_random_history(nessie, seed, steps, drops_in_merges=True)
    policies = parse_policies(
        text_of(nessie, default), [(p, text_of(nessie, t)) for p, t in patterns], nessie.now
    )
    before = nessie.heads()

    with nessie.client() as client:
        found = identify(client, policies, keep_state_at_cutoff=keep_state, parallelism=parallelism)

    expected = plain_walk(nessie, policies, keep_state)
    references = list(found.references)
    assert Counter(state_of(r) for r in references) == Counter(expected.references)
    assert len({(r.content_id, r.commit_id) for r in references}) == len(references)
    assert {(o.content_id, o.kind, frozenset(o.locations)) for o in found.others} == expected.others
    assert {d.content_id for d in found.dropped} == expected.dropped
    assert found.commits_read == len(expected.reachable)
    assert found.commits_live == len(expected.live)
    assert found.heads == {
        f"{ref.kind} {ref.name}": ref.hash for ref in nessie.state.references.values()
    }
    assert nessie.heads() == before
    assert {method for method, _, _ in nessie.requests} == {"GET"}
    check_commits_sent(nessie, found, parallelism)


def text_of(nessie: FakeNessie, text: str) -> str:
    """A policy's text; some name exactly the time of a commit."""
    if text != "at-a-commit":
        return text
    times = [commit.time for commit in nessie.state.commits.values()]
    return format_time(times[len(times) // 2] if times else nessie.now)


class Expected:
    """What a plain walk found."""

    def __init__(self) -> None:
        self.references: set[tuple[object, ...]] = set()
        self.others: set[tuple[str, str, frozenset[str]]] = set()
        self.dropped: set[str] = set()
        self.reachable: set[str] = set()
        self.live: set[str] = set()


def plain_walk(nessie: FakeNessie, policies: CutoffPolicies, keep_state: bool) -> Expected:
    """nessie-gc.md 2.1, reference by reference, on the fake's own state."""
    expected = Expected()
    live_contents: list[tuple[str, tuple[str, ...], dict]] = []
    for reference, policy in (
        (walked, policy)
        for walked in nessie.state.references.values()
        for policy in policies.policies_for(walked.name)
    ):
        log = list(nessie.state.log(reference.hash))
        expected.reachable |= {commit.hash for commit in log}
        last_live, first_cut_off = walk_one(log, policy)
        if last_live is None:
            continue
        for commit in log[: log.index(last_live) + 1]:
            expected.live.add(commit.hash)
            live_contents += [(commit.hash, key, put) for key, put in commit.puts.items()]
        states = [last_live]
        if keep_state and policy.timestamp is not None and first_cut_off is not None:
            states.append(first_cut_off)
        for commit in states:
            live_contents += [(commit.hash, key, there) for key, there in commit.state.items()]
    others: dict[tuple[str, str], set[str]] = {}
    for commit_id, key, there in live_contents:
        if there["type"] in ICEBERG:
            expected.references.add(row_of(commit_id, key, there))
        elif there["type"] != "NAMESPACE":
            others.setdefault((there["id"], there["type"]), set()).update(locations_of(there))
    expected.others = {(id, kind, frozenset(places)) for (id, kind), places in others.items()}
    seen = {
        there["id"]
        for hash in expected.reachable
        for there in nessie.state.commits[hash].puts.values()
        if there["type"] in ICEBERG
    }
    expected.dropped = seen - {there["id"] for _, _, there in live_contents}
    return expected


def walk_one(
    log: list[FakeCommit], policy: CutoffPolicy
) -> tuple[FakeCommit | None, FakeCommit | None]:
    """The last live commit of a log and the first one cut off."""
    last_live = None
    for number, commit in enumerate(log, start=1):
        if number > 1 and policy.is_cut_off(commit.time, number):
            return last_live, commit
        last_live = commit
    return last_live, None


def row_of(commit_id: str, key, there) -> tuple[object, ...]:
    number = there["snapshotId"] if there["type"] == "ICEBERG_TABLE" else there["versionId"]
    return (there["id"], commit_id, there["type"], there["metadataLocation"], number)


def state_of(reference) -> tuple[object, ...]:
    """Without the key: an id under two keys of one commit is one reference when nothing else differs."""
    commit_id = reference.commit_id.partition("#")[0]
    place = (reference.metadata_location, reference.snapshot_id)
    return (reference.content_id, commit_id, reference.content_type.value, *place)


def locations_of(value: object) -> Iterator[str]:
    if isinstance(value, str) and "://" in value:
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from locations_of(inner)


def check_commits_sent(nessie: FakeNessie, found: Identified, parallelism: int) -> None:
    """The commits over the wire: each once, and beyond that at most the rest of each fork's last page."""
    sent, walked = 0, set()
    for _, path, query in nessie.requests:
        if path.endswith("/history"):
            start = query.get("page-token") or path.split("%40")[1].split("/")[0]
            log = list(nessie.state.log(start))
            sent += min(len(log), int(query["max-records"]), nessie.page_cap)
            walked.add(path)
    overlap = min(nessie.page_cap, FORK_PAGES[-1])
    assert sent <= found.commits_read + max(0, len(walked) - 1) * overlap
    entries = [path for _, path, _ in nessie.requests if path.endswith("/entries")]
    tokens = Counter(
        (path, query.get("page-token"))
        for _, path, query in nessie.requests
        if path.endswith("/entries")
    )
    assert not entries or max(tokens.values()) == 1, "the state at a commit was read twice"
