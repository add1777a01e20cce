"""The acts of the demo. Each runs what its command would run, shows it, and checks what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.values import ObjectState
from lakesweep.cli.demo_story import REPOSITORY, Story
from lakesweep.cli.render import print_text
from lakesweep.collector.lakefs.backup_restore import list_parts, run_backup, run_restore
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.opening import open_run, outside_target
from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.collector.record import RunRecord
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import MarkId
from lakesweep.engine.tasks import Engine
from lakesweep.errors import LakesweepError
from lakesweep.formats.tables import read_mark
from lakesweep.progress import human_bytes
from lakesweep.report.text import run_text
from lakesweep.settings.values import Settings

__all__ = ["Acts"]

_MARK = MarkId("demo")


@dataclass(frozen=True, slots=True)
class _OnDisk:
    """Files and their bytes."""

    files: int
    size: int

    @classmethod
    def count(cls, namespace: Path) -> _OnDisk:
        """What lies in the storage namespace, lakeFS's own metadata aside, counted in the folder itself."""
        sizes = [
            path.stat().st_size
            for path in namespace.rglob("*")
            if path.is_file() and path.relative_to(namespace).parts[0] != "_lakefs"
        ]
        return cls(len(sizes), sum(sizes))


@dataclass(frozen=True, slots=True)
class Acts:
    """The steps of the demo on its embedded lake."""

    story: Story
    settings: Settings
    engine: Engine
    client: LakeFSClient

    def play(self) -> None:
        """Everything, from the first commit to the last sum."""
        self._write_history()
        before = _OnDisk.count(self.story.data)
        marked = self._mark()
        reasons = self._explain(marked)
        self._back_up(marked)
        swept = self._sweep(marked)
        self._read_everything(reasons)
        restored = self._restore_one(reasons)
        self._run_again()
        self._add_up(before, swept, restored)

    def _write_history(self) -> None:
        _title("Six weeks of history on an embedded lake")
        for event in self.story.events():
            when = f"{event.days_ago} days ago" if event.days_ago else "today"
            print_text(f"{when:>11}  {event.said}")

    def _mark(self) -> RunRecord:
        _title("What is garbage?", f"mark {REPOSITORY} --mark-id {_MARK}")
        record = self._run(lambda context: run_mark(context, MarkRequest(mark_id=_MARK)))
        print_text(run_text(record))
        return record

    def _explain(self, marked: RunRecord) -> dict[str, str]:
        """Show one object of each fate; the reasons of all that are marked."""
        _title("Which objects, and why?")
        reasons: dict[str, str] = {}
        with open_run(self.settings, REPOSITORY, self.engine) as context:
            for part in list_parts(context.store, mark_folder(_MARK)):
                for row in read_mark(context.store.read(part.key)).to_pylist():
                    reasons[row["address"]] = row["reason"]
        told: dict[str, list[str]] = {}
        for address, reason in sorted(reasons.items()):
            path, _, fate = self.story.fates[address].rpartition(": ")
            told.setdefault(f"{reason:<12}  {fate}", []).append(path)
        for fate, paths in sorted(told.items()):
            shown = f"{paths[0]}" if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
            print_text(f"{len(paths):>4}  {fate:<55}  {shown}")
        _check(len(reasons) == marked.objects["garbage"], "the mark holds what its record says")
        return reasons

    def _back_up(self, marked: RunRecord) -> None:
        _title(
            "Keep a copy first",
            f"backup {REPOSITORY} --mark-id {_MARK} --to {self._backup.as_uri()}",
        )
        place = outside_target(self.settings, self._backup.as_uri())
        record = self._run(lambda context: run_backup(context, _MARK, place))
        print_text(f"{record.objects['copied']} objects copied, each compared with its original")
        _check(
            record.objects["copied"] == marked.objects["garbage"], "all that is marked is copied"
        )

    def _sweep(self, marked: RunRecord) -> RunRecord:
        _title("Delete it", f"sweep {REPOSITORY} --mark-id {_MARK}")
        record = self._run(lambda context: run_sweep(context, _MARK, SweepRequest()))
        _check(record.objects["deleted"] == marked.objects["garbage"], "all that is marked is gone")
        print_text("What is live was read again first. Nothing had come back to life.")
        freed = human_bytes(record.bytes["freed"])
        print_text(f"{record.objects['deleted']} objects deleted, {freed} freed")
        return record

    def _read_everything(self, reasons: Mapping[str, str]) -> None:
        """Through the server: an object is gone if and only if the mark named it."""
        _title("Can everything that is live still be read?")
        readable = gone = 0
        for ref, path, address in self._entries():
            state = self.client.object_state(REPOSITORY, ref, path)
            wanted = ObjectState.GONE if address in reasons else ObjectState.READABLE
            _check(state is wanted, f"{path} at {ref} is {state.value}, and {wanted.value} was due")
            if wanted is ObjectState.GONE and not gone:
                print_text(f"GET {path} as of {ref[:12]} → 410 Gone")
            gone += wanted is ObjectState.GONE
            readable += wanted is ObjectState.READABLE
        print_text(
            f"{readable} reads of live objects, on every branch and at every commit: all answered"
        )
        print_text(f"{gone} reads of expired objects: all 410 Gone; the commits themselves stay")

    def _restore_one(self, reasons: Mapping[str, str]) -> RunRecord:
        ref, path, address = next(entry for entry in self._entries() if entry[2] in reasons)
        _title(
            "One of them was needed after all",
            f"restore {REPOSITORY} --mark-id {_MARK} --from {self._backup.as_uri()} --address {address}",
        )
        place = outside_target(self.settings, self._backup.as_uri())
        record = self._run(lambda context: run_restore(context, _MARK, place, [address]))
        state = self.client.object_state(REPOSITORY, ref, path)
        print_text(f"GET {path} as of {ref[:12]} → {state.value} again")
        _check(state is ObjectState.READABLE, "what was restored reads")
        return record

    def _run_again(self) -> None:
        _title("Run it again", f"gc {REPOSITORY}")
        record = self._run(lambda context: run_gc(context, MarkRequest(), SweepRequest()))
        print_text(
            f"nothing to do: {record.objects['listed']} objects that may have changed were listed, "
            f"{record.objects['garbage']} are garbage, {record.objects['young']} is young, which is what was restored"
        )
        _check(record.objects["garbage"] == 0, "a second run finds nothing")

    def _add_up(self, before: _OnDisk, swept: RunRecord, restored: RunRecord) -> None:
        _title("The numbers add up")
        deleted = _OnDisk(swept.objects["deleted"], swept.bytes["deleted"])
        back = _OnDisk(restored.objects["copied"], restored.bytes["copied"])
        after = _OnDisk.count(self.story.data)
        for sign, count, said in (
            (" ", before, "in the namespace before"),
            ("−", deleted, "deleted, says the sweep's record"),
            ("+", back, "restored, says the restore's record"),
            ("=", after, "in the namespace now, counted in the folder itself"),
        ):
            print_text(f"{sign} {count.files:>4,} files  {count.size:>11,} bytes  {said}")
        due = _OnDisk(
            before.files - deleted.files + back.files, before.size - deleted.size + back.size
        )
        _check(after == due, "the files on disk are what the records say")

    @property
    def _backup(self) -> Path:
        return self.story.folder / "backup"

    def _run(self, work: Callable[[RunContext], RunRecord]) -> RunRecord:
        with open_run(self.settings, REPOSITORY, self.engine) as context:
            return work(context)

    def _entries(self) -> Iterator[tuple[str, str, str]]:
        """(ref, path, address) of every object at every commit of the story and on every branch."""
        refs = [*self.story.commits, *(b.id for b in self.client.branches(REPOSITORY))]
        for ref in refs:
            for entry in self.client.list_objects(REPOSITORY, ref):
                yield ref, entry.path, self.story.relative(entry.physical_address)


def _title(title: str, command: str = "") -> None:
    print_text(f"\n── {title} {'─' * max(3, 76 - len(title))}")
    if command:
        print_text(f"$ lakesweep {command}")


def _check(is_so: bool, what: str) -> None:
    """A demo that lies is a bug."""
    if not is_so:
        raise LakesweepError(f"The demo expected that {what}, and it is not so.", kind="bug")
