"""The explorer misses no state, and what it finds can be run again."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep_testing.schedules import exploring
from lakesweep_testing.schedules.__main__ import main
from lakesweep_testing.schedules.exploring import Explorer, parse_choices
from lakesweep_testing.schedules.program import Program, all_programs
from lakesweep_testing.schedules.running import Act, Actor, Choice, Run
from lakesweep_testing.schedules.steps import CLOCK, Access, Touch, may_change_staged
from lakesweep_testing.schedules.story import tell
from lakesweep_testing.schedules.taken_along import TakenAlong
from lakesweep_testing.schedules.world import World

pytestmark = pytest.mark.slow


def two_writers(world: World) -> dict[str, Act]:
    def write(actor: Actor) -> None:
        kv = actor.world._stepped_kv
        for key in (b"shared", actor.name.encode()):
            found = kv.get("partition", key)
            kv.set("partition", key, (found or b"") + actor.name.encode())

    def read(actor: Actor) -> None:
        actor.world._stepped_kv.page("partition")

    return {"a": write, "b": write, "reader": read}


def states_of(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> tuple[set[object], int]:
    states: set[object] = set()
    take = Run.take

    def noting(run: Run, choice: Choice) -> None:
        take(run, choice)
        states.add((run.world.fingerprint(), tuple(sorted(run.waiting.items()))))

    with monkeypatch.context() as patched:
        patched.setattr(Run, "take", noting)
        count = explorer.every_schedule(100_000, crashes=False)
    assert count.is_complete
    return states, count.schedules


def test_cut_schedules_leave_no_state_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sleep sets and reads that are taken along cut orders of steps, and not one state between two writes."""
    with Explorer(Program("two-writers", two_writers)) as explorer:
        monkeypatch.setattr(TakenAlong, "may_take", lambda *_: False)
        cut_states, cut = states_of(explorer, monkeypatch)
        monkeypatch.setattr(exploring, "_still_asleep", lambda _: set())
        all_states, every = states_of(explorer, monkeypatch)
    assert cut_states == all_states
    assert cut < every / 4


def test_a_crash_may_come_after_any_step() -> None:
    """An actor that dies after its n-th step has done n steps, for each n but the last."""
    done: set[int] = set()

    def alone(world: World) -> dict[str, Act]:
        def write(actor: Actor) -> None:
            for number in range(4):
                actor.world._stepped_kv.set("partition", b"%d" % number, b"")

        return {"writer": write}

    with Explorer(Program("alone", alone)) as explorer:
        account = explorer._account

        def noting(run: Run, *rest: object) -> None:
            done.add(len(run.taken))
            account(run, *rest)  # type: ignore[arg-type]

        with patch.object(explorer, "_account", noting):
            count = explorer.every_schedule(100)
    assert done == {1, 2, 3, 4}
    assert (count.schedules, count.crashes) == (4, 3)


def test_a_story_can_be_run_again() -> None:
    """The choices of a schedule that did harm, as text, lead to the same harm; its steps are told in words."""
    with (
        patch.object(TrackedCopies, "track", lambda *_: None),
        Explorer(all_programs()["rename-collect"]) as explorer,
    ):
        found = explorer.every_schedule(5_000).found[0]
        again = explorer.replay(parse_choices(found.text))
        at_random = explorer.random_schedules(2_000, seed=5).found[0]
        seeded = explorer.random_schedules(
            1, seed=5, first=int(at_random.seed.split(":")[1])
        ).found[0]
    assert again is not None
    assert (again.harm, tell(again)) == (found.harm, tell(found))
    assert "mover      stages at 'b' on main" in tell(found)
    assert "collector  deletes the object “old”" in tell(found)
    assert tell(seeded) == tell(at_random)


def test_a_look_can_be_overtaken_between_two_entries() -> None:
    """A review reads each staged entry in a step of its own."""
    with Explorer(all_programs()["delete-review"]) as explorer, explorer._counted():
        with explorer._new_run() as run:
            while run.waiting:
                run.take(Choice(min(run.waiting)))  # the deleter first
        pages = [
            step.access
            for step in run.taken
            if step.access.verb == "page" and ":" in step.access.place
        ]
    # Two looks at one token with two rows, and what comes after the last.
    assert len(pages) == 2 * 3


@pytest.mark.parametrize(
    ("place", "key", "is_staged"),
    [
        ("repo-main:token", b"m", True),
        ("repo-1", b"branches/main", True),
        ("repo-1", b"fence", False),
        (CLOCK, "{'days': 1}", False),
    ],
)
def test_steps_that_change_what_is_staged(place: str, key: bytes | str, is_staged: bool) -> None:
    """Writes to tokens and branch records, also as further keys of one transaction; nothing else."""
    access = Access("set", place, key, is_write=True)
    assert may_change_staged(access) == is_staged
    if isinstance(key, bytes):
        also = (Touch(place, key, is_write=True),)
        assert may_change_staged(access._replace(place="x", key=b"", also=also)) == is_staged
        assert not may_change_staged(access._replace(is_write=False))


def test_no_fewer_schedules_are_explored_than_asked_for(tmp_path: Path) -> None:
    """Three among two programs are two of each: a million among 66 was 34 short of it."""
    found = tmp_path / "found.json"
    names = ["--program", "copy-commit", "--program", "copy-collect"]
    assert main([*names, "--schedules", "3", "--json", str(found)]) == 0
    assert [row["schedules"] for row in json.loads(found.read_text())] == [2, 2]
