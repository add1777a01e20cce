"""What-if on random histories: what any number of days frees is what the reference model, and a mark, say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakesweep.collector.lakefs.collect import run_mark
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.lakefs.request import Flow, MarkRequest, What, WhatIfRequest
from lakesweep.collector.lakefs.what_if.fates import Fate, FateMeeting, Fates
from lakesweep.collector.lakefs.what_if.what_if import PRESENT_RULES, run_what_if
from lakesweep.collector.run_files import MarkId
from lakesweep.domain.commits import BranchId
from lakesweep.domain.rules import RetentionRules
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import Curve, WhatIf
from lakesweep.formats.hashing import hash_address
from lakesweep.formats.tables import read_mark
from lakesweep.storage import StorageOptions
from lakesweep.storage.memory import memory_container
from lakesweep_testing.embedded import MIN_AGE, EmbeddedLake
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.model import ModelLake
from lakesweep_testing.scene import ANY_CLOCK, old_lake
from lakesweep_testing.user import RefusedError, User

_NUMBERS = itertools.count()
_PATHS = ("a", "b", "x/c", "x/y/d", "x/y/e", "z/f")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLake]:
    with old_lake(tmp_path_factory.mktemp("lake")) as lake:
        yield lake


class History:
    """What users do to one repository, as chance has it, told to the model as well."""

    def __init__(self, lake: EmbeddedLake, chance: Random) -> None:
        self.lake, self.chance = lake, chance
        self._numbers = itertools.count()
        self.name = f"what-if-{next(_NUMBERS)}"
        memory_container(self.name).clock = lake.clock
        self.user = User.create(lake.api, self.name, f"mem://{self.name}/ns", lake.clock)
        self.model = ModelLake(min_age=MIN_AGE)
        first = self.user.head("main")
        self.model.add_commit("main", first, lake.clock.now, {}, ())
        self.model.create_branch("main", first)

    def act(self, times: int) -> None:
        verbs: Sequence[Callable[[], None]] = (
            *(self._upload, self._upload, self._upload, self._commit, self._commit, self._commit),
            *(self._delete, self._wait, self._wait, self._wait, self._branch, self._drop_branch),
            *(self._hard_reset, self._tag, self._rename, self._pending),
        )
        for _ in range(times):
            with suppress(RefusedError):
                self.chance.choice(verbs)()

    def context(self) -> RunContext:
        return open_repository(
            self.lake.client,
            self.name,
            StorageOptions(),
            InProcessEngine(),
            margins=ANY_CLOCK,
            clock=self.lake.clock,
        )

    def _relative(self, address: str) -> str:
        return address.removeprefix(f"mem://{self.name}/ns/")

    def _branch_name(self) -> str:
        return self.chance.choice(list(self.model.branches))

    def _commit_id(self) -> str:
        return self.chance.choice(list(self.model.commits))

    def _upload(self) -> None:
        branch, path = self._branch_name(), self.chance.choice(_PATHS)
        content = f"{next(self._numbers)} " * self.chance.randrange(1, 50)
        address = self._relative(self.user.upload(branch, path, content))
        self.model.store(address, content, self.lake.clock.now, len(content))
        self.model.stage(branch, path, address)

    def _delete(self) -> None:
        branch, path = self._branch_name(), self.chance.choice(_PATHS)
        self.user.delete(branch, path)
        self.model.delete(branch, path)

    def _commit(self) -> None:
        branch = self._branch_name()
        commit = self.user.commit(branch, message=f"commit {next(self._numbers)}")
        # Servers keep whole seconds of the date they are given.
        self.model.commit(branch, commit, self.lake.clock.now.replace(microsecond=0))

    def _branch(self) -> None:
        name, commit = f"b{next(self._numbers)}", self._commit_id()
        self.user.branch(name, commit)
        self.model.create_branch(name, commit)

    def _drop_branch(self) -> None:
        branch = self._branch_name()
        if branch != "main":
            self.user.drop_branch(branch)
            self.model.delete_branch(branch, self.lake.clock.now)

    def _hard_reset(self) -> None:
        branch, commit = self._branch_name(), self._commit_id()
        self.user.hard_reset(branch, commit)
        self.model.hard_reset(branch, commit, self.lake.clock.now)

    def _tag(self) -> None:
        name, commit = f"t{next(self._numbers)}", self._commit_id()
        self.user.tag(name, commit)
        self.model.tags[name] = commit

    def _rename(self) -> None:
        branch, path = self._branch_name(), self.chance.choice(_PATHS)
        address = self.model.staged[branch].get(path)
        if address is not None:
            self.user.copy(branch, path, "renamed")
            self.model.track_copy(address, self.lake.clock.now + timedelta(days=14))
            self.model.stage(branch, "renamed", address)
            self.user.delete(branch, path)
            self.model.delete(branch, path)

    def _pending(self) -> None:
        address = self._relative(self.user.issue_address("main", "pending"))
        memory_container(self.name).store(f"ns/{address}", b"12345")
        self.model.store(address, "12345", self.lake.clock.now, 5)
        self.model.pending[address] = self.lake.clock.now + timedelta(hours=24)

    def _wait(self) -> None:
        self.lake.clock.advance(timedelta(hours=self.chance.choice([1, 20, 24, 60])))


class Asked:
    """A what-if, and what it says of every single object."""

    def __init__(self, history: History, request: WhatIfRequest) -> None:
        self._found: list[Fates] = []
        with pytest.MonkeyPatch.context() as patch:
            fates = FateMeeting.fates

            def spy(meeting: FateMeeting, references: pa.Table, listed: pa.Table) -> Fates:
                self._found.append(fates(meeting, references, listed))
                return self._found[-1]

            patch.setattr(FateMeeting, "fates", spy)
            self.result: WhatIf = run_what_if(history.context(), request)

    def freed(self, days: int, question: int) -> set[int]:
        """Hashes of what goes with so many days by one of the questions."""
        goes: set[int] = set()
        for found in self._found:
            unreferenced = found.hashes[found.fates == Fate.UNREFERENCED]
            dated = found.hashes[found.is_dated][found.least_days[:, question] > days]
            goes |= {*unreferenced.tolist(), *dated.tolist()}
        return goes


@pytest.mark.slow
@settings(
    max_examples=max(1, settings().max_examples // 50),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32), default=st.integers(1, 9), own=st.integers(0, 9))
def test_every_number_of_days_frees_what_the_model_and_a_mark_say(
    lake: EmbeddedLake, seed: int, default: int, own: int
) -> None:
    """The same objects, for days of all branches, of one branch, with tags kept, and for files of rules."""
    # Servers tell times in whole seconds; a move within the same second as the model's time would count as kept.
    lake.clock.advance(timedelta(days=30) - timedelta(microseconds=lake.clock.now.microsecond))
    history = History(lake, Random(seed))
    history.act(50)
    # Histories move by whole hours, and a server's log of head moves has whole milliseconds: no end is just now.
    lake.clock.advance(timedelta(minutes=30))
    model, now = history.model, lake.clock.now
    model.pending = {a: until for a, until in model.pending.items() if until > now}
    history.user.set_rules(default)
    branch = history._branch_name()
    rules = RetentionRules(default, {BranchId(branch): own})
    request = WhatIfRequest(
        min_age=MIN_AGE,
        allow_lower_min_age=True,
        rules=(("other.json", rules),),
        branches=(branch,),
        depth=history.chance.randrange(3),
    )
    asked = Asked(history, request)
    result = asked.result

    def assert_is_garbage(
        question: int, days: int, said: Tally, *, keep_tags: bool = False
    ) -> None:
        garbage = model.garbage(now, keep_tags=keep_tags)
        assert asked.freed(days, question) == {hash_address(a) for a in garbage}
        size = sum(model.objects[a].size for a in garbage)
        assert said + result.unreferenced == Tally(len(garbage), size)

    number = 1 if model.tags else 0
    for days in range(0, 40):
        model.rules = (days, {})
        assert_is_garbage(0, days, result.curve.at(days))
        if result.with_tags_kept is not None:
            assert_is_garbage(1, days, result.with_tags_kept.at(days), keep_tags=True)
        model.rules = (default, {branch: days})
        assert_is_garbage(number + 3, days, result.branch_days[0].curve.at(days))
    for at, (name, of_model) in enumerate(
        [(PRESENT_RULES, (default, {})), ("other.json", (default, {branch: own}))]
    ):
        model.rules = of_model
        assert result.rules[at].name == name
        assert_is_garbage(number + 1 + at, 0, result.rules[at].freed)
        assert result.rules[at].retained_commits == len(model.retained(now))
    for kind in ("branch", "path", "age", "size"):
        whole = sum((g.curve for g in result.groups if g.kind == kind), Curve())
        assert all(whole.at(days) == result.curve.at(days) for days in range(40))

    days = history.chance.randrange(1, 12)
    history.user.set_rules(days)
    for what in (What.ALL, What.COMMITTED):
        marked = run_mark(
            history.context(),
            MarkRequest(what, Flow.CLEAN, min_age=MIN_AGE, allow_lower_min_age=True),
        )
        again = Asked(history, replace(request, what=what))
        store = history.context().store
        keys = store.keys(mark_folder(MarkId(marked.mark_id)))
        rows = [row for key in keys for row in read_mark(store.read(key)).to_pylist()]
        assert again.result.freed(days) == Tally(len(rows), sum(r["size_bytes"] for r in rows))
        in_commits = {hash_address(r["address"]) for r in rows if r["reason"] == "expired"}
        dated = again.freed(days, 0) - again.freed(10**6, 0)
        assert dated == in_commits
