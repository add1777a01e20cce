"""Put known mistakes into a copy of the source, one at a time, and expect the named tests to fail.

Every tests/mutations/*.toml lists mistakes: `name`, `file`, `find` (a text that occurs once in the file), `replace`
and `tests` (pytest names). A guard whose mistake no test notices is a guard that may be lost unseen.

    make mutations                          # all, and docs/reference/mutations.md is written anew
    make mutations ARGS="lakefs"            # those of tests/mutations/lakefs.toml
    make mutations ARGS="'last look'"       # those with these words in their name
    make mutations ARGS="--jobs 2"          # two at once, each in a copy of its own
    make mutations ARGS="--only-changed"    # those that were not caught before as they are now
    make mutations ARGS="--kept"            # none: the page, of what was caught before

What came of each mistake is kept in build/mutations.jsonl, so that a run that broke off can go on with --only-changed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
KEPT_OUTCOMES = "build/mutations.jsonl"
CAUGHT, SURVIVED, STALE, BROKEN = "caught", "SURVIVED", "STALE", "BROKEN"
NOT_TRIED = "not tried"
SOME_TEST_FAILED = 1  # pytest's exit statuses; what is neither is no verdict on the mistake
ALL_TESTS_PASSED = 0
TOOK_TOO_LONG = -1
_MOST_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Mistake:
    """One way to break the source, and the tests that must notice it."""

    list_name: str
    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

    @property
    def test_files(self) -> list[str]:
        return sorted({test.partition("::")[0] for test in self.tests})

    def key(self, root: Path) -> str:
        """A hash of the entry and of the files that it names: a kept outcome holds while this stays."""
        files = [root / file for file in (self.file, *self.test_files)]
        hashes = [_hash(file.read_bytes()) if file.is_file() else "" for file in files]
        return _hash(json.dumps([astuple(self), hashes]).encode())

    def put_into(self, source: str) -> str:
        return source.replace(self.find, self.replace)

    def complaints(self, root: Path) -> list[str]:
        """Why the entry says nothing about the tree at `root`; empty when it can be tried."""
        found = []
        path = root / self.file
        count = path.read_text("utf-8").count(self.find) if path.is_file() else 0
        if count != 1:
            found.append(f"the text to find occurs {count} times in {self.file}, not once")
        if self.find == self.replace:
            found.append("the mistake changes nothing")
        if not self.tests:
            found.append("no test is named")
        found += [f"there is no test {test}" for test in self.tests if not has_test(root, test)]
        return found


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one mistake: the test that failed first, or why it was not caught."""

    mistake: Mistake
    verdict: str
    reason: str
    caught_by: str
    seconds: float


class KeptOutcomes:
    """A file with a line for each mistake that was caught, found again by the mistake's key."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / KEPT_OUTCOMES
        self._path.parent.mkdir(exist_ok=True)
        self._lock = threading.Lock()

    def keep(self, outcome: Outcome, key: str) -> None:
        """One line, written at once: a run that is killed loses only what it was trying.

        The key is that of the tree in which the mistake was tried: the one here may have changed since.
        """
        if outcome.verdict != CAUGHT:
            return
        line = {
            "key": key,
            "name": outcome.mistake.name,
            "caught_by": outcome.caught_by,
            "seconds": outcome.seconds,
        }
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(line)}")  # after a line that a killed run cut short

    def caught(self, mistakes: Sequence[Mistake]) -> dict[Mistake, Outcome]:
        """Outcomes of mistakes that were caught when they, their source and their tests were as they are now."""
        text = self._path.read_text("utf-8") if self._path.is_file() else ""
        whole_lines = [line for line in text.splitlines() if line.endswith("}")]
        kept = {line["key"]: line for line in map(json.loads, whole_lines)}
        keys = {mistake: mistake.key(self._root) for mistake in mistakes}
        return {
            mistake: Outcome(mistake, CAUGHT, "", kept[key]["caught_by"], kept[key]["seconds"])
            for mistake, key in keys.items()
            if key in kept
        }


def read_mistakes(root: Path) -> list[Mistake]:
    """Every entry of every list, in the order of files and of lines."""
    mistakes = []
    for path in sorted((root / "tests" / "mutations").glob("*.toml")):
        for entry in tomllib.loads(path.read_text("utf-8")).get("mistake", []):
            fields = {**entry, "tests": tuple(entry["tests"])}
            mistakes.append(Mistake(list_name=path.stem, **fields))
    return mistakes


def has_test(root: Path, test: str) -> bool:
    """Whether a test file exists and defines the name given: functions, classes, and machines bound by assignment."""
    file, *names = test.partition("[")[0].split("::")
    path = root / file
    if not path.is_file():
        return False
    body: Sequence[ast.stmt] = _parsed(path.read_text("utf-8")).body
    for name in names:
        match = next((node for node in body if name in _names_of(node)), None)
        if match is None:
            return False
        body = getattr(match, "body", [])
    return True


@lru_cache(maxsize=32)
def _parsed(text: str) -> ast.Module:
    """The syntax of a file with tests; that of the last few is kept, as entries that follow each other name the same ones."""
    return ast.parse(text)


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def copy_tree(root: Path, copy: Path) -> None:
    """Source, tests and what they lean on, with their compiled code, whose times of change are what keeps it valid."""
    for folder in ("src", "testing", "tests", "benchmarks", "docs", "tools"):
        if (root / folder).is_dir():
            shutil.copytree(root / folder, copy / folder)
    shutil.copy2(root / "pyproject.toml", copy / "pyproject.toml")


def failing_tests(copy: Path, tests: Sequence[str]) -> list[str]:
    """Names of tests that fail without any mistake; a file that can't be collected counts as one."""
    if not tests:
        return []
    _, said = run_tests(copy, tests, "--tb=no", "-rfE")
    return _failed_in(said)


