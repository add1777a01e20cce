"""`lakesweep what-if`: what any number of days kept, and other rules, would free."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lakesweep.cli.options import Repo, with_settings
from lakesweep.cli.render import print_result
from lakesweep.cli.running import on_spark, progress_display, start_engine
from lakesweep.errors import ConfigError, foreign_errors_as_ours
from lakesweep.settings.values import Settings

__all__ = ["Price", "what_if"]

_Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RULES]...", help="JSON files with other rules, as `rules set` reads them."
    ),
]
_Rules = Annotated[
    list[str] | None,
    typer.Option("--rules", metavar="FILE", help="A JSON file with other rules; may be repeated."),
]
_Branch = Annotated[
    list[str] | None,
    typer.Option(
        "--branch",
        metavar="NAME",
        help="Also vary the days of this branch alone; may be repeated. [default: all of up to 20 branches; of more, "
        "the default branch and those with rules of their own]",
    ),
]
_Depth = Annotated[
    int, typer.Option(min=0, max=20, help="Group paths by this many leading folders.")
]
Price = Annotated[
    float | None,
    typer.Option(min=0, help="Price of one GB (2^30 bytes) for one month, for example 0.023."),
]
_NoSave = Annotated[
    bool,
    typer.Option("--no-save", help="Do not save the answer in the lake, where reports find it."),
]


@with_settings(
    *("server", "namespace_root", "storage_option", "what", "min_age", "unsafe_min_age"),
    *("keep_ref", "keep_tags", "now", "spark", "output"),
)
@on_spark
def what_if(
    repo: Repo,
    files: _Files = None,
    rules: _Rules = None,
    branch: _Branch = None,
    depth: _Depth = 1,
    price: Price = None,
    no_save: _NoSave = False,
    *,
    settings: Settings,
) -> None:
    """Say what would be freed if data were kept for N days.

    The answer has every N, and other rules from files. Nothing is deleted.

    One pass over the commits and the store answers for all numbers of days, by branch, path, age and size.
    """
    from lakesweep.collector.lakefs.opening import open_run, what_if_request
    from lakesweep.collector.lakefs.retention_rules import parse_rules
    from lakesweep.collector.lakefs.what_if.what_if import run_what_if
    from lakesweep.engine.late import LateEngine
    from lakesweep.report.what_if import what_if_text

    wanted = tuple(
        (name, parse_rules(_read(name), name)) for name in (*(files or ()), *(rules or ()))
    )
    request = replace(
        what_if_request(settings, repo),
        rules=wanted,
        branches=tuple(branch or ()),
        depth=depth,
        price=price,
        save=not no_save,
    )
    with (
        foreign_errors_as_ours("Nothing was deleted."),
        LateEngine(lambda: start_engine(settings)) as engine,
        open_run(settings, repo, engine, progress_display(settings.output)) as context,
    ):
        answer = run_what_if(context, request)
    print_result(settings.output, answer.as_json(), what_if_text(answer).splitlines())


def _read(file: str) -> str:
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The rules file {file} can't be read: {error}. Nothing was touched.", kind="no-rules"
        ) from error
