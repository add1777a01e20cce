"""`lakesweep serve`: the embedded lake as a process of its own."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lakesweep.cli.lake_options import LakeData, LakeDb, LakeKeyFile, lake_packages
from lakesweep.cli.options import set_up_logging, with_settings
from lakesweep.domain.durations import parse_duration
from lakesweep.errors import ConfigError
from lakesweep.secrets import known_secrets
from lakesweep.settings.values import Settings

ACCESS_KEY_VARIABLE = "LAKESWEEP_SERVE_ACCESS_KEY_ID"
SECRET_KEY_VARIABLE = "LAKESWEEP_SERVE_SECRET_ACCESS_KEY"


@with_settings("log_level", "log_format", "quiet")
def serve(
    data: LakeData,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    db: LakeDb = None,
    key_file: LakeKeyFile = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="PEM file with the server's certificate chain; https is spoken with it."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="PEM file with the certificate's key.")
    ] = None,
    audit_log: Annotated[
        Path | None,
        typer.Option(help="File to append one JSON line to for each request: who, what, result."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that serve on the one port.")
    ] = 1,
    slice_max_age: Annotated[str, typer.Option(help="Age at which a new slice begins.")] = "1h",
    slice_max_size: Annotated[int, typer.Option(min=1, help="Objects in one slice.")] = 50_000,
    token_life: Annotated[
        str, typer.Option(help="How long an issued address may be linked.")
    ] = "24h",
    copy_life: Annotated[
        str, typer.Option(help="How long a copy is tracked; no collection may take longer.")
    ] = "14d",
    hard_delete: Annotated[
        bool,
        typer.Option(
            "--hard-delete",
            envvar="LAKESWEEP_SERVE_HARD_DELETE",
            help="Delete uncommitted objects for good soon after their last reference, where a repository does not"
            " say otherwise.",
        ),
    ] = False,
    delete_grace: Annotated[
        str, typer.Option(help="How long such an object stays at least, for those who read it.")
    ] = "1m",
    undo_window: Annotated[
        str, typer.Option(help="How long such an object can be brought back; 0s keeps nothing.")
    ] = "0s",
    allow_namespace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URI_PREFIX",
            help="Place where repositories may lie, such as s3://bucket/lakes; repeat for more."
            "  [default: folders in DATA only]",
        ),
    ] = None,
    allow_import: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URI_PREFIX",
            help="Place that users may stage and import from, read with the server's rights; repeat for"
            " more.  [default: none]",
        ),
    ] = None,
    presign: Annotated[
        bool,
        typer.Option(
            "--presign",
            help="Give clients presigned URLs, so that bytes go straight to and from the S3, Azure or Google"
            " store that --allow-namespace names.",
        ),
    ] = False,
    ui: Annotated[
        bool, typer.Option(help="Pages for browsers at /ui, for whoever has a key.")
    ] = True,
    ui_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where browsers and the pages' own runs reach this server; needed with TLS and behind a proxy."
            "  [default: the endpoint]",
        ),
    ] = None,
    *,
    settings: Settings,  # logging is set up from it
) -> None:
    """Serve the embedded lake, a small lakeFS server.

    lakeFS's REST API, an S3 gateway and health checks answer on one port.

    The first start makes an access key and prints it, once. LAKESWEEP_SERVE_ACCESS_KEY_ID and
    LAKESWEEP_SERVE_SECRET_ACCESS_KEY set it instead. `lakesweep keys` gives others theirs. Ctrl-C or SIGTERM finishes the requests under way and stops.
    """
    with lake_packages():
        from lakesweep.cli.lake_pages import LakePages
        from lakesweep.lake.addresses.reach import kinds_of_stores
        from lakesweep.lake.server import (
            Serving,
            bind,
            open_lake,
            review_of,
            serve_lake,
            serve_worker,
            set_up_first_user,
            url_of,
        )
        from lakesweep.lake.values import LakeSettings
        from lakesweep.lake.workers import run_workers
    from lakesweep.storage import StorageOptions

    _refuse_memory([*(allow_namespace or ()), *(allow_import or ())])
    presigned_store = ""
    if presign:
        presigned_store = _presigned_store(kinds_of_stores(allow_namespace or (), data))
    lake_settings = LakeSettings(
        data_dir=data,
        key_file=key_file,
        storage=StorageOptions.from_environment(os.environ),
        slice_max_age=parse_duration(slice_max_age),
        slice_max_size=slice_max_size,
        token_life=parse_duration(token_life),
        copy_life=parse_duration(copy_life),
        hard_delete=hard_delete,
        delete_grace=parse_duration(delete_grace),
        undo_window=parse_duration(undo_window),
        allow_namespaces=tuple(allow_namespace or ()),
        allow_imports=tuple(allow_import or ()),
        presigned_store=presigned_store,
    )
    serving = Serving(tls_cert=tls_cert, tls_key=tls_key, audit_log=audit_log)
    serving.check()
    # All that the server writes is its user's alone, whatever the shell it was started from allows.
    os.umask(0o077)
    listener = bind(host, port)
    # Its own runs would not trust a certificate that names another host than the loopback address.
    if ui and (ui_url is not None or tls_cert is None):
        pages = LakePages(ui_url or url_of(listener, serving), listener.getsockname()[1])
        serving = replace(serving, pages=pages)
    lake = open_lake(lake_settings, db)
    try:
        given = os.environ.get(ACCESS_KEY_VARIABLE), os.environ.get(SECRET_KEY_VARIABLE)
        made = set_up_first_user(lake, *(value or None for value in given))

        def announce() -> None:
            typer.echo(f"endpoint           {url_of(listener, serving)}")
            if made is not None:
                typer.echo(f"access key id      {made.access_key_id}")
            if made is not None and not any(given):
                typer.echo(f"secret access key  {made.secret_access_key}   (shown this once)")
            if serving.pages is not None:
                typer.echo(f"pages              {ui_url or url_of(listener, serving)}/ui/")

        set_up = partial(set_up_logging, settings.output, known_secrets)
        if workers == 1:
            review = review_of(lake_settings, db, set_up)
            serve_lake(lake, listener, announce=announce, serving=serving, review=review)
        else:
            # Each worker opens a lake of its own; this process only watches them.
            lake.close()
            worker = partial(
                serve_worker,
                settings=lake_settings,
                db_url=db,
                serving=serving,
                set_up_logging=set_up,
            )
            # A worker without an audit log would end with it.
            passes_on = [signal.SIGHUP] if audit_log is not None else []
            run_workers(workers, listener, worker, announce=announce, passes_on=passes_on)
    finally:
        listener.close()
        lake.close()


def _presigned_store(kinds: set[str]) -> str:
    """The one kind of store that clients are told of: their configuration has room for one."""
    if len(clouds := kinds - {"local"}) == 1:
        return clouds.pop()
    raise ConfigError(
        "--presign needs --allow-namespace with places in one kind of store: S3, Azure or Google Cloud Storage."
        " The lake was not started."
    )


def _refuse_memory(prefixes: list[str]) -> None:
    for prefix in prefixes:
        if prefix.lower().startswith("mem:"):
            raise ConfigError(
                f"{prefix} can't be allowed: this server's refs outlive the process, and what lies in memory"
                " does not. The lake was not started."
            )
