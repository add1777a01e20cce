"""A Nessie catalog and its collection in plain dicts and sets, short enough to check by reading.

Nothing here is shared with the collector: live files come from what the tables' writer knows it wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from lakesweep_testing.iceberg_tables import Snapshot
from lakesweep_testing.nessie_scene import SceneTable

State = dict[str, tuple[SceneTable, Snapshot]]  # table name → its table and snapshot


@dataclass(frozen=True, slots=True)
class ModelCommit:
    """What a commit put, and all that was there after it."""

    parent: int | None
    puts: State
    after: State


@dataclass(slots=True)
class CatalogModel:
    """Commits in the order they were made, and which of them each reference points to."""

    commits: list[ModelCommit] = field(default_factory=list)
    references: dict[str, int | None] = field(default_factory=lambda: {"main": None})

    def put(self, branch: str, table: SceneTable, snapshot: Snapshot) -> None:
        """A commit that writes one table."""
        puts = {table.name: (table, snapshot)}
        self._commit(branch, puts, self._after(branch) | puts)

    def drop(self, branch: str, name: str) -> None:
        """A commit that drops one table."""
        self._commit(branch, {}, {k: v for k, v in self._after(branch).items() if k != name})

    def tables_on(self, branch: str) -> list[str]:
        """What a branch holds."""
        return sorted(self._after(branch))

    def live_states(self, commits_kept: int | None) -> set[tuple[str, Snapshot]]:
        """(table, snapshot) that must stay readable when so many commits of each reference are kept; None keeps all.

        Those that the kept commits wrote, and everything that was there at the oldest kept one.
        """
        live: set[tuple[str, Snapshot]] = set()
        for head in self.references.values():
            kept = list(self._log(head))[: None if commits_kept is None else max(1, commits_kept)]
            for commit in kept:
                live |= {(name, snapshot) for name, (_, snapshot) in commit.puts.items()}
            if kept:
                live |= {(name, snapshot) for name, (_, snapshot) in kept[-1].after.items()}
        return live

    def garbage(
        self,
        files: Collection[str],
        commits_kept: int | None,
        gone: Collection[str] = (),
        *,
        collect_dropped: bool = False,
    ) -> set[str]:
        """What a sweep deletes of these files; `gone` are those that earlier sweeps deleted.

        All that is neither live nor a dropped table's, where the innermost table folder around it is a live table's. With
        `collect_dropped`, all that a sweep may delete at most: dropped tables' files and folders too.
        """
        claims = self._claims(files, commits_kept, gone)
        needed = self.live_files(commits_kept, gone)
        if collect_dropped:
            claims |= {t.iceberg.location: True for t, _ in self.dropped(commits_kept)}
        else:
            needed |= self.dropped_files(commits_kept, gone)
        return {file for file in files if file not in needed and _is_swept(file, claims)}

    def live_files(self, commits_kept: int | None, gone: Collection[str] = ()) -> set[str]:
        """The files that live states need, as far as files that are not `gone` tell."""
        tables = self._tables()
        live: set[str] = set()
        for name, snapshot in self.live_states(commits_kept):
            live |= tables[name].iceberg.live_files(snapshot, gone=gone)
        return live

    def _claims(
        self, files: Collection[str], commits_kept: int | None, gone: Collection[str]
    ) -> dict[str, bool]:
        """Folders that belong to a table, and whether what lies in them may go: only live tables' own."""
        tables, live = self._tables(), self.live_states(commits_kept)
        known = {tables[name].iceberg.location for name, _ in live}
        found = {f.rpartition("/metadata/")[0] for f in files if f.endswith(".metadata.json")}
        dropped = {table.iceberg.location for table, _ in self.dropped(commits_kept)}
        bases = {
            tables[name].iceberg.location
            for name, snapshot in live
            if snapshot.metadata_location not in gone
        }
        claims = dict.fromkeys(found - known, False) | dict.fromkeys(dropped, False)
        return claims | dict.fromkeys(bases, True)

    def head_files(self, commits_kept: int | None) -> set[str]:
        """The files of all live states whose metadata file a reference has at its head."""
        at_heads = {
            snapshot.metadata_location
            for head in self.references.values()
            if head is not None
            for _, snapshot in self.commits[head].after.values()
        }
        tables = self._tables()
        return {
            file
            for name, snapshot in self.live_states(commits_kept)
            if snapshot.metadata_location in at_heads
            for file in tables[name].live_files(snapshot)
        }

    def history(self, branch: str) -> list[int]:
        """The numbers of a branch's commits, newest first."""
        numbers = []
        head = self.references[branch]
        while head is not None:
            numbers.append(head)
            head = self.commits[head].parent
        return numbers

    def state(self, branch: str, name: str) -> Snapshot:
        """A table's state on a branch."""
        return self._after(branch)[name][1]

    def dropped_files(self, commits_kept: int | None, gone: Collection[str] = ()) -> set[str]:
        """What every snapshot of dropped tables needs, as far as files that are not `gone` tell."""
        return {
            file
            for table, snapshot in self.dropped(commits_kept)
            for file in table.iceberg.live_files(snapshot, all_snapshots=True, gone=gone)
        }

    def dropped(self, commits_kept: int | None) -> list[tuple[SceneTable, Snapshot]]:
        """The last state of every table that a reference still knows of and no live commit has."""
        live = {name for name, _ in self.live_states(commits_kept)}
        reached = {number for reference in self.references for number in self.history(reference)}
        last: State = {}
        for number in sorted(reached):
            last |= {k: v for k, v in self.commits[number].puts.items() if k not in live}
        return list(last.values())

    def _tables(self) -> dict[str, SceneTable]:
        return {name: table for commit in self.commits for name, (table, _) in commit.puts.items()}

    def _after(self, branch: str) -> State:
        head = self.references[branch]
        return {} if head is None else self.commits[head].after

    def _commit(self, branch: str, puts: State, after: State) -> None:
        self.commits.append(ModelCommit(self.references[branch], puts, after))
        self.references[branch] = len(self.commits) - 1

    def _log(self, head: int | None) -> Iterator[ModelCommit]:
        while head is not None:
            yield self.commits[head]
            head = self.commits[head].parent


def _is_swept(file: str, claims: Mapping[str, bool]) -> bool:
    """Whether the innermost claimed folder around a file is swept; nothing is where there is none."""
    folder = file
    while folder and folder not in claims:
        folder = folder.rpartition("/")[0]
    return claims.get(folder, False)