def _failed_in(said: str) -> list[str]:
    """Names of tests in pytest's summary, not in logs before it; what a name has in brackets may hold spaces."""
    summary = said.rpartition("short test summary info")[2].splitlines()
    named = [line for line in summary if line.startswith(("FAILED ", "ERROR "))]
    return [line.partition(" ")[2].partition(" - ")[0].strip() for line in named]


def try_mistake(mistake: Mistake, copy: Path, failing: Sequence[str] = ()) -> Outcome:
    """Run the named tests with the mistake in the copy, then take it out again."""
    began = time.monotonic()

    def outcome(verdict: str, reason: str = "", caught_by: str = "") -> Outcome:
        return Outcome(mistake, verdict, reason, caught_by, time.monotonic() - began)

    if complaints := mistake.complaints(copy):
        return outcome(STALE, "; ".join(complaints))
    broken = [
        f
        for f in failing
        if any(f.startswith((t, f"{t}[")) or t.startswith(f) for t in mistake.tests)
    ]
    if broken:
        return outcome(BROKEN, f"fails without any mistake: {', '.join(broken)}")
    path = copy / mistake.file
    right = path.read_text("utf-8")
    wrong = mistake.put_into(right)
    try:
        compile(wrong, mistake.file, "exec")
    except SyntaxError as error:
        return outcome(BROKEN, f"the mistake is no Python: {error}")
    _rewrite(path, wrong)
    try:
        status, said = run_tests(copy, mistake.tests, "-x", "-rfE")
    finally:
        _rewrite(path, right)
    if status == SOME_TEST_FAILED:
        return outcome(CAUGHT, caught_by=next(iter(_failed_in(said)), ""))
    if status == ALL_TESTS_PASSED:
        return outcome(SURVIVED, f"all pass: {', '.join(mistake.tests)}")
    return outcome(BROKEN, f"pytest ended with {status}:\n{said}")


def _rewrite(path: Path, text: str) -> None:
    """Compiled code goes by size and second of its source, which a mistake may share: it is removed."""
    path.write_text(text, "utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def run_tests(copy: Path, tests: Sequence[str], *options: str) -> tuple[int, str]:
    """Pytest's exit status and the end of what it said, for tests of the copy on the copy's source."""
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests],
            cwd=copy,
            env={
                "HYPOTHESIS_PROFILE": "mistakes",
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy / "testing")]),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=_MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return TOOK_TOO_LONG, f"the tests did not end within {_MOST_SECONDS} s"
    return ran.returncode, "\n".join((ran.stdout + ran.stderr).splitlines()[-200:])


def choose(mistakes: Sequence[Mistake], words: Sequence[str]) -> list[Mistake]:
    """Mistakes of a list that a word names, or with the word in their name; all without words."""
    if not words:
        return list(mistakes)
    return [m for m in mistakes if any(w in (m.list_name, m.file) or w in m.name for w in words)]


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="a list, a source file, or words of a name")
    parser.add_argument("--list", action="store_true", help="name the mistakes, try nothing")
    parser.add_argument("--jobs", type=int, default=1, help="how many to try at once")
    parser.add_argument(
        "--only-changed",
        action="store_true",
        help="leave out what was caught before, unless it, its source or its tests have changed",
    )
    parser.add_argument("--kept", action="store_true", help="try nothing, tell of earlier runs")
    parser.add_argument("--json", type=Path, help="a file for the numbers of the run")
    parser.add_argument("--page", type=Path, help="a file for who catches what, of whole lists")
    given = parser.parse_args(arguments)
    mistakes = choose(read_mistakes(root), given.words)
    if given.list or not mistakes:
        print("\n".join(f"{m.list_name}: {m.name}" for m in mistakes) or "no such mistake")
        return 0 if mistakes else 2
    kept = KeptOutcomes(root)
    known = kept.caught(mistakes) if given.only_changed or given.kept else {}
    left = [m for m in mistakes if m not in known]
    if given.kept:
        tried = {m: Outcome(m, NOT_TRIED, "", "", 0.0) for m in left}
    else:
        tried = try_all(left, root, given.jobs, kept)
    outcomes = [known.get(m) or tried[m] for m in mistakes]
    caught = sum(o.verdict == CAUGHT for o in outcomes)
    before = f" ({len(known)} of them before)" if known else ""
    print(f"{len(outcomes)} mistakes: {caught} caught{before}, {len(outcomes) - caught} not")
    if given.json:
        given.json.write_text(f"{json.dumps(numbers(outcomes))}\n", "utf-8")
    if given.page and not given.words:
        given.page.write_text(page(outcomes), "utf-8")
    return 0 if caught == len(outcomes) else 1


