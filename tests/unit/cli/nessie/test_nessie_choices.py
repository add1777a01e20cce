"""One place for live sets, one live set: what must be chosen is chosen on the command line, and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ID = "0baaa1ff-90db-4ee5-b6d2-b60aea148c76"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "help"),
        (["nonsense"], "No such command"),
        (["list"], "Give --jdbc-url"),
        (["list", "--nonsense"], "No such option"),
        (["list", "--inmemory"], "--inmemory"),
        (["list", "--jdbc"], "Which database"),
        (["list", "--jdbc-user", "me"], "Which database"),
        (["gc", "--inmemory", "--jdbc-url", "sqlite://"], "exclude each other"),
        (["gc", "--inmemory", "--jdbc"], "exclude each other"),
        (["gc", "--inmemory", "--defer-deletes"], "--defer-deletes"),
        (["mark-live", "--inmemory"], "--inmemory"),
        (["expire", "--inmemory", "-l", ID], "--inmemory"),
        (["show", "--jdbc-url", "sqlite://"], "Which live set"),
        (["show", "--jdbc-url", "sqlite://", "-l", ID, "-L", "f"], "not both"),
        (["show", "--jdbc-url", "sqlite://", "-l", "nonsense"], "not the id of a live set"),
        (["show", "--jdbc-url", "sqlite://", "-L", "nowhere.txt"], "can't be read"),
        (["list", "--jdbc-url", "jdbc:h2:mem:x"], "H2"),
        (["list", "--jdbc-url", "nonsense"], "not understood"),
        (["list", "--jdbc-url", "sqlite://", "--jdbc-schema", "create"], "none of CREATE"),
        (["list", "--jdbc-url", "sqlite://", "--jdbc-fetch-size", "0"], "1 or more"),
        (["list", "--jdbc-url", "sqlite://", "--time-zone", "Mars/Olympus"], "not a time zone"),
        (["create-sql-schema"], "Give --jdbc-url"),
        (["create-sql-schema", "--inmemory"], "No such option"),
        (["completion-script", "-O", "/"], "can't be written"),
    ],
)
def test_wrong_use_exits_2(shell: Any, words: list[str], said: str) -> None:
    """Told why, with nothing on stdout and nothing touched."""
    assert shell(*words, status=2) == ""
    assert said in shell.err


def test_completion_script_is_written_once(shell: Any, tmp_path: Path) -> None:
    """As nessie-gc writes it: into a new file, never over an old one."""
    file = tmp_path / "complete.sh"
    shell("completion-script", "-O", str(file), status=0)
    assert "complete -o default -F _lakesweep_completion lakesweep" in file.read_text()
    shell("completion-script", "-O", str(file), status=2)
    assert "File exists" in shell.err


SWEEP = ["expire", "--jdbc-url", "sqlite://", "-l", ID]
MARK = ["mark-live", "--jdbc-url", "sqlite://"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*SWEEP, "--max-file-modification", "2011-12-03"], "--max-file-modification"),
        ([*SWEEP, "--max-file-modification", "2011-12-03T10:15:30"], "offset"),
        ([*SWEEP, "--expiry-parallelism", "0"], "--expiry-parallelism"),
        ([*SWEEP, "--expected-file-count", "0"], "--expected-file-count"),
        ([*SWEEP, "--fpp", "1"], "--fpp"),
        ([*SWEEP, "--allowed-fpp", "none"], "--allowed-fpp"),
        ([*SWEEP, "--grace", "soon"], "--grace"),
        ([*SWEEP, "--max-delete-share", "101"], "--max-delete-share"),
        ([*SWEEP, "-I", "s3.delete-enabled=false"], "forbids deletes"),
        ([*SWEEP, "-I", "s3.deleted=false"], "not known"),
        ([*SWEEP, "-H", "fs.s3a.nonsense=1"], "not known"),
        ([*SWEEP, "--work-location", "nonsense"], "--work-location"),
        ([*SWEEP, "--master", "spark://h:7077"], "--work-location"),
        ([*SWEEP, "--remote", "sc://h:1"], "--work-location"),
        ([*SWEEP, "--jdbc-schema", "DROP_AND_CREATE"], "would drop"),
        ([*SWEEP, "-u", "http://h/api/v1"], "api/v2"),
        ([*MARK, "--cutoff", "main=sometimes"], "--cutoff: 'sometimes'"),
        ([*MARK, "--cutoff", "ma(in=10"], "--cutoff"),
        ([*MARK, "--cutoff", "main"], "--cutoff: write REGEX=POLICY"),
        ([*MARK, "-c", "sometimes"], "--default-cutoff: 'sometimes'"),
        ([*MARK, "-R", "yesterday"], "--cutoff-ref-time"),
        ([*MARK, "-R", "2011-12-03T10:15:30"], "offset"),
        ([*MARK, "-R", "2999-12-03T10:15:30Z"], "--cutoff-ref-time: 2999-12-03T10:15:30Z lies in"),
        ([*MARK, "--identify-parallelism", "0"], "--identify-parallelism"),
        ([*MARK, "--nessie-client", "Telnet"], "Telnet"),
        ([*MARK, "--nessie-api", "com.acme.Mine"], "com.acme.Mine"),
        ([*MARK, "-u", "http://h/api/v1"], "api/v2"),
        (["gc", "--inmemory", "--fpp", "7"], "--fpp"),
        (["gc", "--inmemory", "-I", "s3.delete-enabled=false"], "forbids deletes"),
        (["deferred-deletes", *SWEEP[1:], "-I", "s3.delete-enabled=false"], "forbids deletes"),
    ],
)
def test_a_wrong_value_exits_2_before_anything_is_asked(
    shell: Any, asked: Any, words: list[str], said: str
) -> None:
    """A wrong policy leaves no failed live set behind, as the original does."""
    shell(*words, status=2)
    assert said in shell.err
    assert asked.calls == []


def test_a_database_known_from_the_environment_needs_the_marker(
    shell: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NESSIE_GC_JDBC_URL alone chooses nothing; with --jdbc, or any option of the group, it counts."""
    monkeypatch.setenv("NESSIE_GC_JDBC_URL", database)
    shell("list", status=2)
    assert "once --jdbc is given" in shell.err
    assert shell("list", "--jdbc").startswith("Timestamps shown in UTC\nID")
    assert shell("list", "--jdbc-fetch-size", "7").startswith("Timestamps")


