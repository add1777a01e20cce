"""Traces against the rejected proposals, drawn step by step for a page."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from lakesweep_testing.schedules.exploring import FOR_EVER, Explorer, Found
from lakesweep_testing.schedules.program import Program
from lakesweep_testing.schedules.rejected.proposals import PROPOSALS
from lakesweep_testing.schedules.story import describe

_AT_MOST = 5_000
_PART = re.compile(r"(<!-- trace: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def find_shortest(program: Program) -> Found | None:
    """Of all schedules that lose something, one with the fewest steps and changes of actors; None when there is none."""
    with Explorer(program) as explorer:
        explorer.most_stories = _AT_MOST
        count = explorer.every_schedule(_AT_MOST, crashes=False, stop_at=FOR_EVER)
    assert count.is_complete, f"{program.name} has more than {_AT_MOST} schedules"
    return min(count.found, key=_length, default=None)


def _length(found: Found) -> tuple[int, int, str]:
    actors = [step.choice.actor for step in found.taken]
    changes = sum(a != b for a, b in pairwise(actors))
    return len(actors), changes, found.text


def draw(found: Found) -> str:
    """A table: a row for each step, in the column of the actor that takes it."""
    actors = list(dict.fromkeys(step.choice.actor for step in found.taken))
    lines = [f"| | {' | '.join(actors)} |", f"|---|{'---|' * len(actors)}"]
    for number, step in enumerate(found.taken, start=1):
        words = describe(step.access, found.labels)
        cells = [words if actor == step.choice.actor else "" for actor in actors]
        lines.append(f"| {number} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"Lost: {found.harm.text}.", ""])


@lru_cache
def draw_all() -> dict[str, str]:
    """The drawing for each proposal by its name."""
    drawn = {}
    for program in PROPOSALS:
        found = find_shortest(program)
        drawn[program.name] = "No schedule loses anything.\n" if found is None else draw(found)
    return drawn


def put_into(page: str) -> str:
    """A page with its drawings made anew."""
    drawn = draw_all()
    return _PART.sub(lambda part: f"{part[1]}\n{drawn[part[2]]}\n{part[3]}", page)
