"""Random small histories with branches, rules, moved heads and kept commits, for property tests of retention."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from lakesweep.domain.commits import BranchHead, BranchId, Commit, CommitId, HeadMove, MetaRangeId
from lakesweep.domain.rules import RetentionRules

NOW = datetime(2024, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
BRANCHES = [BranchId(name) for name in ("main", "dev", "fix")]

# Ages are few and repeat, so that ties and exact thresholds come up; children may be older than their parents.
ages = st.integers(0, 12)


RandomHistory = tuple[
    list[Commit], list[BranchHead], RetentionRules, list[HeadMove], list[CommitId]
]


@st.composite
def histories(draw: st.DrawFn) -> RandomHistory:
    """Up to a dozen commits in any order, with what a collection knows of them."""
    size = draw(st.integers(1, 12))
    names = draw(st.permutations([CommitId(f"c{n}") for n in range(size)]))
    commits = []
    for index, name in enumerate(names):
        parents = (
            draw(st.lists(st.sampled_from(names[:index]), max_size=2, unique=True)) if index else []
        )
        commits.append(
            Commit(
                name,
                "",
                "",
                NOW - DAY * draw(ages),
                MetaRangeId(""),
                tuple(parents),
                version=draw(st.sampled_from([0, 1])),
            )
        )
    some_commit = st.sampled_from(names)
    on_branches = draw(st.lists(st.sampled_from(BRANCHES), unique=True))
    heads = [BranchHead(branch, draw(some_commit)) for branch in on_branches]
    days = st.integers(-1, 12)
    rules = RetentionRules(draw(days), draw(st.dictionaries(st.sampled_from(BRANCHES), days)))
    moves = draw(
        st.lists(
            st.builds(
                HeadMove,
                st.sampled_from(BRANCHES),
                some_commit,
                ages.map(lambda age: NOW - DAY * age),
            ),
            max_size=3,
        )
    )
    keep = draw(st.lists(some_commit, max_size=2))
    return commits, heads, rules, moves, keep
