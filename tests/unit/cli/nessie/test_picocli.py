"""Command lines that were written for picocli are read as picocli reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from lakesweep.cli.nessie.options import nessie_command
from lakesweep.cli.nessie.picocli import NessieCommand, NessieGroup
from lakesweep.settings.nessie_values import OptionValues


def parse(*words: str) -> dict[str, Any]:
    """The options of a command that has those of a mark and of a sweep."""
    seen: dict[str, Any] = {}
    app = typer.Typer(cls=NessieGroup)

    @app.callback()
    def group() -> None: ...

    @nessie_command("jdbc", "nessie", "cutoffs", "write_live_set_id_to", "sweep", "give_up")
    def command(*, options: OptionValues, settings: object) -> None:
        seen["cutoff"] = options["cutoff"]
        seen["properties"] = options["jdbc_properties"]
        seen["uri"] = options["uri"]
        seen["default"] = options["default_cutoff"]
        seen["defer"] = options["defer_deletes"]
        seen["fetch"] = options["jdbc_fetch_size"]
        seen["give_up"] = options["give_up"]
        seen["password"] = options["jdbc_password"]

    app.command("run", cls=NessieCommand)(command)
    app(["run", *words], standalone_mode=False)
    return seen


@pytest.mark.parametrize(
    "words",
    [
        ["--cutoff", "main=10,dev=P10D", "--cutoff", "rel.*=NONE"],
        ["--cutoff=main=10,dev=P10D,rel.*=NONE"],
        ["--cutoff", "main=10", "dev=P10D", "rel.*=NONE"],
        ["-C", "main=10", "-C", "dev=P10D", "-C", "rel.*=NONE"],
        ["-Cmain=10,dev=P10D", "-C=rel.*=NONE"],
        ["--cutoff", "main=10,dev=P10D,", "rel.*=NONE", "--jdbc"],
    ],
)
def test_pairs_are_split_repeated_and_follow_each_other(words: list[str]) -> None:
    """In the order given; a key ends at the first '='."""
    assert list(parse(*words)["cutoff"].items()) == [
        ("main", "10"),
        ("dev", "P10D"),
        ("rel.*", "NONE"),
    ]


def test_a_pattern_given_twice_keeps_its_place_and_takes_the_later_policy() -> None:
    """As a Java LinkedHashMap does."""
    found = parse("-C", "main=1,dev=2", "-C", "main=3")["cutoff"]
    assert list(found.items()) == [("main", "3"), ("dev", "2")]


@pytest.mark.parametrize("words", [["--jdbc-properties"], ["--jdbc-properties", "--jdbc"]])
def test_a_repeated_option_may_be_given_without_a_value(words: list[str]) -> None:
    """picocli's arity 0..*."""
    assert parse(*words)["properties"] == {}


def test_the_fetch_size_may_be_given_without_a_value() -> None:
    """picocli's arity 0..1: the default counts."""
    assert parse("--jdbc-fetch-size", "--jdbc")["fetch"] == 100
    assert parse("--jdbc-fetch-size")["fetch"] == 100
    assert parse("--jdbc-fetch-size", "7")["fetch"] == 7
    assert parse("--jdbc-fetch-size=7")["fetch"] == 7


@pytest.mark.parametrize(
    "words", [["-u", "http://x"], ["-u=http://x"], ["-uhttp://x"], ["--uri=http://x"]]
)
def test_every_way_to_attach_a_value(words: list[str]) -> None:
    """Letters and names alike."""
    assert parse(*words)["uri"] == "http://x"


@pytest.mark.parametrize("words", [["-c", "-5"], ["--default-cutoff=-5"], ["-c=-5"]])
def test_a_value_may_begin_with_a_dash(words: list[str]) -> None:
    """A negative number of commits is one."""
    assert parse(*words)["default"] == "-5"


def test_an_option_that_takes_one_value_does_not_eat_the_next_word() -> None:
    """Only options that may be repeated go on."""
    with pytest.raises(Exception, match="unexpected extra argument"):
        parse("--uri", "http://x", "main=10")


def test_negatable_switch() -> None:
    """Off unless asked for."""
    assert parse()["defer"] is False
    assert parse("--defer-deletes")["defer"] is True
    assert parse("--no-defer-deletes")["defer"] is False


@pytest.mark.parametrize(
    "words",
    [
        ["--uri", "http://a", "-u", "http://b"],
        ["--defer-deletes", "--no-defer-deletes"],
        ["--jdbc-user", "a", "--jdbc-user", "a"],
    ],
)
def test_an_option_given_twice_is_refused(words: list[str]) -> None:
    """Which of the two was meant can't be known; picocli refuses it too."""
    with pytest.raises(Exception, match="is given twice"):
        parse(*words)


def test_words_from_a_file(tmp_path: Path) -> None:
    """Passwords are kept there, out of the process list."""
    file = tmp_path / "arguments.txt"
    file.write_text("# how we run it\n--uri http://x\n-C main=10 'rel .*=NONE'\n")
    found = parse(f"@{file}", "--jdbc-password", "@@home")
    assert found["uri"] == "http://x"
    assert found["cutoff"] == {"main": "10", "rel .*": "NONE"}
    assert found["password"] == "@home"
    assert parse("--jdbc-password", "@nowhere")["password"] == "@nowhere"


def test_contents_given_up_are_not_split() -> None:
    """A content id is whatever a server made it."""
    assert parse("--give-up", "a,b", "--give-up", "c")["give_up"] == ("a,b", "c")
