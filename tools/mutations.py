"""Put known mistakes into a copy of the source, one at a time, and expect the named tests to fail.

Every tests/mutations/*.toml lists mistakes: `name`, `file`, `find` (a text that occurs once in the file), `replace`
and `tests` (pytest names). A guard whose mistake no test notices is a guard that may be lost unseen.

    make mutations                        # all
    make mutations ARGS="lakefs"          # those of tests/mutations/lakefs.toml
    make mutations ARGS="'last look'"     # those with these words in their name
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CAUGHT, SURVIVED, STALE, BROKEN = "caught", "SURVIVED", "STALE", "BROKEN"
SOME_TEST_FAILED = 1  # pytest's exit statuses; what is neither is no verdict on the mistake
ALL_TESTS_PASSED = 0


@dataclass(frozen=True, slots=True)
class Mistake:
    """One way to break the source, and the tests that must notice it."""

    list_name: str
    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one mistake, with the reason when it was not caught."""

    mistake: Mistake
    verdict: str
    reason: str
    seconds: float


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
    body: Sequence[ast.stmt] = ast.parse(path.read_text("utf-8")).body
    for name in names:
        match = next((node for node in body if name in _names_of(node)), None)
        if match is None:
            return False
        body = getattr(match, "body", [])
    return True


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def copy_tree(root: Path, copy: Path) -> None:
    """Source, tests and what they lean on, with their compiled code, whose times of change are what keeps it valid."""
    for folder in ("src", "testing", "tests", "benchmarks", "tools"):
        if (root / folder).is_dir():
            shutil.copytree(root / folder, copy / folder)
    shutil.copy2(root / "pyproject.toml", copy / "pyproject.toml")


def failing_tests(copy: Path, tests: Sequence[str]) -> list[str]:
    """Names of tests that fail without any mistake; a file that can't be collected counts as one."""
    if not tests:
        return []
    _, said = run_tests(copy, tests, "--tb=no", "-rfE")
    lines = [line.split() for line in said.splitlines()]
    return [words[1] for words in lines if len(words) > 1 and words[0] in ("FAILED", "ERROR")]


def try_mistake(mistake: Mistake, copy: Path, failing: Sequence[str] = ()) -> Outcome:
    """Run the named tests with the mistake in the copy, then take it out again."""
    began = time.monotonic()

    def outcome(verdict: str, reason: str = "") -> Outcome:
        return Outcome(mistake, verdict, reason, time.monotonic() - began)

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
        status, said = run_tests(copy, mistake.tests, "-x")
    finally:
        _rewrite(path, right)
    if status == SOME_TEST_FAILED:
        return outcome(CAUGHT)
    if status == ALL_TESTS_PASSED:
        return outcome(SURVIVED, f"all pass: {', '.join(mistake.tests)}")
    return outcome(BROKEN, f"pytest ended with {status}:\n{said}")


def _rewrite(path: Path, text: str) -> None:
    """Compiled code goes by size and second of its source, which a mistake may share: it is removed."""
    path.write_text(text, "utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def run_tests(copy: Path, tests: Sequence[str], *options: str) -> tuple[int, str]:
    """Pytest's exit status and the end of what it said, for tests of the copy on the copy's source."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests],
        cwd=copy,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy / "testing")]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
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
    given = parser.parse_args(arguments)
    mistakes = choose(read_mistakes(root), given.words)
    if given.list or not mistakes:
        print("\n".join(f"{m.list_name}: {m.name}" for m in mistakes) or "no such mistake")
        return 0 if mistakes else 2
    with tempfile.TemporaryDirectory(prefix="lakesweep-mutations-") as folder:
        copy = Path(folder).resolve()
        copy_tree(root, copy)
        fresh = [m for m in mistakes if not m.complaints(copy)]
        failing = failing_tests(copy, sorted({test for m in fresh for test in m.tests}))
        outcomes = [_told(try_mistake(mistake, copy, failing)) for mistake in mistakes]
    caught = sum(o.verdict == CAUGHT for o in outcomes)
    print(f"{len(outcomes)} mistakes: {caught} caught, {len(outcomes) - caught} not")
    return 0 if caught == len(outcomes) else 1


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