def test_a_live_set_is_not_named_by_the_environment(
    shell: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which one is swept stands on the command line."""
    monkeypatch.setenv("NESSIE_GC_LIVE_SET_ID", ID)
    shell("show", "--jdbc-url", database, status=2)
    assert "Which live set" in shell.err


def test_inmemory_ignores_the_database_of_the_environment(
    shell: Any, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is on the command line excludes it."""
    monkeypatch.setenv("NESSIE_GC_JDBC_URL", "sqlite:///elsewhere.db")
    monkeypatch.setenv("NESSIE_GC_DEFER_DELETES", "true")
    shell("gc", "--inmemory", status=2)
    assert "--defer-deletes" in shell.err


def test_a_live_set_that_is_not_there_exits_3(shell: Any, database: str) -> None:
    """The catalog has no such thing."""
    shell("show", "--jdbc-url", database, "-l", ID, status=3)
    assert ID in shell.err
    shell("delete", "--jdbc-url", database, "-l", ID, status=3)
    shell("list-deferred", "--jdbc-url", database, "-l", ID, status=3)


@pytest.mark.parametrize(
    ("content", "said"), [("", "is empty"), ("\n", "is empty"), ("nonsense\n", "not the id")]
)
def test_a_file_without_an_id(
    shell: Any, database: str, tmp_path: Path, content: str, said: str
) -> None:
    """An empty one is what a failed mark leaves."""
    (tmp_path / "id.txt").write_text(content)
    shell("show", "--jdbc-url", database, "-L", "id.txt", status=2)
    assert said in shell.err


def test_passwords_never_show(shell: Any) -> None:
    """Not even of a database that can't be reached."""
    words = ["list", "--jdbc-url", "jdbc:postgresql://127.0.0.1:9/x?password=hush-in-url"]
    shell(*words, "--jdbc-password", "hush-by-flag", "--output", "json", status=3)
    assert "hush" not in shell.out + shell.err
