"""The lake against a lake of dicts: whatever users do, in whatever order, both hold the same."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakesweep.lake.errors import (
    DirtyBranchError,
    MergeConflictError,
    MissingError,
    NoChangesError,
    PreconditionFailedError,
)
from lakesweep_testing.lakes import LakeRepo

# Content and user metadata: what makes two entries the same to lakeFS.
Thing = tuple[bytes, str]
Tree = dict[str, Thing]

PATHS = st.sampled_from(["a", "b", "d/1", "d/2", "d/e/3", "z"])
CONTENTS = st.sampled_from([b"", b"one", b"two"])
BRANCHES = ["main", "dev", "fix"]


@dataclass
class ModelBranch:
    """A branch of dicts: the head's tree, and what is staged over it (None = deleted)."""

    head: str
    staged: dict[str, Thing | None] = field(default_factory=dict)


class LakeMachine(RuleBasedStateMachine):
    """Rules are the verbs of users."""

    @initialize()
    def create(self) -> None:
        self.repo = LakeRepo(slice_max_size=5).create()
        self.lake = self.repo.lake
        first = self.lake.refs.resolve(self.lake.repositories.get(self.repo.id), "main").commit_id
        # In the order they were made: ids differ from run to run, and choices must not.
        self.trees: dict[str, Tree] = {first: {}}
        self.branches = {"main": ModelBranch(first)}

    # -- what the model says

    def tree(self, branch: str) -> Tree:
        model = self.branches[branch]
        laid_over = {**self.trees[model.head], **model.staged}
        return {path: thing for path, thing in laid_over.items() if thing is not None}

    def changes(self, branch: str) -> dict[str, Thing | None]:
        """What of the staged makes a difference to the head."""
        model = self.branches[branch]
        head = self.trees[model.head]
        return {p: t for p, t in model.staged.items() if head.get(p) != t}

    def any_branch(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.branches)))

    def committed(self, branch: str, commit_id: str, tree: Tree) -> None:
        self.trees[commit_id] = tree
        self.branches[branch].head = commit_id

    # -- objects

    @rule(data=st.data(), path=PATHS, content=CONTENTS, if_absent=st.booleans())
    def upload(self, data: st.DataObject, path: str, content: bytes, if_absent: bool) -> None:
        branch = self.any_branch(data)
        is_refused = if_absent and path in self.tree(branch)
        try:
            self.repo.put(path, content, branch, if_absent=if_absent)
            assert not is_refused
            self.branches[branch].staged[path] = (content, "")
        except PreconditionFailedError:
            assert is_refused

    @rule(data=st.data(), path=PATHS, content=CONTENTS)
    def link(self, data: st.DataObject, path: str, content: bytes) -> None:
        branch = self.any_branch(data)
        at = self.lake.linking.issue(self.lake.writable(self.repo.id), branch, path)
        self.repo.store.write(self.repo.relative(at.physical_address), content)
        self.lake.linking.link(
            self.lake.writable(self.repo.id),
            branch,
            path,
            at.physical_address,
            checksum=content.hex() or "none",
            size_bytes=len(content),
            metadata={"m": "linked"},
        )
        self.branches[branch].staged[path] = (content, "linked")

    @rule(data=st.data(), paths=st.lists(PATHS, max_size=3))
    def delete(self, data: st.DataObject, paths: list[str]) -> None:
        branch = self.any_branch(data)
        assert not self.lake.objects.delete_many(self.lake.writable(self.repo.id), branch, paths)
        tree = self.tree(branch)
        self.branches[branch].staged.update({path: None for path in paths if path in tree})

    @rule(data=st.data(), source=PATHS, dest=PATHS)
    def copy(self, data: st.DataObject, source: str, dest: str) -> None:
        branch, source_branch = self.any_branch(data), self.any_branch(data)
        thing = self.tree(source_branch).get(source)
        try:
            self.lake.copying.copy(
                self.lake.writable(self.repo.id), branch, dest, source, src_ref=source_branch
            )
            assert thing is not None
            self.branches[branch].staged[dest] = thing
        except MissingError:
            assert thing is None

    @rule(data=st.data(), path=PATHS)
    def set_metadata(self, data: st.DataObject, path: str) -> None:
        branch = self.any_branch(data)
        thing = self.tree(branch).get(path)
        try:
            self.lake.copying.set_user_metadata(
                self.lake.writable(self.repo.id), branch, path, {"m": "set"}
            )
            assert thing is not None
            self.branches[branch].staged[path] = (thing[0], "set")
        except MissingError:
            assert thing is None

    # -- history

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        branch = self.any_branch(data)
        tree, has_changes = self.tree(branch), bool(self.changes(branch))
        self.repo.clock.advance(seconds=1)
        try:
            commit_id = self.repo.commit(branch)
            assert has_changes
            self.committed(branch, commit_id, tree)
            self.branches[branch].staged = {}
        except NoChangesError:
            assert not has_changes

    @precondition(lambda self: len(self.branches) < len(BRANCHES))
    @rule(data=st.data())
    def create_branch(self, data: st.DataObject) -> None:
        name = next(name for name in BRANCHES if name not in self.branches)
        source = data.draw(st.sampled_from(list(self.trees)))
        self.lake.refs.create_branch(self.lake.writable(self.repo.id), name, source)
        self.branches[name] = ModelBranch(source)

    @precondition(lambda self: len(self.branches) > 1)
    @rule(data=st.data())
    def delete_branch(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(set(self.branches) - {"main"})))
        self.lake.branches.delete(self.lake.writable(self.repo.id), name)
        del self.branches[name]

    @rule(data=st.data())
    def hard_reset(self, data: st.DataObject) -> None:
        branch = self.any_branch(data)
        target = data.draw(st.sampled_from(list(self.trees)))
        sealed = self.lake.branches.head(
            self.lake.repositories.get(self.repo.id), branch
        ).sealed_tokens
        try:
            self.lake.resetting.hard_reset(self.lake.writable(self.repo.id), branch, target)
            # What is staged as the old head has it is let go of.
            self.branches[branch].staged = self.changes(branch)
            self.branches[branch].head = target
        except DirtyBranchError:
            assert sealed

    @rule(data=st.data(), strategy=st.sampled_from(["", "dest-wins", "source-wins"]))
    def merge(self, data: st.DataObject, strategy: str) -> None:
        source, destination = self.any_branch(data), self.any_branch(data)
        base_id = self.lake.merging.merge_base(
            self.lake.repositories.get(self.repo.id), source, destination
        ).base_commit_id
        base = self.trees[base_id]
        theirs = self.trees[self.branches[source].head]
        ours = self.trees[self.branches[destination].head]
        merged, conflicts = dict(ours), []
        for path in {*base, *theirs}:
            if theirs.get(path) == base.get(path) or theirs.get(path) == ours.get(path):
                continue
            if ours.get(path) != base.get(path):
                conflicts.append(path)
                if strategy != "source-wins":
                    continue
            merged.pop(path, None)
            if path in theirs:
                merged[path] = theirs[path]
        self.repo.clock.advance(seconds=1)
        try:
            commit_id = self.lake.merging.merge(
                self.lake.writable(self.repo.id),
                source,
                destination,
                committer="me",
                strategy=strategy,
            )
            assert not self.changes(destination)
            assert not conflicts or strategy
            assert base != theirs or base_id != self.branches[source].head
            self.committed(destination, commit_id, merged)
            self.branches[destination].staged = {}
        except DirtyBranchError:
            assert self.changes(destination)
        except NoChangesError:
            assert base == theirs
        except MergeConflictError:
            assert conflicts
            assert not strategy

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        branch = self.any_branch(data)
        self.lake.resetting.reset(self.lake.writable(self.repo.id), branch, "reset")
        self.branches[branch].staged = {}

    @rule(data=st.data(), prefix=st.sampled_from(["", "d/", "d/e", "z"]))
    def reset_prefix(self, data: st.DataObject, prefix: str) -> None:
        branch = self.any_branch(data)
        self.lake.resetting.reset(self.lake.writable(self.repo.id), branch, "common_prefix", prefix)
        staged = self.branches[branch].staged
        self.branches[branch].staged = {p: t for p, t in staged.items() if not p.startswith(prefix)}

    @rule(minutes=st.sampled_from([1, 61, 60 * 25]))
    def wait_and_tidy(self, minutes: int) -> None:
        self.repo.clock.advance(minutes=minutes)
        self.lake.housekeeping.run()

    # -- what holds after every step

    @invariant()
    def branches_hold_what_the_model_says(self) -> None:
        for branch in self.branches:
            page = self.lake.objects.list_page(self.lake.repositories.get(self.repo.id), branch)
            found = {
                entry.path: (self.repo.read(entry.path, branch), entry.metadata.get("m", ""))
                for entry in page.results
            }
            assert found == self.tree(branch)

    @invariant()
    def staged_differences_are_the_models(self) -> None:
        for branch in self.branches:
            diff = self.lake.diffing.diff_uncommitted(
                self.lake.repositories.get(self.repo.id), branch
            ).results
            assert {entry.path for entry in diff} == set(self.changes(branch))

    @invariant()
    def everything_visible_is_live_to_a_collector(self) -> None:
        live = set(self.repo.uncommitted()) | self.repo.committed()
        for branch in self.branches:
            assert {self.repo.address(path, branch) for path in self.tree(branch)} <= live

    @precondition(lambda self: len(self.trees) > 1)
    @rule(data=st.data())
    def commits_never_change(self, data: st.DataObject) -> None:
        commit_id = data.draw(st.sampled_from(list(self.trees)))
        contents = self.repo.contents(commit_id)
        assert contents == {path: thing[0] for path, thing in self.trees[commit_id].items()}


LakeMachine.TestCase.settings = settings(stateful_step_count=25)
TestLakeAgainstDicts = pytest.mark.slow(LakeMachine.TestCase)
