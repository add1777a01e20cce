"""Prepare commits: the list of retained commits, for collectors that do not compute it themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakesweep.domain.commits import CommitGraph
from lakesweep.domain.retention import retained_commits
from lakesweep.formats.commits_csv import CommitRow, commits_csv_key, write_commits_csv
from lakesweep.formats.xid import new_descending_xid
from lakesweep.lake.collection.retention_rules import RetentionRulesStore
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.context import LakeContext, full_address
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.refs.head_moves import HeadMoves
from lakesweep.lake.tasks import RunningTask, Tasks
from lakesweep.lake.values import PreparedCommits, PrepareStatus, Repository

_TASK_PREFIX = "GCPC"
_ADDRESSES = "_lakefs/retention/gc/addresses/"


@dataclass(eq=False, repr=False)
class GcCommits:
    """Writes commits.csv, at once or in the background."""

    _context: LakeContext
    _branches: Branches
    _commits: Commits
    _head_moves: HeadMoves
    _rules: RetentionRulesStore
    _tasks: Tasks

    def prepare(self, repository: Repository) -> PreparedCommits:
        """Write the list now."""
        rules = self._rules.get(repository)
        # Heads first: one that is left after this is a head still. Then the heads that were left before. Commits last:
        # a commit is stored before anything points at it, so all that the others name are among them.
        heads = [record.head for record in self._branches.all(repository)]
        moves = list(self._head_moves.all(repository))
        graph = CommitGraph(self._commits.all(repository))
        retained = retained_commits(graph, heads, rules, self._context.now(), moves)
        rows = (
            CommitRow(commit.id, False, commit.meta_range_id)
            for commit in graph
            # A commit without a metarange holds nothing; the real server leaves it out, too.
            if commit.id in retained and commit.meta_range_id
        )
        run_id = new_descending_xid(self._context.now())
        key = commits_csv_key(run_id)
        self._context.store(repository).write(key, write_commits_csv(rows))
        return PreparedCommits(
            run_id, full_address(repository, key), full_address(repository, _ADDRESSES)
        )

    def start(self, repository: Repository) -> str:
        """Write it in the background; the task's id."""

        def work(_: RunningTask) -> dict[str, Any]:
            prepared = self.prepare(repository)
            return {
                "run_id": prepared.run_id,
                "commits_location": prepared.commits_location,
                "addresses_location": prepared.addresses_location,
            }

        return self._tasks.start(repository, _TASK_PREFIX, work)

    def status(self, repository: Repository, task_id: str) -> PrepareStatus:
        """How far the task has come."""
        state = self._tasks.status(repository, task_id)
        result = None if state.result is None else PreparedCommits(**state.result)
        return PrepareStatus(state.id, state.completed, state.updated_at, result, state.error)
