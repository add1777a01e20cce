"""From settings to what a run works with: the client, the repository, the requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.transport import Timeouts
from lakesweep.collector.lakefs.context import RunContext, open_repository, repository_name
from lakesweep.collector.lakefs.request import Flow, MarkRequest, What, WhatIfRequest
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Engine
from lakesweep.errors import ConfigError
from lakesweep.progress import Display
from lakesweep.settings.values import Settings


@contextmanager
def open_client(settings: Settings) -> Iterator[LakeFSClient]:
    """A client of the configured server, closed with the block."""
    server = settings.server
    timeouts = Timeouts(
        connect=server.connect_timeout.total_seconds(),
        read=server.read_timeout.total_seconds(),
        # A server may write lists for minutes before it answers such a call.
        job=server.prepare_timeout.total_seconds(),
    )
    with LakeFSClient(*server.access(), timeouts=timeouts) as client:
        yield client


@contextmanager
def open_run(
    settings: Settings, repository: str, engine: Engine, display: Display | None = None
) -> Iterator[RunContext]:
    """Everything that a run on the repository needs."""
    name = repository_name(repository)
    collect = settings.collect
    _refuse_other_name("--no-lease", collect.no_lease, name)
    with open_client(settings) as client:
        root = settings.namespace_root
        run = open_repository(
            client, name, settings.storage, engine, display=display, namespace_root=root
        )
        yield replace(
            run,
            resources=replace(
                run.resources,
                most_tasks=collect.address_partitions,
                most_readers=collect.range_partitions,
            ),
            use_lease=collect.no_lease is None,
            keep_runs=collect.keep_runs,
        )


def mark_request(settings: Settings, repository: str) -> MarkRequest:
    """What the settings ask of a mark of this repository."""
    collect = settings.collect
    name = repository_name(repository)
    _refuse_other_name("--unsafe-min-age", collect.unsafe_min_age, name)
    # It would lower nothing now, and the guard without a word on the day that somebody adds --min-age.
    if collect.unsafe_min_age is not None and collect.min_age is None and collect.do_mark:
        raise ConfigError(
            "--unsafe-min-age allows a lower --min-age, and none is given. Nothing was touched.",
            kind="no-min-age",
        )
    return MarkRequest(
        what=What(collect.what),
        flow=Flow(collect.run),
        mark_id=collect.mark_id,
        min_age=collect.min_age,
        allow_lower_min_age=collect.unsafe_min_age is not None,
        keep_refs=collect.keep_refs,
        keep_tags=collect.keep_tags,
        now=collect.now,
        inventory=collect.inventory,
        max_inventory_age=collect.max_inventory_age,
    )


def what_if_request(settings: Settings, repository: str) -> WhatIfRequest:
    """What the settings ask of a what-if of this repository."""
    marking = mark_request(settings, repository)
    return WhatIfRequest(
        what=marking.what,
        min_age=marking.min_age,
        allow_lower_min_age=marking.allow_lower_min_age,
        keep_refs=marking.keep_refs,
        keep_tags=marking.keep_tags,
        now=marking.now,
    )


def sweep_request(settings: Settings, repository: str) -> SweepRequest:
    """What the settings ask of a sweep of this repository."""
    collect = settings.collect
    to = collect.backup_to
    _refuse_other_name("--unsafe-min-age", collect.unsafe_min_age, repository_name(repository))
    return SweepRequest(
        max_delete_share=collect.max_delete_share,
        confirm=collect.confirm,
        allow_lower_min_age=collect.unsafe_min_age is not None,
        dry_run=collect.dry_run,
        backup_to=to,
        keep_refs=collect.keep_refs,
        keep_tags=collect.keep_tags,
        min_age=collect.min_age,
        backup_storage=settings.storage if to is not None else None,
    )


def named_mark(settings: Settings) -> str:
    """The earlier mark that the settings name."""
    if settings.collect.mark_id is None:
        raise ConfigError(
            "Which mark? Give --mark-id; `lakesweep runs list` shows the marks. Nothing was touched.",
            kind="no-mark-id",
        )
    return settings.collect.mark_id


def outside_target(settings: Settings, uri: str) -> Target:
    """A location outside the namespace, as a user writes it."""
    location = Location.parse(uri, namespace_root=settings.namespace_root)
    return Target(location, settings.storage, settings.namespace_root)


def _refuse_other_name(flag: str, named: str | None, repository: str) -> None:
    # A command that is copied from another repository's script lowers no guard here.
    if named is not None and repository_name(named) != repository:
        raise ConfigError(
            f"{flag} {named} names another repository than {repository}: the guard is lowered for exactly the one "
            "that is named. Nothing was touched.",
            kind="other-repository-named",
        )
