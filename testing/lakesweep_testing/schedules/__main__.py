"""`python -m lakesweep_testing.schedules`: explore programs, and say how many schedules did harm."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from lakesweep_testing.schedules.exploring import FOR_EVER, Count, Explorer, parse_choices
from lakesweep_testing.schedules.program import Program, all_programs
from lakesweep_testing.schedules.story import tell

_CHUNK = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore; 1 when a schedule did harm that its program does not say it does."""
    options = _parser().parse_args(arguments)
    programs = all_programs()
    names = options.program or list(programs)
    if unknown := [name for name in names if name not in programs]:
        sys.stderr.write(f"no program is called {unknown[0]}; there are {', '.join(programs)}\n")
        return 2
    if options.replay is not None:
        return _replay(programs[names[0]], options.replay)
    results = []
    # Programs that lose data by design show that the search finds losses; that others lose none, they can't show.
    sound = [name for name in names if not programs[name].loses]
    each = math.ceil(options.schedules / max(len(sound), 1))
    for count in _explore_all(names, each, options.seed):
        loses = programs[count.program].loses
        results.append(_row(count, bool(loses)))
        _say(count, loses)
    total = sum(row["schedules"] for row in results if not row["loses_by_design"])
    harm = sum(row["losses"] + row["leaks"] for row in results)
    sys.stdout.write(f"{total:,} schedules, {harm} did harm that nobody knew of\n")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    return 1 if harm else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lakesweep_testing.schedules")
    parser.add_argument(
        "--schedules", type=int, default=20_000, help="of all programs that must lose nothing"
    )
    parser.add_argument("--seed", type=int, default=0, help="of those chosen at random")
    parser.add_argument("--program", action="append", help="only this one; may be repeated")
    parser.add_argument("--json", help="write the counts to this file")
    parser.add_argument("--replay", help="run one schedule: the choices that a story ends with")
    return parser


def _explore_all(names: Sequence[str], each: int, seed: int) -> Iterator[Count]:
    """Every schedule of each program, up to as many runs as its share; what is left of the share at random.

    The first of very many schedules differ in their ends only; those at random differ everywhere, and none is cut off.
    """
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        every = [(name, pool.submit(explore_every, name, each)) for name in names]
        parts = []
        for name, first in every:
            left = each - first.result().schedules
            rest = [
                pool.submit(explore_at_random, name, min(_CHUNK, left - at), seed, at)
                for at in range(0, left, _CHUNK)
            ]
            parts.append([first, *rest])
        for part in parts:
            yield sum((future.result() for future in part[1:]), part[0].result())


def explore_every(name: str, at_most: int) -> Count:
    """Every schedule of a program, in this process."""
    with Explorer(all_programs()[name]) as explorer:
        return explorer.every_schedule(at_most, stop_at=FOR_EVER)


def explore_at_random(name: str, number: int, seed: int, first: int) -> Count:
    """Some schedules at random, in this process."""
    with Explorer(all_programs()[name]) as explorer:
        return explorer.random_schedules(number, seed, first=first, stop_at=FOR_EVER)


def _replay(program: Program, text: str) -> int:
    with Explorer(program) as explorer:
        found = explorer.replay(parse_choices(text))
    sys.stdout.write("no harm was done\n" if found is None else tell(found))
    return 0 if found is None else 1


def _row(count: Count, is_known: bool) -> dict[str, Any]:
    return {
        "program": count.program,
        "loses_by_design": is_known,
        "schedules": count.schedules,
        "pruned": count.pruned,
        "crashes": count.crashes,
        "losses": 0 if is_known else count.losses,
        "known_losses": count.losses if is_known else 0,
        "leaks": count.leaks,
        "is_complete": count.is_complete,
        "seconds": round(count.seconds, 1),
    }


def _say(count: Count, loses: str) -> None:
    whole = "all" if count.is_complete else "some"
    sys.stdout.write(
        f"{count.program:<26} {count.schedules:>8} schedules ({whole}), {count.pruned:>8} pruned,"
        f" {count.crashes:>7} crashes, {count.losses:>5} losses, {count.leaks:>3} leaks,"
        f" {count.seconds:6.1f} s{f'  expected: {loses}' if loses else ''}\n"
    )
    if not loses:
        for found in count.found:
            sys.stdout.write(tell(found))


if __name__ == "__main__":
    sys.exit(main())
