"""constraints.txt pins exactly what the project and all its extras bring, and this environment has those versions."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.+!]+)")


def pins() -> dict[str, str]:
    found = {}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        match = PIN.fullmatch(line)
        assert match, f"constraints.txt: {line!r} is not NAME==VERSION"
        found[canonicalize_name(match["name"])] = match["version"]
    return found


def brought_in() -> set[str]:
    """Every package that installing the project with all extras brings, followed through what is installed."""
    todo = [Requirement(text) for text in PROJECT["dependencies"]]
    for extra in PROJECT["optional-dependencies"].values():
        todo += [Requirement(text) for text in extra]
    seen: set[tuple[str, str]] = set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for text in distribution(name).requires or []:
                requirement = Requirement(text)
                marker = requirement.marker
                if marker is None or marker.evaluate({"extra": extra}):
                    todo.append(requirement)
    return {name for name, _ in seen}


def test_every_package_is_pinned_and_no_other() -> None:
    """A new dependency comes with its pin; one that is gone takes its pin along."""
    try:
        brought = brought_in()
    except PackageNotFoundError as missing:
        pytest.fail(f"{missing} is not installed; run `make setup`")
    assert brought == set(pins())


def test_this_environment_has_the_pinned_versions() -> None:
    """What is tested is what is pinned."""
    installed = {name: version(name) for name in pins()}
    assert installed == pins()


def test_every_dependency_says_what_it_is_for() -> None:
    """One line each, with a comment."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    section = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    lines = [line for line in section.splitlines() if re.match(r'\s*"|\w+ = \["', line)]
    assert [line for line in lines if "#" not in line] == []


def test_the_set_up_installs_every_extra() -> None:
    """Types and tests need them all, on a new machine too."""
    text = (ROOT / "tools" / "setup.py").read_text("utf-8")
    installed = re.search(r'^EXTRAS = "(.+)"$', text, re.M)
    assert installed
    assert set(installed[1].split(",")) == set(PROJECT["optional-dependencies"])
