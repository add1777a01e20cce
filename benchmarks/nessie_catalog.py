"""A Nessie catalog made from a seed: tables on local files, their history on a real server, and what of it is garbage.

The shape is that of a run of nessie-gc that was measured: 20 tables, 3,618 commits on main, 12 references, 35,366 files
of which 20,000 are orphans.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from lakesweep_testing.nessie_contents import namespace, table
from nessie_tables import TableState, TableWriter

TABLES = 20
MAIN_COMMITS = 3_618
BRANCHES, COMMITS_PER_BRANCH, TAGS = 8, 10, 3
FILES, ORPHANS = 35_366, 20_000
# How many commits of a reference stay live: the policy of the measured run.
LIVE_COMMITS = 200

# Tables are written as pyiceberg does it, which merges no manifests: each commit adds one to the list. Every fifth
# table is compacted when it has so many.
_MANIFESTS_PER_REWRITE = 100
_COMPACTED_TABLES = 5
_SHARE_OF_WIDE_COMMITS = 0.12  # those that write two data files
_NAMESPACE = "db"


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit to make: one table's new state, and all tables after it."""

    state: TableState
    after: dict[str, TableState] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Line:
    """A reference: how many of main's commits it has, and its own after them."""

    kind: str
    name: str
    from_main: int
    own: tuple[_Commit, ...] = ()


@dataclass(frozen=True, slots=True)
class Catalog:
    """What was made, and what a collector has to find in it."""

    commits: int  # distinct ones, on all references
    commits_walked: int  # all of them, reference by reference
    references: int
    files: int
    garbage: frozenset[str]  # file:// URIs
    # How many of each kind are live, each of them to be read once.
    metadata_files: int
    manifest_lists: int
    manifests: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{TABLES} tables, {self.commits:,} commits ({MAIN_COMMITS:,} on main), {self.references} references; "
            f"{self.files:,} files, {ORPHANS:,} of them orphans, {len(self.garbage):,} garbage in all\n"
            f"live: {self.metadata_files:,} metadata files, {self.manifest_lists:,} manifest lists, "
            f"{self.manifests:,} manifests; made in {self.seconds:.0f} s"
        )


def make_catalog(folder: Path, uri: str, seed: int = 6) -> Catalog:
    """Write the files into a folder, and commit the history to an empty Nessie server."""
    started = time.perf_counter()
    writer = TableWriter(folder / _NAMESPACE, _NAMES, seed)
    main, lines = _write_history(writer, random.Random(seed))
    with httpx.Client(base_url=uri, timeout=60) as http, ThreadPoolExecutor(1) as beside:
        # The server is busy for longer than we are, and never looks at a file.
        committed = beside.submit(_Committer(http).commit_all, main, lines)
        for number in range(ORPHANS):
            writer.write_orphan(_NAMES[number % TABLES], is_data=number % 10 != 0)
        committed.result()
    everything = [_Line("BRANCH", "main", len(main)), *lines]
    live = _live_states(main, everything)
    needed = {uri for state in live for uri in state.live_files}
    if len(writer.written) != FILES or not needed <= writer.written:
        raise SystemExit(f"{len(writer.written):,} files were written, and not {FILES:,}")
    return Catalog(
        commits=len(main) + sum(len(line.own) for line in lines),
        commits_walked=sum(line.from_main + len(line.own) for line in everything),
        references=len(everything),
        files=len(writer.written),
        garbage=frozenset(writer.written - needed),
        metadata_files=len({state.metadata_location for state in live}),
        manifest_lists=len({state.manifest_list for state in live}),
        manifests=len({manifest.path for state in live for manifest in state.manifests}),
        seconds=time.perf_counter() - started,
    )


def _live_states(main: Sequence[_Commit], lines: Iterable[_Line]) -> list[TableState]:
    """The rule of the collection in so many words: what the last commits wrote, and all there was at the first of them."""
    live: dict[str, TableState] = {}
    for line in lines:
        window = [*main[: line.from_main], *line.own][-LIVE_COMMITS:]
        for state in (*(commit.state for commit in window), *window[0].after.values()):
            live[state.metadata_location] = state
    return list(live.values())


