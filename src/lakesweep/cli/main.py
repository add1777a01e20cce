"""The program `lakesweep`: its commands, and what each way of failing says and exits with."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from gc import set_threshold
from typing import NoReturn

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]

from lakesweep.cli.backup import backup
from lakesweep.cli.certify import certify
from lakesweep.cli.completion import completion
from lakesweep.cli.config import config_app
from lakesweep.cli.demo import demo
from lakesweep.cli.doctor import doctor
from lakesweep.cli.explain import explain
from lakesweep.cli.gc import gc
from lakesweep.cli.hard_delete import hard_delete_app
from lakesweep.cli.job import job
from lakesweep.cli.keys import keys_app
from lakesweep.cli.lake import lake_app
from lakesweep.cli.mark import mark
from lakesweep.cli.nessie.app import nessie_app
from lakesweep.cli.options import EXIT_STATUSES
from lakesweep.cli.restore import restore
from lakesweep.cli.rules import rules_app
from lakesweep.cli.runs import runs_app
from lakesweep.cli.serve import serve
from lakesweep.cli.streams import prepare_streams
from lakesweep.cli.sweep import sweep
from lakesweep.cli.version import installed_versions, show_version
from lakesweep.cli.web import web
from lakesweep.cli.what_if import what_if
from lakesweep.errors import ConfigError, LakesweepError, OutputError, UnexpectedError
from lakesweep.logs import configure_logging
from lakesweep.secrets import known_secrets

__all__ = ["app", "guarded", "main", "run"]

app = typer.Typer(
    name="lakesweep",
    help="A garbage collector for versioned data lakes. It finds the objects that no version of the data can reach any "
    "more, deletes them, and deletes nothing else. Begin with `demo`. On a repository of yours, begin with `doctor` and "
    "`mark`, which delete none of its data.",
    epilog=EXIT_STATUSES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback()
def lakesweep() -> None:
    """A garbage collector for versioned data lakes."""


app.command("demo")(demo)
app.command("serve")(serve)
app.add_typer(keys_app, name="keys")
app.add_typer(hard_delete_app, name="hard-delete")
app.add_typer(lake_app, name="lake")
app.command("gc")(gc)
app.command("mark")(mark)
app.command("sweep")(sweep)
app.command("backup")(backup)
app.command("restore")(restore)
app.add_typer(rules_app, name="rules")
app.add_typer(runs_app, name="runs")
app.command("web")(web)
app.command("doctor")(doctor)
app.command("certify")(certify)
app.command("explain")(explain)
app.command("what-if")(what_if)
app.add_typer(nessie_app, name="nessie")
app.add_typer(config_app, name="config")
app.command("job")(job)
app.command("completion")(completion)
app.command("version")(show_version)

# Typer shows one of its errors for a wrong command line and hides the base of them all.
_WrongUse: type[Exception] = next(
    cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException"
)

_COLLECTION_PACE = (50_000, 20, 20)
_OUR_VARIABLES = ("LAKESWEEP_", "LAKECTL_", "NESSIE_GC_")
_BUG = 1
_WRONG_USE = 2
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the status that its outcome stands for."""
    # Modules and live sets stay: looking for cycles in them at Python's usual pace takes a tenth of a short run.
    set_threshold(*_COLLECTION_PACE)
    prepare_streams()
    _stop_in_order()
    configure_logging()
    if "_LAKESWEEP_COMPLETE" in os.environ:  # asked by the script that `completion` prints
        completion_init()
    _leave(run(list(sys.argv[1:] if arguments is None else arguments)))


def _stop_in_order() -> None:
    """Let SIGTERM end a command as Ctrl-C does. Schedulers stop programs by it, and process 1 of a container ignores it otherwise."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def run(arguments: list[str]) -> int:
    """Run one command and answer its exit status; failures are told on stderr, masked."""

    def command() -> object:
        _refuse_odd_bytes(arguments)
        return app(arguments, prog_name="lakesweep", standalone_mode=False)

    return guarded(command)


def _refuse_odd_bytes(arguments: Sequence[str]) -> None:
    """Refuse bytes that are no text in the encoding of the system: no server, record or session takes them."""
    given = {f"Argument {number}": text for number, text in enumerate(arguments, start=1)}
    given |= {
        f"The variable {name!a}": name + value
        for name, value in os.environ.items()
        if name.startswith(_OUR_VARIABLES)
    }
    for where, text in given.items():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConfigError(
                f"{where} holds bytes that are not {sys.getfilesystemencoding()}. Nothing was touched. Write it in that "
                "encoding."
            ) from None


def guarded(command: Callable[[], object]) -> int:
    """Call a command and answer the exit status that its outcome stands for."""
    try:
        status = command()
        sys.stdout.flush()
    except LakesweepError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            return _without_reader()
        unexpected = _unexpected_in(error)
        if unexpected is not None:
            _print_traceback(unexpected)
        _print_error(f"lakesweep: {error.message}")
        if unexpected is not None:
            _print_report_request()
        _print_kind(error.kind)
        return error.exit_status
    except _WrongUse as error:
        _print_wrong_use(error)
        return _WRONG_USE
    except (KeyboardInterrupt, typer.Abort):
        status = _INTERRUPTED
    except BrokenPipeError:
        return _without_reader()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # Typer's own answer to it
            return _without_reader()
        raise
    except BaseException as error:  # noqa: BLE001 (the last stop; a panic inside a library is no Exception)
        _print_traceback(error)
        _print_error(f"lakesweep: this is a bug of ours: {type(error).__name__}: {error}")
        _print_report_request()
        _print_kind(LakesweepError.default_kind)
        return _BUG
    if status == _INTERRUPTED:  # also Typer's own answer to Ctrl-C
        _print_error(
            "lakesweep: interrupted. If a sweep was under way, `lakesweep runs resume` continues it; on a live set of "
            "Nessie, the same `lakesweep nessie` command."
        )
    return status if isinstance(status, int) else 0


def _without_reader() -> int:
    """Whoever read our stdout has left; Python must not complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OutputError.exit_status


def _leave(status: int) -> NoReturn:
    """Exit without taking apart, module by module, what goes with the process anyway: that takes half a second."""
    others = [t for t in threading.enumerate() if t is not threading.current_thread()]
    if all(other.daemon for other in others):
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):  # whoever read our last words has left
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _print_wrong_use(error: Exception) -> None:
    message = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if message.startswith("Usage:"):  # a group without a command, answered with its help
        _print_error(message)
    elif context is not None:
        _print_error(f"lakesweep: {message}\nTry: {context.command_path} --help")
    else:
        _print_error(f"lakesweep: {message}")


def _unexpected_in(error: LakesweepError) -> UnexpectedError | None:
    """The unforeseen exception behind an error: a sweep that it stopped half-way ends as one that is partly swept."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, UnexpectedError):
        cause = cause.__cause__
    return cause


def _print_traceback(error: BaseException) -> None:
    _print_error("".join(traceback.format_exception(error)).rstrip())


def _print_report_request() -> None:
    versions = ", ".join(f"{part} {number}" for part, number in installed_versions().items())
    _print_error(
        "Nothing more was done after it. Please report the lines above (secrets are masked; object names are not), "
        f"the command, and: {versions}.\n"
        "If a sweep was under way, `lakesweep runs show` says how far it came."
    )


def _print_kind(kind: str) -> None:
    """The last line of a failure: for scripts, and for docs/reference/errors.md."""
    _print_error(f"lakesweep: kind of error: {kind}")


def _print_error(text: str) -> None:
    print(known_secrets.mask(text), file=sys.stderr)  # noqa: T201 (it goes to stderr)
