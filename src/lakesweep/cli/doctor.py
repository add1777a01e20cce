"""`lakesweep doctor`: whether runs can work here, and what would hurt."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from lakesweep.cli.options import Repo, with_settings
from lakesweep.cli.render import print_json, print_text
from lakesweep.cli.running import on_spark, start_engine
from lakesweep.errors import StorageError
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.collector.lakefs.doctor.doctor import Check

__all__ = ["doctor"]

_SIGNS = {"ok": "ok  ", "warning": "WARN", "wrong": "BAD "}


@with_settings("server", "namespace_root", "storage_option", "spark", "output")
@on_spark
def doctor(repo: Repo, *, settings: Settings) -> None:
    """Check whether a run can work here, and what would go wrong.

    Checked are Spark, rights, clocks, versioning of the store, stale branches, and repositories on the same namespace.

    It deletes only files that it has written. Exit status 3 says that a run could not work.
    """
    from lakesweep.collector.lakefs.doctor.doctor import CheckResult, examine
    from lakesweep.collector.lakefs.opening import open_run
    from lakesweep.engine.late import LateEngine

    is_json = settings.output.output == "json"
    checks: list[Check] = []
    with (
        LateEngine(lambda: start_engine(settings)) as engine,
        open_run(settings, repo, engine) as context,
    ):
        engine.begin()
        for check in examine(context.repository, context.resources):
            checks.append(check)
            if not is_json:
                print_text(_line(check))
    wrong = [check.name for check in checks if check.verdict is CheckResult.WRONG]
    if is_json:
        head = {"schema": "lakesweep.doctor/1", "repository": context.name, "fit": not wrong}
        print_json({**head, "checks": [asdict(check) for check in checks]})
    if wrong:
        raise StorageError(
            f"A run on {context.name} could not work: {', '.join(wrong)}. Nothing was deleted.",
            kind="not-fit",
        )


def _line(check: Check) -> str:
    line = f"{_SIGNS[check.verdict.value]}  {check.name:<19} {check.found}"
    return (
        f"{line}\n{'':27}{check.advice}" if check.advice and check.verdict.value != "ok" else line
    )
