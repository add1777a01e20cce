"""`lakesweep certify`: whether a server keeps the promises that a collector needs."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.options import with_settings
from lakesweep.cli.render import print_json, print_lines, print_text
from lakesweep.errors import CatalogError, ConfigError, UnsafeToSweepError
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.certify.promise import Finding
    from lakesweep.certify.suite import Certificate
    from lakesweep.certify.throwaway import Server

__all__ = ["certify"]

_Namespace = Annotated[
    str,
    typer.Option(
        "--storage-namespace",
        metavar="URI",
        help="Where throw-away repositories are made, each in a new folder: s3://bucket/prefix, local://name.",
    ),
]
_Endpoint = Annotated[
    str | None, typer.Option("--endpoint", metavar="URL", help="Short for --endpoint-url.")
]
_Keep = Annotated[bool, typer.Option("--keep", help="Delete neither repository nor objects.")]
_Rounds = Annotated[int, typer.Option(min=1, max=1000, help="How often each race is provoked.")]
_Seed = Annotated[int, typer.Option(help="Chooses what the users of a race do.")]
_Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write a page in Markdown to this file, too."),
]


@with_settings("server", "namespace_root", "storage_option", "output")
def certify(
    storage_namespace: _Namespace,
    endpoint: _Endpoint = None,
    rounds: _Rounds = 5,
    seed: _Seed = 1,
    keep: _Keep = False,
    report: _Report = None,
    *,
    settings: Settings,
) -> None:
    """Try whether a server keeps what a collector needs.

    Any lakeFS-compatible server can be tried. It works on repositories of its own, which are deleted afterwards. Nothing else on the server is read or changed. Exit status 4 when a needed promise is not kept, 3 when one could not
    be tried.
    """
    from lakesweep.certify.report import (
        certificate_json,
        certificate_markdown,
        finding_line,
        summary_lines,
    )
    from lakesweep.certify.suite import certify_server

    if report is not None:
        _refuse_unwritable(report)
    if settings.output.log_level == "info":
        # What our own client reads, many times over, is not what was asked for.
        logging.getLogger("lakesweep.catalogs").setLevel(logging.WARNING)
    is_json = settings.output.output == "json"

    def told(finding: Finding) -> None:
        if not is_json:
            print_text(finding_line(finding))

    certificate = certify_server(
        _server(settings, endpoint, storage_namespace),
        rounds=rounds,
        seed=seed,
        keep=keep,
        told=told,
    )
    if report is not None:
        report.write_text(certificate_markdown(certificate), "utf-8")
    if is_json:
        print_json(certificate_json(certificate))
    else:
        print_lines(summary_lines(certificate))
    _refuse_unfit(certificate)


def _server(settings: Settings, endpoint: str | None, namespace: str) -> Server:
    from lakesweep.catalogs.lakefs.transport import Timeouts
    from lakesweep.certify.throwaway import Server

    known = settings.server if endpoint is None else replace(settings.server, endpoint_url=endpoint)
    timeouts = Timeouts(
        connect=known.connect_timeout.total_seconds(),
        read=known.read_timeout.total_seconds(),
        job=known.prepare_timeout.total_seconds(),
    )
    return Server(
        *known.access(),
        namespace,
        storage=settings.storage,
        namespace_root=settings.namespace_root,
        timeouts=timeouts,
    )


def _refuse_unwritable(report: Path) -> None:
    if report.is_dir() or not report.parent.is_dir():
        raise ConfigError(
            f"--report {report} is no file that can be written: its folder does not exist, or it is a folder itself. "
            "Nothing was touched.",
            kind="no-folder",
        )


def _refuse_unfit(certificate: Certificate) -> None:
    from lakesweep.certify.promise import PromiseVerdict
    from lakesweep.certify.suite import Fitness

    if certificate.fitness is Fitness.UNFIT:
        broken = ", ".join(certificate.named(PromiseVerdict.BROKEN, PromiseVerdict.NOT_OFFERED))
        raise UnsafeToSweepError(
            f"{certificate.url} does not keep what a collector needs: {broken}. Nothing was deleted but what this "
            "command made. Do not collect on this server before that is mended.",
            kind="promise-broken",
        )
    if certificate.fitness is Fitness.NOT_KNOWN:
        undecided = ", ".join(certificate.named(PromiseVerdict.NOT_DECIDED))
        raise CatalogError(
            f"What a collector needs of {certificate.url} could not all be tried: {undecided}. Nothing was deleted but "
            "what this command made. Check the rights of the user and the credentials of the store, and try again.",
            kind="promise-not-tried",
        )