Item = TypeVar("Item")
Result = TypeVar("Result")


def try_all(
    mistakes: Sequence[Mistake], root: Path, jobs: int, kept: KeptOutcomes
) -> dict[Mistake, Outcome]:
    """Every mistake tried, `jobs` at once, each worker in a copy of its own; tests alone come first."""
    if not mistakes:
        return {}
    with ExitStack() as folders:
        copies: SimpleQueue[Path] = SimpleQueue()
        for _ in range(jobs):
            folder = tempfile.TemporaryDirectory(prefix="lakesweep-mutations-")
            copy = Path(folders.enter_context(folder)).resolve()
            copy_tree(root, copy)
            copies.put(copy)
        workers = folders.enter_context(ThreadPoolExecutor(jobs))

        def in_copies(work: Callable[[Path, Item], Result], items: Sequence[Item]) -> list[Result]:
            def in_one(item: Item) -> Result:
                copy = copies.get()
                try:
                    return work(copy, item)
                finally:
                    copies.put(copy)

            return list(workers.map(in_one, items))

        keys = {m: m.key(copy) for m in mistakes}
        fresh = [m for m in mistakes if not m.complaints(copy)]
        files = sorted({file for m in fresh for file in m.test_files})
        tests = sorted({test for m in fresh for test in m.tests})
        shares = [
            [test for test in tests if test.partition("::")[0] in files[n::jobs]]
            for n in range(jobs)
        ]
        failing = [name for names in in_copies(failing_tests, shares) for name in names]

        def tried(copy: Path, mistake: Mistake) -> Outcome:
            outcome = _told(try_mistake(mistake, copy, failing))
            kept.keep(outcome, keys[mistake])
            return outcome

        return dict(zip(mistakes, in_copies(tried, mistakes), strict=True))


def numbers(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """How many mistakes there are and what came of them; the seconds are those of trying each, now or before."""
    verdicts = [outcome.verdict for outcome in outcomes]
    return {
        "entries": len(outcomes),
        "caught": verdicts.count(CAUGHT),
        "survived": verdicts.count(SURVIVED),
        "not_tried": sum(verdicts.count(v) for v in (STALE, BROKEN, NOT_TRIED)),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 1),
    }


def page(outcomes: Sequence[Outcome]) -> str:
    """Every mistake with its file and the test that failed first, list by list, in Markdown."""
    count = numbers(outcomes)
    lines = [
        "# Mistakes that tests notice",
        "",
        "Written by `make mutations`. Each mistake was put into a copy of the source, alone, and the tests named for it in",
        "`tests/mutations/` were run: the test named here failed first. A mistake that no test notices fails that command.",
        "",
        f"{count['entries']} mistakes: {count['caught']} caught, {count['survived']} survived, "
        f"{count['not_tried']} not tried as they are now: for these (†) a test is named that must fail.",
    ]
    for list_name, group in groupby(outcomes, key=lambda outcome: outcome.mistake.list_name):
        rows = list(group)
        lines += ["", f"## {list_name.replace('_', ' ')} ({len(rows)})", ""]
        lines += ["| mistake | file | caught by |", "| --- | --- | --- |"]
        lines += [f"| {_cell(o.mistake.name)} | `{o.mistake.file}` | {_catcher(o)} |" for o in rows]
    return "\n".join(lines) + "\n"


def _catcher(outcome: Outcome) -> str:
    if outcome.verdict == CAUGHT:
        return f"`{_cell(outcome.caught_by)}`"
    if outcome.verdict == NOT_TRIED:
        return f"`{_cell(outcome.mistake.tests[0])}` †"
    return f"**{outcome.verdict}**"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _told(outcome: Outcome) -> Outcome:
    m = outcome.mistake
    print(
        f"{outcome.verdict:<8} {outcome.seconds:5.1f} s  {m.list_name:<12} {m.name}",
        *([f"         {outcome.reason}"] if outcome.reason else []),
        sep="\n",
        flush=True,
    )
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
