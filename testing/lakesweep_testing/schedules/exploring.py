"""All schedules of a program, up to the order of steps that do not depend on each other; or many, at random.

The search goes depth first and runs each schedule from the beginning. Sleep sets cut it: once all that follows from an
actor's step was seen, no sibling needs to take that very step before something it depends on has happened. They cut
schedules, never states: every state that can be reached is reached, so checks after each step see all there is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

from lakesweep_testing.schedules.ending import harm_at_the_end
from lakesweep_testing.schedules.invariants import Harm
from lakesweep_testing.schedules.names import counted_names
from lakesweep_testing.schedules.program import Program
from lakesweep_testing.schedules.references import References
from lakesweep_testing.schedules.remembering import remembered_files
from lakesweep_testing.schedules.running import Act, Choice, Run, Taken
from lakesweep_testing.schedules.steps import Access, are_dependent, is_private
from lakesweep_testing.schedules.taken_along import TakenAlong
from lakesweep_testing.schedules.world import World

_MOST_STORIES = 3
_CRASH_EVERY = 4  # of schedules at random, one in so many has a crash
_MOST_CHANGES = 4
_USUAL_STEPS = 20
_GO_ON = 0.6  # how likely the actor of the last step takes the next one, too


FOR_EVER = 1 << 62
"""As `stop_at`: however many schedules do harm, go on."""


@dataclass(frozen=True, slots=True)
class Found:
    """A schedule that did harm: what harm, and the choices that lead there."""

    program: str
    harm: Harm
    choices: tuple[Choice, ...]
    taken: tuple[Taken, ...]
    labels: dict[str, str]  # contents of objects by address
    seed: str = ""

    @property
    def text(self) -> str:
        """The choices as one text, which `parse_choices` reads."""
        runs = [(str(choice), len(list(same))) for choice, same in groupby(self.choices)]
        return ".".join(f"{name}*{times}" if times > 1 else name for name, times in runs)


@dataclass
class Count:
    """What an exploration has seen."""

    program: str
    schedules: int = 0
    pruned: int = 0
    crashes: int = 0
    steps: int = 0
    losses: int = 0
    leaks: int = 0
    seconds: float = 0.0  # of a processor
    is_complete: bool = False
    found: list[Found] = field(default_factory=list)
    """The first of those that did harm."""

    @property
    def harms(self) -> int:
        """Schedules that did harm."""
        return self.losses + self.leaks

    def __add__(self, other: Count) -> Count:
        return Count(
            self.program,
            self.schedules + other.schedules,
            self.pruned + other.pruned,
            self.crashes + other.crashes,
            self.steps + other.steps,
            self.losses + other.losses,
            self.leaks + other.leaks,
            self.seconds + other.seconds,
            self.is_complete or other.is_complete,
            (self.found + other.found)[:_MOST_STORIES],
        )


@dataclass(slots=True)
class _Node:
    """A state on the way: who could take which step, who need not, who has, and who does now."""

    waiting: dict[str, Access]
    asleep: set[str]
    choice: Choice
    may_die: bool
    done: set[str] = field(default_factory=set)

    def next_choice(self) -> Choice | None:
        """What to do here after the present choice, or None when all was done."""
        if self.may_die and not self.choice.dies:
            return Choice(self.choice.actor, dies=True)
        self.done.add(self.choice.actor)
        return next((Choice(a) for a in self.waiting if a not in self.asleep | self.done), None)


class Explorer:
    """One program in a world of its own. `with Explorer(program) as explorer:`"""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.world = World(keep_tags=program.keep_tags, hard_delete=program.hard_delete)
        self.acts: dict[str, Act] = {}
        self._along = TakenAlong()
        self._longest = _USUAL_STEPS
        self.most_stories = _MOST_STORIES

    def __enter__(self) -> Explorer:
        with self._counted():
            self.world.begin()
            self.acts = self.program.set_up(self.world)
            self.world.keep_as_first_state()
            self.references = References(self.world)
            self._lakes = {name: self.world.new_lake() for name in self.acts}
        return self

    def __exit__(self, *error: object) -> None:
        self.world.close()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with counted_names(self.world.names, self.world.clock), remembered_files():
            yield

    def every_schedule(self, at_most: int, *, crashes: bool = True, stop_at: int = 1) -> Count:
        """Run every schedule, or the first ones; stop once so many have done harm.

        Args:
            at_most: how many runs, with those that were cut off because all that follows was seen.
        """
        began = time.process_time()
        with self._counted():
            while True:
                self._along.is_outdated = False
                count = self._search(at_most, crashes, stop_at)
                if not self._along.is_outdated:
                    break
        count.seconds = time.process_time() - began
        return count

    def _search(self, at_most: int, crashes: bool, stop_at: int) -> Count:
        count, path = Count(self.program.name), list[_Node]()
        while count.schedules + count.pruned < at_most and count.harms < stop_at:
            self._follow(path, count, crashes)
            if self._along.is_outdated:
                break
            if not _turn_back(path):
                count.is_complete = True
                break
        return count

    def random_schedules(
        self, number: int, seed: int, *, first: int = 0, stop_at: int = 1
    ) -> Count:
        """Run schedules chosen at random: those numbered `first` and on of a seed."""
        count = Count(self.program.name)
        began = time.process_time()
        with self._counted():
            self._measure()
            for at in range(first, first + number):
                self._at_random(f"{seed}:{at}", count)
                if count.harms >= stop_at:
                    break
        count.seconds = time.process_time() - began
        return count

    def replay(self, choices: Sequence[Choice]) -> Found | None:
        """Run one schedule: those choices first, then everybody to the end in turn. What harm it did, if any.

        A choice of an actor that has come to its end is passed over: the code may have changed since.
        """
        count = Count(self.program.name)
        with self._counted():
            with self._new_run() as run:
                for choice in choices:
                    if run.watch.harm is None and choice.actor in run.waiting:
                        run.take(choice)
                while run.waiting and run.watch.harm is None:
                    run.take(Choice(next(iter(run.waiting))))
            self._account(run, count)
        return count.found[0] if count.found else None

    def _measure(self) -> None:
        """How many choices a schedule has, from one in which everybody goes on to the end."""
        with self._new_run() as run:
            choices = 0
            while run.waiting and run.watch.harm is None:
                _take_with(run, Choice(next(iter(run.waiting))), _is_private)
                choices += 1
        self._longest = max(choices, 2)

    def _new_run(self) -> Run:
        return Run(self.world, self.references, self.acts, self._lakes, self.program.check)

    def _follow(self, path: list[_Node], count: Count, crashes: bool) -> None:
        """Go along a path and on from its end, adding a node for each step, until nobody is left or harm was done."""
        has_died = False
        with self._new_run() as run:
            for node in path:
                self._take(run, node.choice)
                has_died |= node.choice.dies
            while run.waiting and run.watch.harm is None:
                asleep = _still_asleep(path[-1]) if path else set()
                awake = [actor for actor in run.waiting if actor not in asleep]
                if not awake:
                    count.pruned += 1
                    return
                last = path[-1].choice.actor if path else ""
                choice = Choice(last if last in awake else awake[0])
                node = _Node(dict(run.waiting), asleep, choice, crashes and not has_died)
                path.append(node)
                self._take(run, choice)
                # Whoever dies after its last step might as well live.
                node.may_die &= choice.actor in run.waiting
        self._account(run, count)

    def _take(self, run: Run, choice: Choice) -> None:
        """One step, and those behind it that nobody else's steps depend on."""
        self._along.note(choice.actor, run.waiting[choice.actor])
        _take_with(run, choice, self._along.may_take)

    def _at_random(self, seed: str, count: Count) -> None:
        chance = random.Random(f"{self.program.name}:{seed}")
        pick = _coin(chance) if chance.randrange(2) else _ranks(chance, self.acts, self._longest)
        crash_at = chance.randrange(1, self._longest) if chance.randrange(_CRASH_EVERY) == 0 else -1
        with self._new_run() as run:
            while run.waiting and run.watch.harm is None:
                crash_at -= 1
                # What was learned from other schedules takes no part: a seed means the same wherever it runs.
                _take_with(run, Choice(pick(list(run.waiting)), dies=crash_at == 0), _is_private)
        self._account(run, count, seed)

    def _account(self, run: Run, count: Count, seed: str = "") -> None:
        harm = run.watch.harm
        if harm is None and self.program.check is None:
            harm = harm_at_the_end(run.watch)
        count.schedules += 1
        count.crashes += len(run.dead)
        count.steps += len(run.taken)
        if harm is None:
            return
        if harm.is_leak:
            count.leaks += 1
        else:
            count.losses += 1
        if len(count.found) < self.most_stories:
            choices = tuple(step.choice for step in run.taken)
            labels = self.world.labels()
            found = Found(self.program.name, harm, choices, tuple(run.taken), labels, seed)
            count.found.append(found)


