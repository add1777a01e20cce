"""Each way of ending has its exit status, and says on stderr what happened."""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesweep import errors
from lakesweep.cli import main as program
from lakesweep.cli.main import run
from lakesweep.secrets import known_secrets


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but the test's."""
    for name in list(os.environ):
        if name.startswith(("LAKESWEEP_", "LAKECTL_", "AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def failing_command() -> Iterator[dict[str, BaseException]]:
    """A command `fail` that raises what the test puts into the box."""
    box: dict[str, BaseException] = {}

    @program.app.command("fail", hidden=True)
    def fail() -> None:
        raise box["error"]

    yield box
    program.app.registered_commands.pop()


ALL_ERRORS = [
    getattr(errors, name)
    for name in errors.__all__
    if name not in ("LakesweepError", "UnexpectedError")
]


class Panic(BaseException):
    """What a panic in Rust is to Python: no `Exception`."""


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_errors_of_ours_exit_with_their_status(
    kind: type[errors.LakesweepError],
    failing_command: dict[str, BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The message goes to stderr, stdout stays empty."""
    failing_command["error"] = kind("what failed and what was not done")
    assert run(["fail"]) == kind.exit_status
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "lakesweep: what failed and what was not done\n"
        f"lakesweep: kind of error: {kind.default_kind}\n"
    )


@pytest.mark.parametrize("kind", [RuntimeError, Panic])
def test_a_bug_says_what_to_report(
    kind: type[BaseException],
    failing_command: dict[str, BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Traceback, versions, and no secret."""
    known_secrets.remember(["hush-hush-hush"])
    failing_command["error"] = kind("odd: hush-hush-hush")
    assert run(["fail"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert f"bug of ours: {kind.__name__}: odd: ***" in err
    assert "lakesweep 0." in err
    assert "hush-hush-hush" not in err


def test_a_bug_that_stopped_a_sweep_half_way_says_what_to_report(
    failing_command: dict[str, BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is that of a sweep that is not complete, and the traceback is there."""
    error = errors.PartlySweptError("stopped half-way")
    error.__cause__ = errors.UnexpectedError("Panic: odd")
    failing_command["error"] = error
    assert run(["fail"]) == 5
    err = capsys.readouterr().err
    assert "lakesweep: stopped half-way\n" in err
    assert "Traceback" in err or "UnexpectedError: Panic: odd" in err
    assert "lakesweep 0." in err


def test_an_interrupt_says_how_to_go_on(
    failing_command: dict[str, BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    """130, as shells expect."""
    failing_command["error"] = KeyboardInterrupt()
    assert run(["fail"]) == 130
    assert "runs resume" in capsys.readouterr().err


def test_a_scheduler_s_stop_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kubernetes, systemd and Airflow send SIGTERM: the run ends in order, and says how to go on."""
    left: list[int] = []
    monkeypatch.setattr(program, "_leave", left.append)
    monkeypatch.setattr(program, "app", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    before, pace = signal.getsignal(signal.SIGTERM), gc.get_threshold()
    try:
        program.main([])
    finally:
        signal.signal(signal.SIGTERM, before)
        gc.set_threshold(*pace)
    assert left == [130]
    assert "runs resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [[], ["nope"], ["config", "show", "--nope"], ["config", "show", "x"]]
)
def test_wrong_use_exits_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """And leaves stdout alone."""
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "help" in err


def test_wrong_settings_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    """A value that can't be meant is wrong use."""
    assert run(["config", "show", "--min-age", "soon"]) == 2
    assert "--min-age: 'soon' is not a duration" in capsys.readouterr().err


def test_config_show_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """Every value with its source; nothing else on stdout."""
    words = ["config", "show", "--output", "json", "--keep-ref", "v1", "--keep-ref", "v2"]
    assert run([*words, "--dry-run", "--max-delete-share", "80"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings["keep_ref"] == {"value": ["v1", "v2"], "source": "--keep-ref"}
    assert settings["dry_run"] == {"value": True, "source": "--dry-run"}
    assert settings["max_delete_share"] == {"value": "80", "source": "--max-delete-share"}
    assert settings["keep_tags"] == {"value": False, "source": "default"}


def test_config_show_as_text_masks_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is there, the secret is not."""
    monkeypatch.setenv("LAKESWEEP_SECRET_ACCESS_KEY", "quite-a-secret")
    assert run(["config", "show"]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("secret_access_key")]
    assert line.split() == ["secret_access_key", "***", "LAKESWEEP_SECRET_ACCESS_KEY"]
    assert "quite-a-secret" not in out


def test_warnings_go_to_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They never disturb a result."""
    monkeypatch.setenv("LAKESWEEP_ODD", "1d")
    assert run(["config", "show", "--output", "json"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    assert "LAKESWEEP_ODD" in err


def test_version_names_what_results_depend_on(capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as JSON."""
    assert run(["version"]) == 0
    assert capsys.readouterr().out.startswith("lakesweep 0.")
    assert run(["version", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["pyarrow"]


@pytest.mark.parametrize(
    "group", [[], ["nessie"], ["runs"], ["rules"], ["keys"], ["lake"], ["config"], ["hard-delete"]]
)
def test_each_command_is_summed_up_in_a_whole_sentence(
    group: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal of 80 columns, the list of commands cuts nothing off."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*group, "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0]
    summaries = [line.split(maxsplit=1)[1] for line in listed.splitlines()]
    assert summaries
    assert [text for text in summaries if not text.endswith(".") or text.endswith("...")] == []


@pytest.mark.parametrize("words", [["version"], ["config", "show"], ["--help"]])
def test_a_reader_who_leaves_early_is_no_bug_of_ours(words: list[str]) -> None:
    """`lakesweep … | head` ends as any filter does, in silence."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "lakesweep", *words],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, "")


class FullDisk(io.TextIOBase):
    """What stdout is where a disk has no room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_result_without_room_is_no_bug_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`lakesweep … > file` on a full disk: what is missing, and that the command itself has ended."""
    monkeypatch.setattr(sys, "stdout", FullDisk())
    assert run(["config", "show"]) == 141
    err = capsys.readouterr().err
    assert "could not be written to stdout: No space left on device" in err
    assert "output-not-written" in err
    assert "Traceback" not in err


def test_a_failed_run_whose_record_has_no_room_keeps_its_own_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Why a run was refused matters more than where its record would have stood."""
    for name in ("LAKESWEEP_ENDPOINT_URL", "LAKESWEEP_ACCESS_KEY_ID"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("LAKESWEEP_SECRET_ACCESS_KEY", "hush-hush")

    def refuse(*_: object) -> None:
        raise errors.UnsafeToSweepError("in doubt")

    monkeypatch.setattr("lakesweep.collector.lakefs.opening.open_run", refuse)
    monkeypatch.setattr(sys, "stdout", FullDisk())
    assert run(["gc", "shop", "--output", "json"]) == 4
    err = capsys.readouterr().err
    assert "lakesweep: in doubt" in err
    assert "No space left on device" in err


def test_bytes_that_are_no_text_are_wrong_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a Latin-1 shell writes comes in as half surrogates, which no server and no record takes."""
    assert run(["job", "\udcff"]) == errors.ConfigError.exit_status
    assert (
        "Argument 2 holds bytes that are not utf-8. Nothing was touched." in capsys.readouterr().err
    )
    monkeypatch.setenv("LAKESWEEP_KEEP_REF", "m\udcfcnchen")
    assert run(["version"]) == errors.ConfigError.exit_status
    said = capsys.readouterr().err
    assert "LAKESWEEP_KEEP_REF" in said
    assert "nchen" not in said  # it may be a secret


def test_streams_that_are_closed_or_lack_a_sign_stop_nothing() -> None:
    """`>&-` and `2>&-`, as some daemons start programs; and a locale whose encoding lacks what is printed."""
    script = r"""
import os, sys
from lakesweep.cli.streams import prepare_streams
prepare_streams()
print("\u251c \udcff")
print("told", file=sys.stderr)
sys.stdout.flush()
assert os.open(os.devnull, os.O_RDONLY) > 2  # no file of ours gets the number of a stream
assert all(os.get_inheritable(number) for number in range(3))
"""
    words = [sys.executable, "-c", script]
    for closed, out, err in (
        ("", rb"\u251c \udcff" + b"\n", b"told\n"),
        (">&-", b"", b"told\n"),
        (">&- 2>&- <&-", b"", b""),
    ):
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", *words],
            capture_output=True,
            env=os.environ | {"PYTHONIOENCODING": "iso-8859-1"},
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, out, err)


def test_the_program_ends_after_what_was_left_for_its_end(tmp_path: Path) -> None:
    """Its output is whole, temporary folders are gone, its threads have ended, and the status is the command's."""
    left = tmp_path / "left"
    left.mkdir()
    script = f"""
import atexit, sys, tempfile, threading, time
from lakesweep.cli import main as program

folder = tempfile.TemporaryDirectory(dir={str(left)!r})
atexit.register(lambda: print("at the end"))

@program.app.command("work")
def work() -> None:
    print("x" * 100_000)
    if sys.argv[2] == "thread":
        threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    raise program.typer.Exit(4)

program.main(sys.argv[1:2])
"""
    for kind, talk in (("", ["at the end"]), ("thread", ["thread", "at the end"])):
        done = subprocess.run(
            [sys.executable, "-c", script, "work", kind],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 4, done.stderr
        assert done.stdout.split() == ["x" * 100_000, *" ".join(talk).split()]
        assert not list(left.iterdir())


def test_a_bug_in_a_run_leaves_its_record_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads records learns of it as of any other failure."""

    def panic(*_: object) -> None:
        raise Panic("index out of bounds")

    monkeypatch.setattr("lakesweep.collector.lakefs.opening.open_run", panic)
    monkeypatch.setenv("LAKESWEEP_SECRET_ACCESS_KEY", "hush-hush")
    words = [
        "gc",
        "shop",
        "--output",
        "json",
        "--endpoint-url",
        "http://127.0.0.1:9",
        "--access-key-id",
        "x",
    ]
    assert run(words) == 1
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert (record["status"], record["repository"]) == ("failed", "shop")
    assert "Panic: index out of bounds" in record["reason"]
    assert "Traceback" in err
    assert "lakesweep 0." in err
