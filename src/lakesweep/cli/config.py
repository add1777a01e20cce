"""`lakesweep config show`: every setting, its value, and where it came from."""

from __future__ import annotations

import typer

from lakesweep.cli.options import with_settings
from lakesweep.cli.render import print_result, table_lines
from lakesweep.settings.values import Settings

__all__ = ["config_app"]

config_app = typer.Typer(no_args_is_help=True, help="Settings and where they come from.")


@config_app.callback()
def config() -> None:
    """Settings and where they come from."""


@config_app.command("show")
@with_settings("server", "storage", "collect", "sweep", "spark", "pages", "output")
def show(*, settings: Settings) -> None:
    """Print every setting and where it came from. Secrets are masked.

    The order is: flag, LAKESWEEP_<FLAG> in the environment, --config file, Spark properties, what lakectl and the
    stores' own tools use, default.
    """
    values = settings.values
    document = {line.name: {"value": line.value, "source": line.source} for line in values}
    rows = [(line.name, _text(line.value), line.source) for line in values]
    print_result(
        settings.output,
        {"schema": "lakesweep.config/1", "settings": document},
        table_lines(("setting", "value", "from"), rows),
    )


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    return str(value)
