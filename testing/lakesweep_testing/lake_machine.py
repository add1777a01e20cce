"""What users do on one repository of the embedded lake, in any order, beside a lake of plain dicts.

State machines of tests inherit these rules and add what operators do.
"""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lakesweep_testing.embedded import MIN_AGE, EmbeddedLake
from lakesweep_testing.model import ModelConflictError, ModelLake
from lakesweep_testing.user import RefusedError, User

__all__ = ["CONTENTS", "PATHS", "LakeMachine"]

PATHS = st.sampled_from(["a", "b", "dir/c", "dir/d"])
CONTENTS = st.sampled_from(["one", "two", "three"])
_NUMBERS = itertools.count()


class LakeMachine(RuleBasedStateMachine):
    """One repository and its model."""

    lake: EmbeddedLake

    @initialize()
    def new_repository(self) -> None:
        self.name = f"repo-{next(_NUMBERS)}"
        self.user: User = self.lake.new_user(self.name)
        self.prefix = f"{self.lake.folder}/{self.name}/"
        self.model = ModelLake(min_age=MIN_AGE)
        first = self.user.head("main")
        self.model.add_commit("main", first, self.now, {}, ())
        self.model.create_branch("main", first)
        self.issued: dict[str, tuple[str, str]] = {}

    # -- helpers

    @property
    def now(self) -> Any:
        return self.lake.clock.now

    def relative(self, address: str) -> str:
        return str(self.lake.file_of(address)).removeprefix(self.prefix)

    def branch_of(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.branches)), label="branch")

    def took_bytes(self, address: str, content: str) -> str:
        """An upload wrote an object: date it by the lake's clock, and tell the model."""
        self.lake.date_file(address)
        relative = self.relative(address)
        self.model.store(relative, content, self.now, len(content))
        return relative

    # -- what users do

    @rule(data=st.data(), path=PATHS, content=CONTENTS)
    def upload(self, data: st.DataObject, path: str, content: str) -> None:
        branch = self.branch_of(data)
        address = self.user.upload(branch, path, content)
        self.model.stage(branch, path, self.took_bytes(address, content))

    @rule(data=st.data(), path=PATHS)
    def delete(self, data: st.DataObject, path: str) -> None:
        branch = self.branch_of(data)
        self.user.delete(branch, path)
        self.model.delete(branch, path)

    @rule(data=st.data(), source=PATHS, destination=PATHS, then_delete=st.booleans())
    def copy_or_rename(
        self, data: st.DataObject, source: str, destination: str, then_delete: bool
    ) -> None:
        branch = self.branch_of(data)
        visible = self.model.visible(branch)
        if (
            source not in visible
            or visible[source] not in self.model.objects
            or source == destination
        ):
            return
        staged = self.model.staged[branch].get(source)
        address = self.user.copy(branch, source, destination)
        relative = self.relative(address)
        if staged is not None:
            assert relative == staged, "a staged object copied within its branch is a shallow copy"
            self.model.track_copy(staged, self.now + timedelta(days=14))
        else:
            self.took_bytes(address, self.model.contents[visible[source]])
        self.model.stage(branch, destination, relative)
        if then_delete:
            self.user.delete(branch, source)
            self.model.delete(branch, source)

    @rule(data=st.data(), path=PATHS)
    def issue_address(self, data: st.DataObject, path: str) -> None:
        branch = self.branch_of(data)
        address = self.user.issue_address(branch, path)
        file = self.lake.file_of(address)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("linked")
        self.model.pending[self.took_bytes(address, "linked")] = self.now + timedelta(hours=24)
        self.issued[address] = (branch, path)

    @precondition(lambda self: bool(self.issued))
    @rule(data=st.data())
    def link(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(sorted(self.issued)), label="address")
        branch, path = self.issued.pop(address)
        relative = self.relative(address)
        usable = (
            branch in self.model.branches and self.model.pending.get(relative, self.now) > self.now
        )
        try:
            self.user.link(branch, path, address, len("linked"), checksum="l")
        except RefusedError:
            assert not usable
            return
        assert usable
        self.model.stage(branch, path, relative)

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        branch = self.branch_of(data)
        try:
            made = self.user.commit(branch, message=f"commit {next(_NUMBERS)}")
        except RefusedError:
            return
        self.model.commit(branch, made, self.now)

    @rule(data=st.data())
    def branch(self, data: st.DataObject) -> None:
        commit = data.draw(st.sampled_from(sorted(self.model.commits)), label="commit")
        name = f"b{next(_NUMBERS)}"
        self.user.branch(name, commit)
        self.model.create_branch(name, commit)

    @rule(data=st.data())
    def drop_branch(self, data: st.DataObject) -> None:
        branch = self.branch_of(data)
        if branch != "main":
            self.user.drop_branch(branch)
            self.model.delete_branch(branch, self.now)

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        branch = self.branch_of(data)
        self.user.reset(branch)
        self.model.reset(branch)

    @rule(data=st.data())
    def tag(self, data: st.DataObject) -> None:
        commit = data.draw(st.sampled_from(sorted(self.model.commits)), label="commit")
        name = f"t{next(_NUMBERS)}"
        self.user.tag(name, commit)
        self.model.tags[name] = commit

    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        source, target = self.branch_of(data), self.branch_of(data)
        if source == target or self.model.staged[target]:
            return
        base = self.user.merge_base(source, target)
        try:
            self.user.merge(source, target)
        except RefusedError:
            return
        self.model.merge(
            self.model.branches[source], target, self.user.head(target), self.now, base
        )

    @rule(data=st.data(), pick=st.booleans())
    def revert_or_cherry_pick(self, data: st.DataObject, pick: bool) -> None:
        branch = self.branch_of(data)
        plain = sorted(c for c, commit in self.model.commits.items() if len(commit.parents) == 1)
        if self.model.staged[branch] or not plain:
            return
        commit = data.draw(st.sampled_from(plain), label="commit")
        act = self.user.cherry_pick if pick else self.user.revert
        try:
            act(branch, commit)
        except RefusedError:
            return
        apply = self.model.cherry_pick if pick else self.model.revert
        try:
            apply(commit, branch, self.user.head(branch), self.now)
        except ModelConflictError as conflict:
            raise AssertionError(f"the lake saw no conflict at {conflict}") from conflict

    @rule(default=st.integers(1, 4), main=st.integers(1, 8) | st.none())
    def set_rules(self, default: int, main: int | None) -> None:
        branches = {} if main is None else {"main": main}
        self.user.set_rules(default, **branches)
        self.model.rules = (default, branches)

    @rule()
    def clear_rules(self) -> None:
        self.user.clear_rules()
        self.model.rules = None

    @rule(hours=st.sampled_from([1, 13, 26, 50, 200]))
    def advance_clock(self, hours: int) -> None:
        self.lake.clock.advance(timedelta(hours=hours))
        self.model.pending = {a: t for a, t in self.model.pending.items() if t > self.now}
