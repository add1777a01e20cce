"""Rounds of a sweep while users do anything: each later round says what judging the same rows anew would say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakesweep.collector import sweep as sweep_module
from lakesweep.collector.lakefs import sweep as lakefs_sweep
from lakesweep.collector.lakefs.collect import run_sweep
from lakesweep.collector.lakefs.live import Roots
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.lakefs.request import What
from lakesweep.collector.lakefs.verification import Reverified, verify_plan
from lakesweep.collector.parts import Part
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.resources import Resources
from lakesweep.formats.tables import read_mark
from lakesweep.storage import ObjectStore
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.rounds import OneChunkARound
from lakesweep_testing.scene import AGED, Scene, assert_adds_up, old_lake
from lakesweep_testing.trouble import MeddlingTransport, as_a_real_server
from lakesweep_testing.user import RefusedError

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLake]:
    with old_lake(tmp_path_factory.mktemp("lake")) as lake:
        yield lake


class Users:
    """Do one thing or another to a repository, as chance has it."""

    def __init__(self, scene: Scene, chance: Random) -> None:
        self._user = scene.user
        self._clock = scene.lake.clock
        self._chance = chance
        self._commits = [scene.expired_commit, scene.retained_commit]
        self._names = itertools.count()

    def act(self, times: int) -> None:
        verbs: Sequence[Callable[[], None]] = (
            self._upload,
            self._delete,
            self._commit,
            self._commit,
            self._branch,
            self._drop_branch,
            self._merge,
            self._revert,
            self._cherry_pick,
            self._hard_reset,
            self._reset,
            self._tag,
            self._rules,
            self._wait,
        )
        for _ in range(times):
            with suppress(RefusedError):  # conflicts, nothing to commit, staged changes
                self._chance.choice(verbs)()

    def _any_branch(self) -> str:
        return self._chance.choice(self._user.branches())

    def _any_commit(self) -> str:
        return self._chance.choice(self._commits)

    def _any_path(self) -> str:
        return self._chance.choice(["a", "b", "base", "expired-0", "expired-1", "z"])

    def _upload(self) -> None:
        self._user.upload(self._any_branch(), self._any_path(), self._chance.choice(["1", "2"]))

    def _delete(self) -> None:
        self._user.delete(self._any_branch(), self._any_path())

    def _commit(self) -> None:
        self._commits.append(self._user.commit(self._any_branch()))

    def _branch(self) -> None:
        self._user.branch(f"b{next(self._names)}", self._any_commit())

    def _drop_branch(self) -> None:
        branch = self._any_branch()
        if branch != "main":
            self._user.drop_branch(branch)

    def _merge(self) -> None:
        target = self._any_branch()
        self._user.merge(self._any_commit(), target)
        self._commits.append(self._user.head(target))

    def _revert(self) -> None:
        branch = self._any_branch()
        self._user.revert(branch, self._any_commit())
        self._commits.append(self._user.head(branch))

    def _cherry_pick(self) -> None:
        branch = self._any_branch()
        self._user.cherry_pick(branch, self._any_commit())
        self._commits.append(self._user.head(branch))

    def _hard_reset(self) -> None:
        self._user.hard_reset(self._any_branch(), self._any_commit())

    def _reset(self) -> None:
        self._user.reset(self._any_branch())

    def _tag(self) -> None:
        self._user.tag(f"t{next(self._names)}", self._any_commit())

    def _rules(self) -> None:
        self._user.set_rules(self._chance.choice([0, 5, 30, 3650]))

    def _wait(self) -> None:
        self._clock.advance(timedelta(hours=self._chance.choice([1, 30, 100])))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a round says of every row."""

    garbage: frozenset[tuple[str, str]]  # with the reason
    revived: frozenset[str]
    undecided: frozenset[str]
    absent: frozenset[str]
    refused: Any
    done: Any
    root_names: bool

    @classmethod
    def of(cls, store: ObjectStore, authorised: Reverified) -> Verdicts:
        def rows(parts: Sequence[Part]) -> list[dict[str, str]]:
            return [r for p in parts for r in read_mark(store.read(p.key)).to_pylist()]

        def addresses(parts: Sequence[Part]) -> frozenset[str]:
            return frozenset(row["address"] for row in rows(parts))

        return cls(
            frozenset((row["address"], row["reason"]) for row in rows(authorised.parts)),
            addresses(authorised.kept.revived_parts),
            addresses(authorised.kept.undecided_parts),
            addresses(authorised.absent),
            authorised.kept.refused,
            authorised.done,
            authorised.root_names,
        )


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(
    max_examples=max(5, settings().max_examples // 10),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    seed=st.integers(0, 2**32),
    what=st.sampled_from(What),
    keep_tags=st.booleans(),
    is_real=st.booleans(),
    steps=st.lists(st.integers(0, 6), min_size=2, max_size=5),
)
def test_a_later_round_says_what_judging_all_anew_says(
    lake: EmbeddedLake, seed: int, what: What, keep_tags: bool, is_real: bool, steps: list[int]
) -> None:
    """Every row gets the verdict that a first round would give it now, with the reason."""
    lake.clock.advance(timedelta(days=30))
    scene = Scene(lake, f"rounds-{next(_NUMBERS)}", each=4)
    users = Users(scene, Random(seed))
    transport: MeddlingTransport | None = as_a_real_server() if is_real else None
    later_rounds = 0

    def verify_both(
        repository: LakeFSRepository,
        resources: Resources,
        plan: Plan,
        marks: Sequence[str],
        roots: Roots,
        *,
        trust_dates: bool,
        before: Reverified | None = None,
    ) -> Reverified:
        nonlocal later_rounds
        look = partial(
            verify_plan, repository, resources, plan, roots=roots, trust_dates=trust_dates
        )
        found = look(marks, before=before)
        if before is not None:
            later_rounds += 1
            left = [part.key for part in before.parts]
            anew = look(left)
            store = resources.store
            assert Verdicts.of(store, found) == Verdicts.of(store, anew)
        return found

    def between(number: int) -> None:
        users.act(steps.pop() if steps else 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_module, "_ROWS_PER_CHUNK", 1)
        patch.setattr(lakefs_sweep, "verify_plan", verify_both)
        users.act(3)
        marked = scene.mark(replace(AGED, what=what, keep_tags=keep_tags))
        engine = OneChunkARound(scene, between)
        context = scene.context(engine=engine, transport=transport)
        swept = run_sweep(context, marked.mark_id, SweepRequest(max_delete_share=100))
    scene.close()
    assert swept.status in (RunStatus.SWEPT, RunStatus.NOTHING_TO_DO)
    assert_adds_up(swept)
    assert later_rounds >= engine.rounds - 1
