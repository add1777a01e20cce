"""Explanations of every object of random histories, held against the model, against marks, and against later marks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.run_files import MarkId
from lakesweep.domain.explanations import Explanation, Said
from lakesweep.formats.tables import read_mark
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.lake_machine import CONTENTS, PATHS, LakeMachine

MOMENT = timedelta(microseconds=1)
# Verbs in the proportion in which they make histories with something of every kind.
VERBS = (
    *("upload",) * 8,
    *("commit",) * 5,
    *("wait",) * 4,
    *("delete",) * 3,
    *("copy", "issue", "issue", "link", "branch", "branch", "drop_branch", "drop_branch"),
    *("merge", "undo", "reset", "rules", "rules", "gc"),
)


class Explained(LakeMachine):
    """One repository and its model, whose objects are explained. Its rules are called one by one."""

    def begin(self) -> None:
        self.new_repository()
        self.swept: set[str] = set()
        self.runs: set[str] = set()

    def do(self, verb: str, data: st.DataObject) -> None:
        """One of the verbs of users, or of operators, with whatever it needs drawn."""
        match verb:
            case "upload":
                self.upload(data, data.draw(PATHS), data.draw(CONTENTS))
            case "delete":
                self.delete(data, data.draw(PATHS))
            case "copy":
                self.copy_or_rename(data, data.draw(PATHS), data.draw(PATHS), True)
            case "issue":
                self.issue_address(data, data.draw(PATHS))
            case "link" if self.issued:
                self.link(data)
            case "rules":
                self.set_rules(data.draw(st.integers(1, 4)), data.draw(st.integers(1, 8)))
            case "wait":
                self.advance_clock(data.draw(st.sampled_from([1, 13, 26, 50])))
            case "undo":
                self.revert_or_cherry_pick(data, data.draw(st.booleans()))
            case "gc":
                self.gc()
            case "commit" | "branch" | "drop_branch" | "reset" | "merge":
                getattr(self, verb)(data)

    def marked(self) -> dict[str, str]:
        """What a mark now takes, with its reasons."""
        # A copy is tracked until the lake's upkeep comes by, which a clock that jumps leaves behind.
        self.lake.server.lake.housekeeping.run()
        record = self.lake.mark(self.name, MarkRequest(flow=Flow.CLEAN))
        store = self.lake.open_run(self.name).store
        rows = [
            row
            for key in store.keys(mark_folder(MarkId(record.mark_id)))
            for row in read_mark(store.read(key)).to_pylist()
        ]
        return {row["address"]: row["reason"] for row in rows}

    def explained(self) -> dict[str, Explanation]:
        """Explanations of every address that there ever was."""
        addresses = sorted(self.model.contents)
        if not addresses:
            return {}
        self.lake.server.lake.housekeeping.run()
        found = self.lake.explain(self.name, *addresses).objects
        assert [e.asked for e in found] == addresses
        return {e.address: e for e in found}

    def explain_everything(self) -> None:
        marked, found = self.marked(), self.explained()
        live = self.model.live(self.now)
        for address, explanation in found.items():
            said = explanation.said
            assert not explanation.unread
            if address in self.swept:
                assert said is Said.DELETED, explanation
                assert explanation.deletion is not None
                assert explanation.deletion.run_id in self.runs
            elif address in live:
                assert said is Said.LIVE, explanation
                assert address not in marked
                self.check_holders(address, explanation)
            else:
                assert (said is Said.GARBAGE) == (address in marked), explanation
                # A commit that was refused leaves its staged entries sealed: marks keep what they hold until the next one.
                is_sealed = any(h.kind == "staged" for h in explanation.outside)
                assert said in (Said.GARBAGE, Said.YOUNG) or is_sealed, explanation
                assert explanation.reason == marked.get(address, "")

    def check_holders(self, address: str, explanation: Explanation) -> None:
        """The branches and commits that are named are those that hold it."""
        staged = {
            (branch, path)
            for branch, entries in self.model.staged.items()
            for path, at in entries.items()
            if at == address
        }
        assert {(h.branch, h.path) for h in explanation.outside if h.kind == "staged"} >= staged
        retained = self.model.retained(self.now)
        named = {line.branch: line for line in explanation.commits}
        for branch, head in self.model.branches.items():
            line, at = [], head
            while True:
                if address in self.model.commits[at].entries.values():
                    line.append(at)
                if not (parents := self.model.commits[at].parents):
                    break
                at = parents[0]
            assert (branch in named) == bool(line)
            if line:
                told = named[branch]
                assert (told.last.id, told.first.id) == (line[0], line[-1])
                assert (told.commits, told.retained) == (len(line), len(retained & set(line)))
                assert self.model.commits[told.last.id].entries[told.last.path] == address

    def gc(self) -> None:
        self.lake.server.lake.housekeeping.run()
        record = self.lake.gc(self.name)
        gone = {a for a in self.model.objects if not Path(self.prefix + a).exists()}
        self.model.sweep(gone)
        self.swept |= gone
        self.runs.add(record.run_id)

    def pass_day(self, day: datetime) -> None:
        going = {a for a, e in self.explained().items() if e.goes_at == day}
        self.set_clock(day - MOMENT)
        assert not going & self.marked().keys()
        self.set_clock(day)
        assert going <= self.marked().keys()

    def set_clock(self, time: datetime) -> None:
        self.lake.clock.now = time
        self.model.pending = {a: t for a, t in self.model.pending.items() if t > self.now}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLake]:
    with EmbeddedLake(tmp_path_factory.mktemp("lake")) as lake:
        yield lake


@pytest.mark.slow
@pytest.mark.timeout(3600)  # a hundred examples, of a nightly run, take their time
@settings(
    max_examples=max(3, settings().max_examples // 20), suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_explanations_agree_with_marks_and_name_the_day(
    lake: EmbeddedLake, data: st.DataObject
) -> None:
    """What is said of an object is what a mark says now, and the day that is named is the first on which one takes it."""
    # Users date their commits by whole seconds, and the model would know better.
    lake.clock.now = datetime.now(UTC).replace(microsecond=0) - timedelta(days=400)
    Explained.lake = lake
    story = Explained()
    story.begin()
    for _ in range(2):
        for verb in data.draw(st.lists(st.sampled_from(VERBS), min_size=14, max_size=14)):
            story.do(verb, data)
        story.explain_everything()
    for _ in range(2):
        days = sorted({e.goes_at for e in story.explained().values() if e.goes_at is not None})
        if days:
            story.pass_day(data.draw(st.sampled_from(days), label="day"))
            story.explain_everything()