def _take_with(run: Run, choice: Choice, goes_along: Callable[[str, Access], bool]) -> None:
    actor = choice.actor
    run.take(Choice(actor))
    while actor in run.waiting and run.watch.harm is None and goes_along(actor, run.waiting[actor]):
        run.take(Choice(actor))
    if choice.dies:
        run.kill(actor)


def _is_private(_: str, access: Access) -> bool:
    return is_private(access)


def _coin(chance: random.Random) -> Callable[[list[str]], str]:
    """Anybody may take the next step, most likely whoever took the last."""
    last = ""

    def pick(names: list[str]) -> str:
        nonlocal last
        if last not in names or chance.random() >= _GO_ON:
            last = chance.choice(names)
        return last

    return pick


def _ranks(
    chance: random.Random, actors: Iterable[str], longest: int
) -> Callable[[list[str]], str]:
    """Whoever ranks highest goes on, until a moment chosen before: then it ranks lowest.

    Few changes of actors at moments that are all as likely find what needs just these few changes.
    """
    ranking = list(actors)
    chance.shuffle(ranking)
    moments = {chance.randrange(longest) for _ in range(chance.randint(1, _MOST_CHANGES))}
    at = -1

    def pick(names: list[str]) -> str:
        nonlocal at
        at += 1
        first = next(name for name in ranking if name in names)
        if at in moments and len(names) > 1:
            ranking.remove(first)
            ranking.append(first)
            first = next(name for name in ranking if name in names)
        return first

    return pick


def _still_asleep(node: _Node) -> set[str]:
    """Whose next step was explored before, and does not depend on the step just taken."""
    step = node.waiting[node.choice.actor]
    candidates = (node.asleep | node.done) - {node.choice.actor}
    return {actor for actor in candidates if not are_dependent(node.waiting[actor], step)}


def _turn_back(path: list[_Node]) -> bool:
    """Go back to the last node with something left to do, and choose that; False when there is none."""
    while path:
        choice = path[-1].next_choice()
        if choice is not None:
            path[-1].choice = choice
            return True
        path.pop()
    return False


def parse_choices(text: str) -> list[Choice]:
    """The choices in a text such as `mover*2.collector!.mover`."""
    choices = []
    for word in filter(None, text.split(".")):
        name, _, times = word.partition("*")
        choices += [Choice(name.removesuffix("!"), name.endswith("!"))] * int(times or 1)
    return choices