def _write_history(writer: TableWriter, chance: random.Random) -> tuple[list[_Commit], list[_Line]]:
    """Main's commits and the other references, with all their files."""
    changes = _Changes(writer, chance)
    forks = _forks(chance)
    tables: dict[str, TableState] = {}
    main: list[_Commit] = []
    lines: list[_Line] = []
    for number in range(1, MAIN_COMMITS + 1):
        # Each table once, then whichever.
        name = chance.choice(_NAMES) if number > TABLES else _NAMES[number - 1]
        main.append(changes.next(tables, name, is_last=number == MAIN_COMMITS))
        tables = main[-1].after
        for kind, line in forks.get(number, ()):
            own: list[_Commit] = []
            for _ in range(COMMITS_PER_BRANCH if kind == "BRANCH" else 0):
                own.append(changes.next(own[-1].after if own else tables, chance.choice(_NAMES)))
            lines.append(_Line(kind, line, number, tuple(own)))
    return main, lines


def _forks(chance: random.Random) -> dict[int, list[tuple[str, str]]]:
    """Where the other references leave main, by the number of commits before."""
    names = [("BRANCH", f"branch-{n}") for n in range(BRANCHES)]
    names += [("TAG", f"tag-{n}") for n in range(TAGS)]
    forks: dict[int, list[tuple[str, str]]] = {}
    for name in names:
        forks.setdefault(chance.randrange(LIVE_COMMITS, MAIN_COMMITS), []).append(name)
    return forks


class _Changes:
    """Appends and rewrites, so many that the number of files comes out."""

    def __init__(self, writer: TableWriter, chance: random.Random) -> None:
        self._writer = writer
        self._chance = chance
        # A commit has four files: data, manifest, manifest list, metadata. Wide ones and rewrites have more.
        self._spare = FILES - ORPHANS - 4 * (MAIN_COMMITS + BRANCHES * COMMITS_PER_BRANCH)

    def next(self, tables: dict[str, TableState], name: str, *, is_last: bool = False) -> _Commit:
        before = tables.get(name, TableState(name))
        is_compacted = _NAMES.index(name) % _COMPACTED_TABLES == 0
        is_full = is_compacted and len(before.manifests) >= _MANIFESTS_PER_REWRITE
        if is_full and self._spare and not is_last:
            self._spare -= 1
            state = self._writer.rewrite(before)
        else:
            is_wide = self._spare and self._chance.random() < _SHARE_OF_WIDE_COMMITS
            more = self._spare if is_last else int(is_wide)
            self._spare -= more
            state = self._writer.append(before, 1 + more)
        return _Commit(state, {**tables, name: state})


class _Committer:
    """Sends commits over one kept connection. Each answer has the hash that the next one needs, so none is asked for."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._content_ids: dict[str, str] = {}

    def commit_all(self, main: Sequence[_Commit], lines: Iterable[_Line]) -> None:
        """All of main, then every other reference."""
        root = str(self._send("GET", "trees/main")["reference"]["hash"])
        hashes = self._commit_line("main", root, main)
        for line in lines:
            fork = hashes[line.from_main - 1]
            body = {"type": "BRANCH", "name": "main", "hash": fork}
            self._send("POST", f"trees?name={line.name}&type={line.kind}", body)
            self._commit_line(line.name, fork, line.own)

    def _commit_line(self, branch: str, head: str, commits: Sequence[_Commit]) -> list[str]:
        hashes: list[str] = []
        for commit in commits:
            name = commit.state.name
            new = name not in self._content_ids
            contents: dict[tuple[str, ...], Any] = {
                (_NAMESPACE, name): table(
                    commit.state.metadata_location,
                    commit.state.snapshot_id,
                    id=self._content_ids.get(name),
                )
            }
            if not self._content_ids:
                contents = {(_NAMESPACE,): namespace([_NAMESPACE])} | contents
            body = {
                "commitMeta": {"message": f"change {name}"},
                "operations": [
                    {"type": "PUT", "key": {"elements": key}, "content": content}
                    for key, content in contents.items()
                ],
            }
            said = self._send("POST", f"trees/{branch}@{head}/history/commit", body)
            if new:
                added = {tuple(a["key"]["elements"]): a["contentId"] for a in said["addedContents"]}
                self._content_ids[name] = added[_NAMESPACE, name]
            head = str(said["targetBranch"]["hash"])
            hashes.append(head)
        return hashes

    def _send(self, method: str, path: str, body: object | None = None) -> dict[str, Any]:
        response = self._http.request(method, path, json=body)
        if response.is_error:
            raise SystemExit(f"{method} {path}: {response.status_code} {response.text[:500]}")
        said: dict[str, Any] = response.json()
        return said


_NAMES = [f"t{number:02d}" for number in range(TABLES)]
