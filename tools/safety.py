"""Run what shows that nothing live is lost, and write docs/explanation/safety.md from what it found.

    make safety                                        # everything; hours
    make safety ARGS="--only faults,kills"             # some parts; the others keep what was found before
    make safety ARGS="--scale 0.01"                    # a hundredth of everything, in minutes
    make safety ARGS="--scale 0.01 --no-page"          # and the page stays as it is

What each part found is kept in docs/explanation/safety.json with its time, version and seed. The exit status is 1 when
something was lost, went wrong, or was not noticed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from mutations import has_test

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "explanation"

Numbers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of proof: the command that makes it, and the numbers in the file that the command writes."""

    name: str
    command: Callable[[float, int, Path], list[str]]
    numbers: Callable[[Any], Numbers]
    seconds: Callable[[Any], float]


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(int(row[name]) for row in rows)


def _schedules(scale: float, seed: int, to: Path) -> list[str]:
    count = str(max(1000, round(1_000_000 * scale)))
    return [*_module("schedules"), "--schedules", count, "--seed", str(seed), "--json", str(to)]


def _faults(scale: float, seed: int, to: Path) -> list[str]:
    # By so many, every run gets a fault at each of its operations, of which a Nessie catalog's have two to five.
    count = str(max(50, round(11_000 * scale)))
    return [*_module("fault_search"), "--injections", count, "--seed", str(seed), "--json", str(to)]


def _kills(scale: float, seed: int, to: Path) -> list[str]:
    return [
        *_module("kill_search"),
        "--share",
        str(min(1.0, scale)),
        "--seed",
        str(seed),
        "--json",
        str(to),
    ]


def _mutations(scale: float, seed: int, to: Path) -> list[str]:
    words = [] if scale >= 1 else ["faults"]
    jobs = str((os.cpu_count() or 1) + 1)  # each waits now and then
    return [sys.executable, "tools/mutations.py", "--jobs", jobs, "--json", str(to), *words]


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"lakesweep_testing.{name}"]


def _schedule_numbers(rows: Any) -> Numbers:
    # What loses data by design (a sweep without its fence) is no proof that nothing is lost, and is told apart.
    sound = [row for row in rows if not row["loses_by_design"]]
    others = [row for row in rows if row["loses_by_design"]]
    return {
        "programs": len(sound),
        "losing_by_design": len(others),
        "lost_by_design": sum(row["known_losses"] > 0 for row in others),
        **{name: _sum(sound, name) for name in ("schedules", "crashes", "losses", "leaks")},
        "complete": _sum(sound, "is_complete"),
    }


def _fault_numbers(rows: Any) -> Numbers:
    names = ("injections", "right", "errors", "unseen", "losses")
    return {
        "runs": len(rows),
        **{name: _sum(rows, name) for name in names},
        "wrong": sum(len(row["wrong"]) for row in rows),
    }


def _kill_numbers(rows: Any) -> Numbers:
    return {
        "series": len(rows),
        "kills": _sum(rows, "kills"),
        "survived": _sum(rows, "survived"),
        "losses": sum(len(row["wrong"]) for row in rows),
    }


def _mutation_numbers(found: Any) -> Numbers:
    return {name: found[name] for name in ("entries", "caught", "survived", "not_tried")}


def _row_seconds(rows: Any) -> float:
    return sum(float(row["seconds"]) for row in rows)


PARTS = {
    part.name: part
    for part in (
        Part("schedules", _schedules, _schedule_numbers, _row_seconds),
        Part("faults", _faults, _fault_numbers, _row_seconds),
        Part("kills", _kills, _kill_numbers, _row_seconds),
        Part("mutations", _mutations, _mutation_numbers, lambda found: float(found["seconds"])),
    )
}
# What a number stands for in a result that has to be 0.
HARM = ("losses", "leaks", "wrong")


def run_part(part: Part, scale: float, seed: int, root: Path = ROOT) -> Numbers:
    """Run a part's command; what it found, with the time, the version and the seed."""
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "found.json"
        began = time.monotonic()
        status = subprocess.run(part.command(scale, seed, to), cwd=root, check=False).returncode
        found = json.loads(to.read_text("utf-8")) if to.is_file() else None
    if found is None:
        raise SystemExit(f"{part.name}: the command ended with {status} and wrote no result")
    return {
        **part.numbers(found),
        "status": status,
        "seed": seed,
        "scale": scale,
        "version": importlib.metadata.version("lakesweep"),
        "measured": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(time.monotonic() - began),
    }


def is_harmless(found: Numbers) -> bool:
    """Whether a part found nothing that should not be."""
    return found["status"] == 0 and not any(found.get(name) for name in HARM)


def bytes_lost(results: Mapping[str, Numbers]) -> str:
    """What is said of losses, over all parts that were run."""
    if not results:
        return "not measured yet"
    losses = sum(int(found.get("losses", 0)) for found in results.values())
    return "0" if not losses else f"more than 0: {losses} cases"


