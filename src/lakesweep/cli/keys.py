"""`lakesweep keys`: who may use an embedded lake, and for what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.lake_options import LakeData, LakeDb, LakeKeyFile, lake_packages
from lakesweep.cli.options import with_settings
from lakesweep.cli.render import print_result, table_lines
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.lake.users.credentials import CredentialStore
    from lakesweep.lake.values import Credentials

__all__ = ["keys_app"]

keys_app = typer.Typer(no_args_is_help=True, help="Access keys of an embedded lake.")

_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The user, who is also the committer of commits.")
]


@keys_app.command("add")
@with_settings("output")
def add(
    name: _Name,
    data: LakeData,
    db: LakeDb = None,
    key_file: LakeKeyFile = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="A key that can only read.")
    ] = False,
    repository: Annotated[
        list[str] | None,
        typer.Option(help="The key reaches this repository only; repeat for more. [default: all]"),
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Give a new user a key, and print it. Its secret is shown this once."""
    with _opened(data, db, key_file) as store:
        added = store.add(name, is_read_only=read_only, repositories=repository or None)
    _show_secret(settings, added)


@keys_app.command("list")
@with_settings("output")
def list_keys(
    data: LakeData, db: LakeDb = None, key_file: LakeKeyFile = None, *, settings: Settings
) -> None:
    """Show who has a key and what it may do; never a secret."""
    with _opened(data, db, key_file) as store:
        keys = store.list()
    rows = [
        [
            key.username,
            key.access_key_id,
            "read" if key.is_read_only else "write",
            "all" if key.repositories is None else " ".join(sorted(key.repositories)),
            _time(key),
        ]
        for key in keys
    ]
    head = ["NAME", "ACCESS KEY ID", "MAY", "REPOSITORIES", "CREATED"]
    print_result(settings.output, [_document(key) for key in keys], table_lines(head, rows))


@keys_app.command("revoke")
@with_settings("output")
def revoke(
    name: _Name,
    data: LakeData,
    db: LakeDb = None,
    key_file: LakeKeyFile = None,
    *,
    settings: Settings,
) -> None:
    """Take a user's key away. Requests with it, and with login tokens made from it, are refused from now on."""
    with _opened(data, db, key_file) as store:
        revoked = store.revoke(name)
    line = f"revoked {revoked.access_key_id} of {revoked.username}"
    print_result(settings.output, _document(revoked), [line])


@keys_app.command("rotate")
@with_settings("output")
def rotate(
    name: _Name,
    data: LakeData,
    db: LakeDb = None,
    key_file: LakeKeyFile = None,
    *,
    settings: Settings,
) -> None:
    """Give a user a new key with the same rights, and print it. The old one ends at once."""
    with _opened(data, db, key_file) as store:
        rotated = store.rotate(name)
    _show_secret(settings, rotated)


@contextmanager
def _opened(data: Path, db: str | None, key_file: Path | None) -> Iterator[CredentialStore]:
    with lake_packages():
        from lakesweep.lake.server import open_credentials
        from lakesweep.lake.values import LakeSettings
    with open_credentials(LakeSettings(data, key_file=key_file), db) as store:
        yield store


def _document(key: Credentials) -> dict[str, object]:
    return {
        "name": key.username,
        "access_key_id": key.access_key_id,
        "read_only": key.is_read_only,
        "repositories": None if key.repositories is None else sorted(key.repositories),
        "created": _time(key),
    }


def _time(key: Credentials) -> str:
    return f"{key.creation_date:%Y-%m-%dT%H:%M:%SZ}"


def _show_secret(settings: Settings, key: Credentials) -> None:
    lines = [
        f"user               {key.username}",
        f"access key id      {key.access_key_id}",
        f"secret access key  {key.secret_access_key}   (shown this once)",
    ]
    document = _document(key) | {"secret_access_key": key.secret_access_key}
    print_result(settings.output, document, lines)
