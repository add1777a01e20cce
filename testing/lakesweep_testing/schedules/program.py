"""Programs by name: who does what beside whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from lakesweep_testing.schedules.world import World

if TYPE_CHECKING:
    from lakesweep_testing.schedules.running import Act

SetUp = Callable[[World], "dict[str, Act]"]
Check = Callable[[World], str]


@dataclass(frozen=True, slots=True)
class Program:
    """A small program: what was there before, and what its actors do. `loses` says why it is expected to lose data."""

    name: str
    set_up: SetUp
    loses: str = ""
    keep_tags: bool = False
    hard_delete: bool = False
    check: Check | None = (
        None  # of a model: what is wrong with its world, instead of what must hold in a lake
    )

    @property
    def story(self) -> str:
        """What the program is about."""
        return (self.set_up.__doc__ or "").strip().splitlines()[0]


PROGRAMS: dict[str, Program] = {}


def program(
    name: str, *, loses: str = "", keep_tags: bool = False, hard_delete: bool = False
) -> Callable[[SetUp], SetUp]:
    """Register a function as a program. It prepares the world and returns what each actor does, by the actor's name."""

    def add(set_up: SetUp) -> SetUp:
        register(Program(name, set_up, loses, keep_tags, hard_delete))
        return set_up

    return add


def register(new: Program) -> None:
    """Make a program known by its name."""
    assert new.name not in PROGRAMS, f"two programs are called {new.name}"
    PROGRAMS[new.name] = new


def all_programs() -> dict[str, Program]:
    """Every program of the `programs` folder by its name."""
    folder = import_module("lakesweep_testing.schedules.programs")
    for module in iter_modules(folder.__path__):
        import_module(f"{folder.__name__}.{module.name}")
    return PROGRAMS
