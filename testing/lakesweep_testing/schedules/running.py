"""One schedule: actors that take turns, one step at a time, in an order that somebody else chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from greenlet import GreenletExit, getcurrent, greenlet

from lakesweep.errors import LakesweepError
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import Repository
from lakesweep_testing.schedules.invariants import Watch
from lakesweep_testing.schedules.references import References
from lakesweep_testing.schedules.stepped_store import SteppedStore
from lakesweep_testing.schedules.steps import CLOCK, Access
from lakesweep_testing.schedules.world import World


class Choice(NamedTuple):
    """Who takes the next step, and whether it is that actor's last because it dies right after it."""

    actor: str
    dies: bool = False

    def __str__(self) -> str:
        return f"{self.actor}!" if self.dies else self.actor


@dataclass(eq=False)
class Actor:
    """Somebody who does something: a user of one server, or a collection. Programs are made of functions of it."""

    name: str
    world: World
    watch: Watch
    lake: Lake

    @property
    def repository(self) -> Repository:
        """The one repository."""
        return self.world.repository

    @property
    def store(self) -> SteppedStore:
        """The repository's object store."""
        return self.world.store

    def promise(self, ref: str, path: str, content: str) -> None:
        """The user was told that this content is at the path: it must be there at the end, if it was theirs alone."""
        takers = self.world.takers.get((ref, path), set()) | self.world.takers.get((ref, ""), set())
        if takers <= {self.name}:
            self.world.promises[(ref, path)] = content.encode()

    def withdraw(self, ref: str, path: str = "") -> None:
        """The user is about to take the path away, or to overwrite it; without a path, all of the ref's."""
        self.world.takers.setdefault((ref, path), set()).add(self.name)
        for known in list(self.world.promises):
            if known == (ref, path) or (known[0] == ref and not path):
                del self.world.promises[known]

    def pass_time(self, **by: float) -> None:
        """The clock moves, for everybody; a step of its own."""
        self.world._step(Access("pass_time", CLOCK, str(by), is_write=True))
        self.world.pass_time(**by)


Act = Callable[[Actor], None]
"""What an actor does, from its first step to its last."""


class Taken(NamedTuple):
    """A step that was taken: who, and what it touched."""

    choice: Choice
    access: Access


@dataclass(eq=False)
class Run:
    """A schedule under way. `waiting` has the next step of everybody who has one; `take` lets one of them go on."""

    world: World
    references: References
    acts: dict[str, Act]
    lakes: dict[str, Lake]
    model: Callable[[World], str] | None = None
    taken: list[Taken] = field(default_factory=list)
    waiting: dict[str, Access] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)
    """How each actor that came to its end did so: "done", or why it was refused."""

    def __enter__(self) -> Run:
        self.world.put_back()
        self.watch = Watch(self.world, self.references, self.model)
        self._hub = getcurrent()
        self._greenlets: dict[str, greenlet] = {}
        self._is_over = False
        self.world.at_each_access(self._wait_for_turn)
        self._numbers = {name: number for number, name in enumerate(self.acts, start=1)}
        for name, act in self.acts.items():
            self._begin(name, act)
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over = True
        for unfinished in self._greenlets.values():
            if not unfinished.dead:
                unfinished.throw(GreenletExit)
        self.world.names.actor = 0
        self.world.undisturbed()

    def take(self, choice: Choice) -> None:
        """Let an actor take its next step, and go on to the one after it."""
        access = self.waiting.pop(choice.actor)
        self.taken.append(Taken(choice, access))
        self.watch.before(access)
        self._go_on(choice.actor)
        self.watch.after(choice.actor, access)
        if choice.dies:
            self.kill(choice.actor)

    def kill(self, actor: str) -> None:
        """The actor never goes on."""
        if self.waiting.pop(actor, None) is not None:
            self.dead.add(actor)
            last = self.taken[-1]
            self.taken[-1] = Taken(Choice(actor, dies=True), last.access)

    def _begin(self, name: str, act: Act) -> None:
        lake = self.lakes[name]
        self.world.restart(lake)
        actor = Actor(name, self.world, self.watch, lake)

        def live() -> None:
            try:
                act(actor)
                self.ended[name] = "done"
            except LakesweepError as refused:
                self.ended[name] = f"refused: {refused.message}"

        self._greenlets[name] = greenlet(live)
        self._go_on(name)

    def _go_on(self, name: str) -> None:
        """Run an actor up to its next access, or to its end."""
        self.world.names.actor = self._numbers[name]
        access = self._greenlets[name].switch()
        self.world.names.actor = 0
        if access is not None:
            self.waiting[name] = access

    def _wait_for_turn(self, access: Access) -> None:
        if getcurrent() is self._hub:
            return  # a check of ours, between two steps
        if self._is_over:
            raise GreenletExit
        self._hub.switch(access)
        if self._is_over:
            raise GreenletExit