def page(results: Mapping[str, Numbers], mistakes: Sequence[Mapping[str, Any]]) -> str:
    """The page, in Markdown."""
    lines = [
        "# What shows that nothing live is lost",
        "",
        "Written by `make safety` from `safety.json`, which has what each part found when it was last run.",
        "",
        "| what | how much | measured | version | seed | took |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            f"| {_WHAT[name]} | {_said(name, results[name])} | {_when(results[name])} |"
            if name in results
            else f"| {_WHAT[name]} | not measured yet | | | | |"
            for name in PARTS
        ),
        "",
        f"**Bytes lost: {bytes_lost(results)}.**",
        "",
        *_EXPLAINED,
        "## Mistakes of the official programs that the suite reproduces",
        "",
        "In each of these situations an official program deletes what is live, or says that it did what it did not. A test here",
        "makes the situation and shows that lakesweep does neither. *Running*: the program was run in that situation, and did",
        "it. *Source*: its source says so; it was not run. Versions are those that were looked at; later ones may differ.",
        "",
        "| program | what it does | seen | test |",
        "| --- | --- | --- | --- |",
        *(
            f"| {one['program']} | {one['what']} | {one['seen']} | {'<br>'.join(f'`{t}`' for t in one['tests'])} |"
            for one in mistakes
        ),
    ]
    return "\n".join(lines) + "\n"


_WHAT = {
    "schedules": "schedules explored",
    "faults": "faults injected",
    "kills": "crashes survived",
    "mutations": "mutations caught",
}
_EXPLAINED = (
    "- **Schedules**: real code of the embedded lake and a collection run beside each other, one access to a store at a time,",
    "  in every order or in orders by chance, with crashes in between.",
    "- **Faults**: each run on each catalog is made from the same state again and again, and at one of its operations (a request",
    "  to an object store or to a server, a statement or commit to the database of live sets) one thing goes wrong: an error, a",
    "  time-out, throttling, a page that is cut, empty, repeated or out of date, a broken answer, a bulk delete that fails",
    "  half-way, 25 minutes that pass, a request that is carried out twice, a clock that is three hours off, a disk that is",
    "  full, a lock that never comes, a lost connection. The run must end *right*, or with a *clear error* after which nothing",
    "  live is gone and a later run finishes the work. *Unseen* are listings that left objects out without a word: nobody can",
    "  know, the objects stay, and a later run finds them.",
    "- **Crashes**: `kill -9` of a driver, a task or a lake server after one of its writes, also to its database; the next",
    "  process goes on, and the end is the same.",
    "- **Mutations**: known mistakes, put into a copy of the source one by one; each must make a test fail.",
    "",
    'One part alone: `make safety ARGS="--only faults"`; a hundredth of all: `make safety ARGS="--scale 0.01 --no-page"`.',
    "",
)


def _said(name: str, found: Numbers) -> str:
    match name:
        case "schedules":
            return (
                f"{found['schedules']:,} of {found['programs']} programs, with {found['crashes']:,} crashes: "
                f"{found['losses']} losses, {found['leaks']} leaks{_beside(found)}"
            )
        case "faults":
            return (
                f"{found['injections']:,} in {found['runs']} kinds of runs: {found['right']:,} ended right, {found['errors']:,} "
                f"with a clear error, {found['unseen']:,} unseen, {found['wrong']} wrong, {found['losses']} losses"
            )
        case "kills":
            return (
                f"{found['survived']:,} of {found['kills']:,}, in {found['series']} kinds of runs"
            )
    return f"{found['caught']:,} of {found['entries']:,}"


def _beside(found: Numbers) -> str:
    """Programs explored to the end, and those that lose data by design; results of before they were told apart say nothing."""
    if "losing_by_design" not in found:
        return ""
    return (
        f"; {found['complete']} programs to the end. Of {found['losing_by_design']} that lose data by design, "
        f"{found['lost_by_design']} did"
    )


def _when(found: Numbers) -> str:
    took = f"{found['seconds'] // 60} min" if found["seconds"] >= 120 else f"{found['seconds']} s"
    return f"{found['measured']} | {found['version']} | {found['seed']} | {took}"


def read_mistakes(root: Path = ROOT) -> list[dict[str, Any]]:
    """The official programs' mistakes; refuses one whose test is gone."""
    text = (root / "docs" / "explanation" / "safety-mistakes.toml").read_text("utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["mistake"]
    gone = [test for one in found for test in one["tests"] if not has_test(root, test)]
    if gone:
        raise SystemExit(f"safety-mistakes.toml names tests that are not there: {', '.join(gone)}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Run parts, keep what they found, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    parser.add_argument("--scale", type=float, default=1.0, help="of everything")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-page", action="store_true", help="print, and write nothing")
    given = parser.parse_args(arguments)
    names = [name for name in given.only.split(",") if name]
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no part is called {unknown[0]}; there are {', '.join(PARTS)}")
    mistakes = read_mistakes()
    kept = FOLDER / "safety.json"
    results: dict[str, Numbers] = json.loads(kept.read_text("utf-8")) if kept.is_file() else {}
    for name in names:
        results[name] = run_part(PARTS[name], given.scale, given.seed)
        if not given.no_page:
            # At once: a long part that was run is not run again because a later one broke off.
            kept.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
            (FOLDER / "safety.md").write_text(page(results, mistakes), "utf-8")
        print(f"{_WHAT[name]}: {_said(name, results[name])}", flush=True)
    print(f"bytes lost: {bytes_lost({name: results[name] for name in names})}")
    return 0 if all(is_harmless(results[name]) for name in names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
