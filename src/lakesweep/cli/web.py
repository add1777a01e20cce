"""`lakesweep web`: runs, marks and rules in a browser."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cachefolder import cache_folder
from lakesweep.cli.options import with_settings
from lakesweep.errors import ConfigError
from lakesweep.settings.lakefs_options import SETTINGS
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.cli.nessie.live_sets import Database

__all__ = ["commands_folder", "pages_packages", "server_variables", "web"]


@with_settings(
    *("server", "namespace_root", "keep_runs", "storage_option", "spark"),
    *("log_level", "log_format", "quiet"),
)
def web(
    context: typer.Context,
    repo: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REPO", help="Show this repository only; repeat for more. [default: all]"
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8210,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:PORT]",
            help="A further name by which browsers may call this server, as they write it; repeat for more. "
            "Needed for a --host that other machines can reach.",
        ),
    ] = None,
    jdbc_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Show the live sets of Nessie in this database, too. Its user and password come from "
            "NESSIE_GC_JDBC_USER and NESSIE_GC_JDBC_PASSWORD.",
        ),
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Show repositories, runs and marks in a browser.

    Rules and live sets are shown, too. Marks and sweeps can be started.

    A link is printed that logs its reader in, once. A sweep is started for the plan whose id is typed, with the guards and
    the lease of `lakesweep sweep`. No guard can be lowered here. What was started is a process of its own, which continues
    when this one ends.
    """
    with pages_packages():
        from lakesweep.cli.nessie.live_sets import opened_live_sets
        from lakesweep.web.callers import Caller, LinkAccount
        from lakesweep.web.commands import Commands
        from lakesweep.web.security import loopback_hosts
        from lakesweep.web.server import bind, is_loopback, serve_pages
        from lakesweep.web.site import Site

    if not is_loopback(host) and not allow_host:
        raise ConfigError(
            f"Other machines can reach {host}. Nothing was started. Say with --allow-host by which name browsers call this "
            "server; put TLS in front of it, or its link and its pages can be read on the way.",
            kind="not-loopback",
        )
    endpoint_url, _, _ = settings.server.access()
    database = _database(jdbc_url) if jdbc_url is not None else None
    caller = Caller(
        id="local",
        name="you",
        settings=settings,
        environment={**os.environ, **_flags(context.params), **server_variables(settings)},
        repositories=frozenset(repo) if repo else None,
    )
    listener = bind(host, port)
    port = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{allow_host[0] if allow_host else f'{shown}:{port}'}"
    account = LinkAccount(
        caller, lambda token: typer.echo(f"log in once with  {url}/login?token={token}")
    )
    site = Site(
        accounts=account,
        commands=Commands(commands_folder(endpoint_url)),
        hosts=loopback_hosts(port) | frozenset(allow_host or ()),
        cookie=f"lakesweep-{port}",
        live_sets=None if database is None else partial(opened_live_sets, database),
    )
    with listener:
        account.new_link()
        serve_pages(site, listener)


def server_variables(settings: Settings) -> dict[str, str]:
    """The server and its key as variables: a secret on a command line could be read by other users."""
    names = ("ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
    access = settings.server.access()
    return {f"LAKESWEEP_{n}": value for n, value in zip(names, access, strict=True)}


def commands_folder(endpoint_url: str) -> Path:
    """Where commands that were started on a server's repositories leave what they say."""
    return cache_folder() / "web" / hashlib.sha256(endpoint_url.encode()).hexdigest()[:16]


@contextmanager
def pages_packages() -> Iterator[None]:
    """Import the pages within this block: their packages are an extra."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"The pages need the package {missing.name}, which is not installed. Nothing was done; "
            "install lakesweep[web].",
            kind="no-web",
        ) from missing


def _flags(given: Mapping[str, object]) -> dict[str, str]:
    """The options of this command line as variables, for the commands that it starts."""
    variables = {}
    for option in SETTINGS:
        value = given.get(option.name)
        # How this command talks is no matter of theirs: a quiet one would not tell the pages how far it is.
        if value in (None, [], ()) or option.group == "output":
            continue
        is_list = isinstance(value, list | tuple)
        variables[option.variable] = shlex.join(value) if is_list else str(value)  # type: ignore[arg-type]
    if given.get("config"):
        variables["LAKESWEEP_CONFIG"] = str(given["config"])
    return variables


def _database(jdbc_url: str) -> Database | None:
    from lakesweep.cli.nessie.live_sets import chosen_database
    from lakesweep.settings.nessie_options import NESSIE_OPTIONS
    from lakesweep.settings.nessie_values import OptionValues
    from lakesweep.settings.option import choose

    chosen = choose(NESSIE_OPTIONS, ["jdbc"])
    return chosen_database(OptionValues(chosen, {"jdbc_url": jdbc_url}, os.environ))
