"""Six weeks in the life of a small lake, for the demo: real history on an embedded lake, told as it is written.

The lake's clock stands as far back as the story does and comes forward with it, until it is the machine's own. Files
get the time that the clock shows. No clock ever runs ahead.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakesweep.domain.commits import BranchId
from lakesweep.domain.rules import RetentionRules

if TYPE_CHECKING:
    from lakesweep.lake.lake import Lake

__all__ = ["REPOSITORY", "Event", "Story", "StoryClock"]

REPOSITORY = "shop"
_PERSON = "demo"


class StoryClock:
    """A clock that stands a number of days behind the machine's."""

    def __init__(self, days_ago: float) -> None:
        self._behind = timedelta(days=days_ago)

    def __call__(self) -> datetime:
        return datetime.now(UTC) - self._behind

    def come_forward(self, days_ago: float) -> None:
        """Move on in the story."""
        assert timedelta(days=days_ago) <= self._behind, "time does not run backwards"
        self._behind = timedelta(days=days_ago)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the story."""

    days_ago: int
    said: str


@dataclass
class Story:
    """Writes the history. `fates` says of each address what became of it, as far as the story knows."""

    lake: Lake
    clock: StoryClock
    folder: Path
    fates: dict[str, str] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(2024))
    _dated: set[Path] = field(default_factory=set)
    _now_at: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """The storage namespace's folder."""
        return self.folder / REPOSITORY

    def events(self) -> Iterator[Event]:
        """Write the history, step by step; each step is told when it is done."""
        for days_ago, step in (
            (42, self._opening),
            (35, self._prices_change),
            (33, self._abandoned_upload),
            (28, self._experiment),
            (25, self._experiment_ends),
            (24, self._corrections),
            (20, self._old_regions_go),
            (9, self._recent_change),
            (0, self._today),
        ):
            self.clock.come_forward(days_ago)
            said = step()
            self._date_files()
            yield Event(days_ago, said)

    def relative(self, physical_address: str) -> str:
        """An address as marks name it."""
        return physical_address.removeprefix(f"local://{REPOSITORY}/")

    def _opening(self) -> str:
        rules = RetentionRules(14, {BranchId("main"): 21})
        self.lake.repositories.create(REPOSITORY, f"local://{REPOSITORY}")
        self.lake.rules.set(self.lake.writable(REPOSITORY), rules)
        (self.data / "README.txt").write_text("Not lakeFS's: somebody left this here.\n")
        for region in ("east", "west", "north"):
            self._upload("main", [f"sales/{region}/day-{day:02}.csv" for day in range(1, 16)])
        self._upload("main", [f"prices/item-{item:02}.json" for item in range(1, 11)])
        self._commit("main", "the first fifteen days of sales")
        return "main: sales of three regions and a price list are committed; rules: 21 days on main, 14 elsewhere"

    def _prices_change(self) -> str:
        self._replace("main", [f"prices/item-{item:02}.json" for item in range(1, 11)])
        self._commit("main", "new prices")
        return "main: every price is replaced; the old ones stay for 21 days"

    def _abandoned_upload(self) -> str:
        for name in ("video/1.mp4", "video/2.mp4"):
            issued = self.lake.linking.issue(self.lake.writable(REPOSITORY), "main", name)
            address = self.relative(issued.physical_address)
            path = self.data / address
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._random.randbytes(180_000))
            self.fates[address] = f"{name}: uploaded 33 days ago, never linked"
        return "two large files are uploaded straight to the store, and their job dies before it links them"

    def _experiment(self) -> str:
        self.lake.refs.create_branch(self.lake.writable(REPOSITORY), "experiment", "main")
        self._upload("experiment", [f"model/part-{n}.bin" for n in range(8)], size=60_000)
        self._commit("experiment", "a first model")
        self._replace("experiment", [f"model/part-{n}.bin" for n in range(8)], size=60_000)
        self._commit("experiment", "a better model")
        self.lake.refs.create_branch(self.lake.writable(REPOSITORY), "scratch", "main")
        self._upload("scratch", [f"tmp/join-{n}.parquet" for n in range(12)])
        return "branch experiment: a model, and a better one; branch scratch: twelve files nobody commits"

    def _experiment_ends(self) -> str:
        merged = self.lake.merging.merge(
            self.lake.writable(REPOSITORY), "experiment", "main", committer=_PERSON
        )
        self.commits.append(merged)
        self.lake.branches.delete(self.lake.writable(REPOSITORY), "experiment")
        self._forget_branch("scratch", "staged on a branch deleted 25 days ago")
        self.lake.branches.delete(self.lake.writable(REPOSITORY), "scratch")
        return "experiment is merged into main; experiment and scratch are deleted"

    def _corrections(self) -> str:
        paths = [f"sales/east/day-{day:02}.csv" for day in range(1, 6)]
        self._replace("main", paths)
        for path in paths:
            self._remember(path, "main", "overwritten, uncommitted,")
        self._upload("main", paths)
        self._commit("main", "corrected sales in the east")
        return "main: five days are corrected, in two tries; only the second is committed"

    def _old_regions_go(self) -> str:
        self._delete("main", [f"sales/north/day-{day:02}.csv" for day in range(1, 16)])
        self._commit("main", "the north is closed")
        return "main: a whole region is deleted; 20 days is inside the 21 days of main"

    def _recent_change(self) -> str:
        self._replace("main", [f"sales/west/day-{day:02}.csv" for day in range(1, 4)])
        self._commit("main", "three days again")
        return "main: three days of the west are replaced"

    def _today(self) -> str:
        self._upload("main", ["report/draft.csv", *(f"inbox/{n}.csv" for n in range(6))])
        # A rename under way: a copy that shares its source's object, and then no source any more.
        self.lake.copying.copy(
            self.lake.writable(REPOSITORY), "main", "report/final.csv", "report/draft.csv"
        )
        self.lake.objects.delete_many(self.lake.writable(REPOSITORY), "main", ["report/draft.csv"])
        return "main: six uploads wait for a commit, and a rename is under way"

    def _upload(self, branch: str, paths: Sequence[str], size: int = 8_000) -> None:
        for path in paths:
            content = self._random.randbytes(self._random.randint(size // 2, size * 2))
            stats = self.lake.objects.upload(
                self.lake.writable(REPOSITORY), branch, path, [content]
            )
            self._now_at[branch, path] = self.relative(stats.physical_address)

    def _replace(self, branch: str, paths: Sequence[str], size: int = 8_000) -> None:
        for path in paths:
            self._remember(path, branch, "replaced")
        self._upload(branch, paths, size)

    def _delete(self, branch: str, paths: Sequence[str]) -> None:
        for path in paths:
            self._remember(path, branch, "deleted")
        self.lake.objects.delete_many(self.lake.writable(REPOSITORY), branch, paths)

    def _forget_branch(self, branch: str, why: str) -> None:
        for (on, path), address in self._now_at.items():
            if on == branch:
                self.fates[address] = f"{path}: {why}"

    def _remember(self, path: str, branch: str, what: str) -> None:
        """Note what happens to the object that the path reads now."""
        address = self._now_at.get((branch, path))
        if address is not None and address not in self.fates:
            days = round((datetime.now(UTC) - self.clock()).total_seconds() / 86_400)
            self.fates[address] = f"{path}: {what} {days} days ago"

    def _commit(self, branch: str, message: str) -> None:
        at = self.clock()
        commit = self.lake.committing.commit(
            self.lake.writable(REPOSITORY), branch, message, committer=_PERSON, date=at
        )
        self.commits.append(commit.id)

    def _date_files(self) -> None:
        at = self.clock().timestamp()
        for path in self.data.rglob("*"):
            if path.is_file() and path not in self._dated:
                os.utime(path, (at, at))
                self._dated.add(path)
