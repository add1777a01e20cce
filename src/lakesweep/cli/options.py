"""Options as groups, made from the table of settings: a command names its groups and is handed `Settings`.

@app.command("mark")
@with_settings("server", "storage", "collect", "spark", "output")
def mark(repo: Repo, *, settings: Settings) -> None:
    ...
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from lakesweep.logs import configure_logging
from lakesweep.settings.declared import SETTINGS, Group, Setting

if TYPE_CHECKING:
    from lakesweep.settings.values import OutputSettings

__all__ = [
    "EXIT_STATUSES",
    "MARK_ID_ONLY",
    "Region",
    "Repo",
    "chosen_settings",
    "collect_settings_but",
    "session_properties",
    "set_up_logging",
    "with_settings",
]

logger = logging.getLogger(__name__)

Command = Callable[..., None]

# Properties of a session that is there already, as in a job that spark-submit started; `--conf` goes over them.
session_properties: ContextVar[Mapping[str, str]] = ContextVar("session_properties")

Repo = Annotated[
    str,
    typer.Argument(metavar="REPO", help="The repository: example-repo or lakefs://example-repo."),
]
Region = Annotated[
    str | None,
    typer.Argument(metavar="[REGION]", help="The bucket's region, where it can't be discovered."),
]
_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings in a TOML file; its keys are the options without their dashes. "
        "Also LAKESWEEP_CONFIG.",
    ),
]


def collect_settings_but(*names: str) -> tuple[str, ...]:
    """For `without`: of what a mark is asked, these names are left to a command on an earlier mark."""
    return tuple(s.name for s in SETTINGS if s.group == "collect" and s.name not in names)


MARK_ID_ONLY = collect_settings_but("mark_id")

EXIT_STATUSES = (
    "Exit status: 0 done, also when there was nothing to do; 1 a bug of ours; 2 wrong use or configuration, "
    "nothing was touched; 3 catalog or storage refused or could not be reached, nothing was deleted; 4 refused as "
    "unsafe, nothing was deleted; 5 something was deleted and the sweep is not complete, `lakesweep runs resume` goes "
    "on; 130 interrupted."
)


def chosen_settings(groups: Iterable[Group], without: Iterable[str] = ()) -> list[Setting]:
    """The settings of these groups that have a flag."""
    wanted, unwanted = set(groups), set(without)
    return [s for s in SETTINGS if s.has_flag and s.group in wanted and s.name not in unwanted]


def with_settings(*groups: Group, without: Iterable[str] = ()) -> Callable[[Command], Command]:
    """Give a command the options of these groups, and its `settings` parameter what they and all other sources say.

    A parameter `region` of the command (the seeds' second argument) counts as a source of the store's region.
    """
    chosen = chosen_settings(groups, without)

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, localns={"Settings": object}, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(command).parameters.values()
            if parameter.name != "settings"
        ]
        names = {parameter.name for parameter in own}
        options = [_parameter("config", _Config), *(_parameter(s.name, _option(s)) for s in chosen)]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            from lakesweep.settings.load import load_settings

            ours = {name: value for name, value in arguments.items() if name in names}
            flags = {name: value for name, value in arguments.items() if name not in names}
            settings = load_settings(
                flags, spark_properties=session_properties.get({}), region=ours.get("region")
            )
            set_up_logging(settings.output)
            for warning in settings.warnings:
                logger.warning("%s", warning)
            command(**ours, settings=settings)

        # Typer reads the signature and the annotations; both must tell of the options.
        run.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*own, *options)}
        del run.__wrapped__
        return run

    return decorate


def set_up_logging(output: OutputSettings) -> None:
    """Log as the settings say; `--quiet` leaves warnings and errors."""
    level = output.log_level
    if output.quiet and level in ("debug", "info"):
        level = "warning"
    configure_logging(level, output.log_format)


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=annotation)


def _option(setting: Setting) -> Any:
    default = setting.default_text or setting.default_value
    help_text = f"{setting.help} [default: {default}]" if default else setting.help
    if setting.kind.is_switch:
        return Annotated[bool | None, typer.Option(setting.flag, help=help_text)]
    metavar = setting.metavar or setting.kind.metavar
    option = typer.Option(setting.flag, metavar=metavar, help=help_text)
    wanted = list[str] | None if setting.kind.is_repeated else str | None
    return Annotated[wanted, option]
