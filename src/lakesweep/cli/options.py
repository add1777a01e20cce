"""Options made from the table of settings: a command names groups or single options and is handed `Settings`.

@app.command("mark")
@with_settings("server", "storage", "collect", "spark", "output")
def mark(repo: Repo, *, settings: Settings) -> None:
    ...
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from lakesweep.logs import configure_logging
from lakesweep.metrics.watched import watched_run
from lakesweep.secrets import SecretMask, known_secrets
from lakesweep.settings.lakefs_options import SETTINGS
from lakesweep.settings.option import Option, choose

if TYPE_CHECKING:
    from lakesweep.settings.values import OutputSettings

__all__ = [
    *("EXIT_STATUSES", "Command", "Region", "Repo", "option_parameter", "parameter"),
    *("session_properties", "set_up_logging", "with_parameters", "with_settings"),
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
        help="A TOML file with settings; its keys are the options without their leading dashes. "
        "Also LAKESWEEP_CONFIG.",
    ),
]


EXIT_STATUSES = (
    "Exit status: 0 done, also when there was nothing to do; 1 a bug of ours; 2 wrong use or configuration, "
    "nothing was touched; 3 catalog or storage refused or could not be reached, nothing was deleted; 4 refused as "
    "unsafe, nothing was deleted; 5 something was deleted and the sweep is not complete, `lakesweep runs resume` "
    "continues it; 130 interrupted."
)


def with_settings(*wanted: str) -> Callable[[Command], Command]:
    """Give a command the options of these names and groups, and its `settings` what they and all other sources say.

    A parameter `region` of the command (the seeds' second argument) counts as a source of the store's region.
    """
    chosen = choose(SETTINGS, wanted)
    unknown = set(wanted).difference(*((o.name, o.group) for o in chosen))
    assert not unknown, f"no setting and no group of settings: {unknown}"
    is_run = "metrics" in wanted

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items()
            if name != "settings"
        ]
        names = {parameter.name for parameter in own}
        options = [parameter("config", _Config), *map(option_parameter, chosen)]

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
            if not is_run:
                command(**ours, settings=settings)
                return
            metrics_file, repository = settings.output.metrics_file, str(ours.get("repo", ""))
            with watched_run(command.__name__, metrics_file, repository=repository):
                command(**ours, settings=settings)

        return with_parameters(run, [*own, *options])

    return decorate


def with_parameters(run: Command, parameters: Sequence[inspect.Parameter]) -> Command:
    """The function with other parameters for Typer, which reads the signature and the annotations."""
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def set_up_logging(output: OutputSettings, mask: SecretMask = known_secrets) -> None:
    """Log as the settings say; `--quiet` leaves warnings and errors."""
    level = output.log_level
    if output.quiet and level in ("debug", "info"):
        level = "warning"
    configure_logging(level, output.log_format, mask=mask)


def parameter(name: str, annotation: Any, default: object = None) -> inspect.Parameter:
    """A parameter of a command that is called by name."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def option_parameter(option: Option) -> inspect.Parameter:
    """The parameter that Typer makes the option's flag from."""
    default = option.shown_default
    help_text = f"{option.help} [default: {default}]" if default else option.help
    flag = f"{option.flag}/--no-{option.file_key}" if option.kind.is_negatable else option.flag
    names = [flag, *([option.short] if option.short else [])]
    if option.kind.is_switch:
        return parameter(option.name, Annotated[bool | None, typer.Option(*names, help=help_text)])
    wanted = list[str] | None if option.kind.is_repeated else str | None
    flags = typer.Option(*names, metavar=option.shown_metavar, help=help_text)
    return parameter(option.name, Annotated[wanted, flags])
