"""What pages read: the server of the repositories, and a repository's own files in its store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.opening import open_client, open_run
from lakesweep.engine.late import LateEngine
from lakesweep.storage import ObjectStore
from lakesweep.web.callers import Caller

__all__ = ["OpenRepository", "opened_repository", "reachable_repositories"]


@dataclass(frozen=True, slots=True)
class OpenRepository:
    """A repository that can be read."""

    name: str
    namespace: str
    client: LakeFSClient
    store: ObjectStore


@contextmanager
def opened_repository(caller: Caller, name: str) -> Iterator[OpenRepository]:
    """The repository, opened with the caller's own credentials."""
    with open_run(caller.settings, name, LateEngine(_no_engine)) as context:
        namespace = context.repository.details.storage_namespace
        yield OpenRepository(context.name, namespace, context.repository.client, context.store)


def reachable_repositories(caller: Caller) -> list[tuple[str, str]]:
    """Name and namespace of every repository that the caller may see, by name."""
    with open_client(caller.settings) as client:
        found = client.repositories()
    return sorted((r.id, r.storage_namespace) for r in found if caller.reaches(r.id))


def _no_engine() -> NoReturn:
    raise AssertionError("a page reads; what needs an engine is a command")
