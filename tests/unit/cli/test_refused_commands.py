"""Every wrong combination is refused with exit status 2 before a server or Spark is reached."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.cli.main import run

GC = "spark.hadoop.lakefs.gc."


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server that is not there: whatever reaches for it exits with 3, and not with the 2 that is asked for."""
    for name in list(os.environ):
        if name.startswith(("LAKESWEEP_", "LAKECTL_", "AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", "secret-secret")
    # Questions are asked again after a while; here nobody waits.
    monkeypatch.setitem(LakeFSClient.__init__.__kwdefaults__, "sleep", lambda seconds: None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gc"], "REPO"),
        (["gc", "a/b"], "is not a repository"),
        (["gc", "repo", "us-east-1", "more"], "unexpected extra argument"),
        (["gc", "repo", "--what", "everything"], "--what"),
        (["gc", "repo", "--unsafe-min-age", "other", "--min-age", "1h"], "another repository"),
        (["gc", "repo", "--unsafe-min-age", "repo"], "--min-age"),
        (["gc", "repo", "--no-lease", "other"], "another repository"),
        (["gc", "repo", "--now", "2999-01-01"], "future"),
        (["gc", "repo", "--mark-id", "a b"], "--mark-id"),
        (["gc", "repo", "--mark-id", "../x"], "--mark-id"),
        (["gc", "repo", "--conf", f"{GC}do_mark=false"], "mark_id"),
        (
            ["gc", "repo", "--conf", f"{GC}do_mark=false", "--conf", f"{GC}do_sweep=false"],
            "nothing",
        ),
        (["gc", "repo", "--conf", f"{GC}mark_id=m"], "mark_id"),
        (["gc", "repo", "--conf", f"{GC}do_marks=true"], "do_mark"),
        (["gc", "repo", "--backup-to", "ftp://x"], "'ftp://x' is not understood"),
        (["mark", "repo", "--conf", f"{GC}do_mark=false", "--mark-id", "m"], "do_mark is false"),
        (["mark", "repo", "--dry-run"], "No such option"),
        (["sweep", "repo"], "--mark-id"),
        (["sweep", "repo", "--mark-id", "m", "--conf", f"{GC}do_sweep=false"], "do_sweep is false"),
        (["sweep", "repo", "--mark-id", "m", "--what", "all"], "No such option"),
        (["sweep", "repo", "--mark-id", "m", "--unsafe-min-age", "other"], "another repository"),
        (["runs", "resume", "repo", "r", "--unsafe-min-age", "other"], "another repository"),
        (["runs", "resume", "repo", "r", "--conf", f"{GC}do_sweep=false"], "do_sweep is false"),
        (["backup", "repo", "--mark-id", "m"], "--to"),
        (["backup", "repo", "--to", "file:///tmp/x"], "--mark-id"),
        (["backup", "repo", "--mark-id", "m", "--to", "nowhere"], "not understood"),
        (["restore", "repo", "--mark-id", "m"], "--from"),
        (["rules", "set", "repo", "no-such-file.json"], "can't be read"),
        (["runs", "show", "repo"], "RUN_ID"),
        (["job", "nessie"], "nessie"),
    ],
)
def test_wrong_use_exits_2_and_says_why(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """stdout stays empty, and nothing was touched."""
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


@pytest.mark.parametrize(
    "variable", ["LAKESWEEP_UNSAFE_MIN_AGE", "LAKESWEEP_CONFIRM", "LAKESWEEP_NO_LEASE"]
)
def test_guards_are_lowered_on_the_command_line_only(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never by what an environment happens to hold."""
    monkeypatch.setenv(variable, "repo")
    assert run(["gc", "repo"]) == 2
    assert "command line only" in capsys.readouterr().err


def test_a_share_above_the_default_works_on_the_command_line_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below it, a guard is raised and not lowered."""
    monkeypatch.setenv("LAKESWEEP_MAX_DELETE_SHARE", "80")
    assert run(["gc", "repo"]) == 2
    assert "command line only" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["gc", "mark", "sweep"])
def test_a_server_out_of_reach_exits_3_with_a_record(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON the record says failed and why; nothing else is on stdout. Spark is not started for it."""
    words = [
        command,
        "repo",
        "--output",
        "json",
        *(["--mark-id", "m"] if command == "sweep" else []),
    ]
    assert run(words) == 3
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record["schema"] == "lakesweep.run/1"
    assert record["status"] == "failed"
    assert record["reason"]
    assert "secret-secret" not in out + err


def test_as_text_a_run_that_never_began_leaves_stdout_empty(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Scripts that read stdout find nothing to misread."""
    assert run(["doctor", "repo"]) == 3
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["gc", "backup", "restore"])
def test_job_prints_the_path_of_a_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, for $(lakesweep job …)."""
    assert run(["job", name]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert Path(line).is_file()
    assert Path(line).name == f"{name}.py"
