"""A small lake with a long history, by arithmetic: which commits are retained is known by how it was made.

Commits come in units of ten, in the order of time. Five are on `main`; one is on one of eight long-lived branches, which
take `main` in now and then; four are a short branch off `main`. Of the short branches two thirds are merged and deleted,
a third is deleted unmerged, and a few live on. Some branches have rules of their own.

Commits of one period have one state of the data (one metarange): objects that all states have, and ten of its own. A state
of which no commit is retained makes its own objects garbage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from computed_keys import ComputedKeys
from lakesweep.domain.commits import BranchHead, BranchId, Commit, CommitId, MetaRangeId, Tag, TagId
from lakesweep.domain.rules import RetentionRules
from lakesweep.formats.entries import Entry
from lakesweep.formats.metaranges import write_metarange
from lakesweep.formats.range_writer import WrittenRange, write_ranges
from lakesweep.formats.refs_dump import RefsDump, WrittenRefsDump, write_refs_dump
from lakesweep.formats.values import join_value

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BUCKET, ROOT, REPOSITORY = "lake", "bench/", "bench"
NAMESPACE = f"s3://{BUCKET}/bench"
UNIT = 10
STATES = 2_000
_MAIN, _LONG, _SHORT = (0, 1, 2, 4, 9), 3, (5, 6, 7, 8)  # places in a unit
_FORK = 4  # where short branches leave main
_LONG_BRANCHES = 8
_LONG_DAYS = (1, 7, 14, 45, 90, 180, 365, 700)
_DAYS, _MAIN_DAYS, _SHORT_DAYS = 30, 60, 200
_SPAN = timedelta(days=1_000)
_SHARED, _OWN, _UNREFERENCED = 3_000, 10, 2_000
# Another size than that of the objects in the store: none of them can be a staged re-upload.
ENTRY_BYTES = 1_000_000
_NONE = -1


@dataclass(frozen=True)
class LongHistory:
    """So many commits, a multiple of ten, by the clock at `now`, and about so many short branches that live on."""

    commits: int
    short_branches: int = 100
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    @cached_property
    def keys(self) -> ComputedKeys:
        """The objects as the store lists them."""
        objects = _SHARED + STATES * _OWN + _UNREFERENCED
        return ComputedKeys(f"{ROOT}data/", objects // 5_000, 5_000)

    def address(self, index: int) -> str:
        """An object's address relative to the namespace."""
        return self.keys.key(index).removeprefix(ROOT)

    # -- the graph

    @property
    def units(self) -> int:
        """How many times ten commits there are."""
        return self.commits // UNIT

    @cached_property
    def dates(self) -> Ints:
        """When each commit was made, in seconds."""
        first = int((self.now - _SPAN).timestamp())
        return first + np.arange(self.commits, dtype=np.int64) * 86_399_000 // self.commits

    @cached_property
    def main_parents(self) -> Ints:
        """The number of each commit's main parent."""
        found = np.arange(self.commits, dtype=np.int64).reshape(self.units, UNIT)
        first = found[:, 0].copy()
        found[:, 0] = first - 1
        for child, parent in ((1, 0), (2, 1), (4, 2), (9, 4), (5, 4), (6, 5), (7, 6), (8, 7)):
            found[:, child] = first + parent
        found[:, _LONG] = first + _LONG - _LONG_BRANCHES * UNIT
        found[:_LONG_BRANCHES, _LONG] = first[:_LONG_BRANCHES] + 2  # they leave main
        return found.reshape(-1)

    @property
    def _unit_numbers(self) -> Ints:
        return np.arange(self.units, dtype=np.int64)

    @cached_property
    def lives(self) -> Bools:
        """Whether the short branch of each unit lives on."""
        return self._unit_numbers % max(self.units // self.short_branches, 1) == 0

    @property
    def _is_merged(self) -> Bools:
        return ~self.lives & (self._unit_numbers % 3 > 0)

    def _other_parent(self, number: int) -> int:
        unit, place = divmod(number, UNIT)
        if place == 9 and self._is_merged_list[unit]:
            return number - 1
        if place == _LONG and unit >= _LONG_BRANCHES and unit % 5 == 0:
            return number - 1
        return _NONE

    @cached_property
    def _is_merged_list(self) -> list[bool]:
        return self._is_merged.tolist()

    # -- branches and rules

    @property
    def rules(self) -> RetentionRules:
        """The default, and the days of some branches."""
        days = {BranchId(f"long-{n}"): _LONG_DAYS[n] for n in range(_LONG_BRANCHES)}
        short = {BranchId(f"short-{u}"): _SHORT_DAYS for u in self._living if u % 4 == 0}
        return RetentionRules(_DAYS, {BranchId("main"): _MAIN_DAYS, **days, **short})

    @property
    def _living(self) -> list[int]:
        return np.flatnonzero(self.lives).tolist()

    def heads(self, ids: list[CommitId]) -> list[BranchHead]:
        """All branches."""
        last = self.commits - UNIT
        numbers = {"main": last + 9}
        for unit in range(self.units - _LONG_BRANCHES, self.units):
            numbers[f"long-{unit % _LONG_BRANCHES}"] = unit * UNIT + _LONG
        numbers |= {f"short-{unit}": unit * UNIT + 8 for unit in self._living}
        return [BranchHead(BranchId(name), ids[at]) for name, at in sorted(numbers.items())]

    # -- what is retained

    @cached_property
    def retained(self) -> Bools:
        """Whether each commit is retained: by what is made here, line by line, and not by a walk over the graph."""
        dates = self.dates.reshape(self.units, UNIT)
        found = np.zeros((self.units, UNIT), np.bool_)
        now = int(self.now.timestamp())
        short_days = np.where(self.lives & (self._unit_numbers % 4 == 0), _SHORT_DAYS, _DAYS)
        short_from = now - short_days * 86_400
        for place in (5, 6, 7):
            found[:, place] = dates[:, place + 1] > short_from
        found[:, 8] = self.lives | (dates[:, 8] > short_from)
        long_from = now - np.array(_LONG_DAYS)[self._unit_numbers % _LONG_BRANCHES] * 86_400
        found[-_LONG_BRANCHES:, _LONG] = True
        long_dates = dates[_LONG_BRANCHES:, _LONG]
        found[:-_LONG_BRANCHES, _LONG] = long_dates > long_from[:-_LONG_BRANCHES]
        # On main, all branches that left it later count, each with its own days.
        earliest = np.full((self.units, UNIT), now - _MAIN_DAYS * 86_400)
        earliest[:, _FORK] = np.minimum(earliest[:, _FORK], short_from)
        earliest[:_LONG_BRANCHES, 2] = np.minimum(earliest[:, 2], long_from)[:_LONG_BRANCHES]
        main = (np.arange(self.units)[:, None] * UNIT + np.array(_MAIN)).reshape(-1)
        from_here_on = np.minimum.accumulate(earliest.reshape(-1)[main][::-1])[::-1]
        line = self.dates[main][1:] > from_here_on[1:]
        found.reshape(-1)[main] = [*line, True]
        found[:, _FORK] |= dates[:, 5] > short_from
        found[:_LONG_BRANCHES, 2] |= (dates[:, _LONG] > long_from)[:_LONG_BRANCHES]
        return found.reshape(-1)

    @cached_property
    def state_of(self) -> Ints:
        """The state of the data at each commit."""
        return np.arange(self.commits, dtype=np.int64) * STATES // self.commits

    @property
    def garbage(self) -> dict[str, str]:
        """What a mark must find, each address with its reason."""
        live = np.unique(self.state_of[self.retained])
        expired = np.setdiff1d(np.arange(STATES), live)
        own = (_SHARED + expired[:, None] * _OWN + np.arange(_OWN)).reshape(-1).tolist()
        lost = range(len(self.keys) - _UNREFERENCED, len(self.keys))
        return dict.fromkeys(map(self.address, own), "expired") | dict.fromkeys(
            map(self.address, lost), "unreferenced"
        )

    # -- files

    def build(self) -> BuiltHistory:
        """All files of the history, in memory: a commit takes some 400 bytes of the refs dump."""
        files: dict[str, bytes] = {}
        shared = self._range(files, [(path_of(i), i) for i in range(_SHARED)])
        metaranges = []
        for state in range(STATES):
            first = _SHARED + state * _OWN
            own = [(f"state/{state:05d}/{i}", first + i) for i in range(_OWN)]
            metarange, data = write_metarange([shared, self._range(files, own)])
            files[f"_lakefs/{metarange}"] = data
            metaranges.append(metarange)
        ids = [CommitId(sha256(b"commit %d" % n).hexdigest()) for n in range(self.commits)]
        heads = self.heads(ids)
        tags = [Tag(TagId("v1"), ids[self.commits // 2])]
        dump = write_refs_dump(RefsDump(self._commits(ids, metaranges), heads, tags))
        states = self.state_of.tolist()
        kept = np.flatnonzero(self.retained).tolist()
        rows = "".join(f"{ids[n]},false,{metaranges[states[n]]}\n" for n in kept)
        csv = f"commit_id,expired,metarange_id\n{rows}".encode()
        return BuiltHistory(self, files, dump, heads, csv)

    def _commits(self, ids: list[CommitId], metaranges: list[MetaRangeId]) -> list[Commit]:
        """The commits; the older half has its main parent last, as lakeFS once wrote them."""
        states, dates = self.state_of.tolist(), self.dates.tolist()
        found = []
        for number, main in enumerate(self.main_parents.tolist()):
            parents = [ids[p] for p in (main, self._other_parent(number)) if p != _NONE]
            version = int(number >= self.commits // 2)
            found.append(
                Commit(
                    id=ids[number],
                    committer="bench",
                    message=f"change number {number} of the data",
                    creation_date=datetime.fromtimestamp(dates[number], UTC),
                    meta_range_id=metaranges[states[number]],
                    parents=tuple(parents if version else parents[::-1]),
                    metadata={"job": f"nightly-{number % 100}"},
                    version=version,
                    generation=number + 1,
                )
            )
        return found

    def _range(self, files: dict[str, bytes], entries: list[tuple[str, int]]) -> WrittenRange:
        written_at = datetime(2024, 1, 1, tzinfo=UTC)
        records = [
            (
                path.encode(),
                join_value(
                    sha256(path.encode()).digest(),
                    Entry(
                        self.address(index), written_at, ENTRY_BYTES, checksum_of(index)
                    ).encode(),
                ),
            )
            for path, index in entries
        ]
        [written] = write_ranges(records)
        files[f"_lakefs/{written.id}"] = written.data
        return written


@dataclass(frozen=True, slots=True)
class BuiltHistory:
    """Files relative to the namespace, the dump of all refs, and the server's list of retained commits."""

    history: LongHistory
    files: dict[str, bytes]
    dump: WrittenRefsDump
    heads: list[BranchHead]
    retained_csv: bytes


def path_of(index: int) -> str:
    """The path of an object that all states have; paths sort as their numbers do."""
    return f"shared/{index:06d}"


def checksum_of(index: int) -> str:
    """An etag, equal for no two objects."""
    return f"{index:032x}"
