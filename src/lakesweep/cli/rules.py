"""`lakesweep rules`: how many days objects stay after they left the head of a branch."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.options import Repo, with_settings
from lakesweep.cli.render import print_result
from lakesweep.errors import ConfigError
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.catalogs.lakefs.client import LakeFSClient
    from lakesweep.domain.rules import RetentionRules

__all__ = ["rules_app"]

logger = logging.getLogger(__name__)

rules_app = typer.Typer(no_args_is_help=True, help="Retention rules of a repository.")

_File = Annotated[
    str, typer.Argument(metavar="FILE", help="A JSON file with the rules; - reads stdin.")
]


@rules_app.command("show")
@with_settings("server", "output")
def show(repo: Repo, *, settings: Settings) -> None:
    """Print the rules. As JSON it is what `rules set` reads; null when there are none."""
    with opened(settings, repo) as (client, name):
        _show(settings, client.rules(name))


@rules_app.command("set")
@with_settings("server", "output")
def set_rules(repo: Repo, file: _File, *, settings: Settings) -> None:
    """Set the rules from a JSON file.

    It holds, for example: {"default_retention_days": 21, "branches": [{"branch_id": "main", "retention_days": 28}]}
    """
    from lakesweep.collector.lakefs.retention_rules import change_rules, parse_rules

    wanted = parse_rules(_read(file), "stdin" if file == "-" else file)
    with opened(settings, repo) as (client, name):
        for warning in change_rules(client, name, wanted):
            logger.warning("repo#%s %s", name, warning)
    _show(settings, wanted)


@rules_app.command("clear")
@with_settings("server", "output")
def clear(repo: Repo, *, settings: Settings) -> None:
    """Remove the rules: nothing expires any more."""
    with opened(settings, repo) as (client, name):
        client.delete_rules(name)
    _show(settings, None)


@contextmanager
def opened(settings: Settings, repo: str) -> Iterator[tuple[LakeFSClient, str]]:
    """The server's client and the repository's name."""
    from lakesweep.collector.lakefs.context import repository_name
    from lakesweep.collector.lakefs.opening import open_client

    name = repository_name(repo)
    with open_client(settings) as client:
        yield client, name


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The rules file {file} can't be read: {error}. Nothing was changed.", kind="no-rules"
        ) from error


def _show(settings: Settings, rules: RetentionRules | None) -> None:
    if rules is None:
        print_result(settings.output, None, ["no rules: nothing expires"])
        return
    from lakesweep.domain.rules import days_text

    branches = sorted(rules.branch_retention_days.items())
    lines = [f"default  {days_text(rules.default_retention_days)}"]
    lines += [f"branch   {branch}: {days_text(days)}" for branch, days in branches]
    print_result(settings.output, rules.as_json(), lines)
