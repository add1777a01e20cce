"""The server's own list of retained commits. Ours is computed from the graph; the union of both is kept."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.catalogs.lakefs.wire import PrepareCommitsWire
from lakesweep.errors import (
    CatalogError,
    CatalogNotFoundError,
    ObjectNotFoundError,
    UnsafeToSweepError,
)
from lakesweep.formats.commits_csv import ListedCommits, read_listed_commits
from lakesweep.formats.damage import named_damage
from lakesweep.storage import ObjectStore

__all__ = ["ServerRetainedCommits", "server_retained_commits"]

_FIRST_WAIT_SECONDS = 0.02  # small repositories are done in milliseconds
_LONGEST_WAIT_SECONDS = 5.0
# What a server says that has no asynchronous call: 404 since 1.75, 500 before.
_NO_SUCH_CALL = "http-500"


@dataclass(frozen=True, slots=True)
class ServerRetainedCommits:
    """What the server would retain: commits with their metaranges (commits without one are left out by servers)."""

    run_id: str
    key: str  # of the server's list
    commits: ListedCommits


def server_retained_commits(
    client: LakeFSClient, store: ObjectStore, repository: str, normaliser: AddressNormaliser
) -> ServerRetainedCommits | None:
    """Have the server prepare its list and read it. None means that the repository has no rules: nothing expires.

    Raises:
        CatalogError: the server could not prepare the list.
        UnsafeToSweepError: the list is not where the server says it is.
    """
    prepared = _prepare(client, repository)
    if prepared is None:
        return None
    key = normaliser.relative(prepared.gc_commits_location)
    if key is None:
        raise UnsafeToSweepError(
            f"The server wrote the retained commits of {repository} to {prepared.gc_commits_location}, which is "
            f"outside the storage namespace {normaliser.namespace}. Nothing was deleted.",
            kind="location-outside",
        )
    try:
        data = store.read(key)
    except ObjectNotFoundError as missing:
        raise UnsafeToSweepError(
            f"The server says it wrote the retained commits of {repository} to {key}, but nothing is there. Nothing "
            "was deleted. Check that the storage namespace and its credentials are those of the server.",
            kind="location-missing",
        ) from missing
    with named_damage(key):
        commits = read_listed_commits(data)
    return ServerRetainedCommits(prepared.run_id, key, commits)


def _prepare(client: LakeFSClient, repository: str) -> PrepareCommitsWire | None:
    try:
        task_id = client.start_prepare_commits(repository)
    except CatalogNotFoundError:
        return _prepare_blocking(client, repository)
    except CatalogError as error:
        if error.kind != _NO_SUCH_CALL:
            raise
        return _prepare_blocking(client, repository)
    return _wait(client, repository, task_id)


def _prepare_blocking(client: LakeFSClient, repository: str) -> PrepareCommitsWire | None:
    try:
        return client.prepare_commits(repository)
    except CatalogNotFoundError:
        client.repository(repository)  # raises when it is the repository that is not there
        return None


def _wait(client: LakeFSClient, repository: str, task_id: str) -> PrepareCommitsWire | None:
    waited, wait = 0.0, _FIRST_WAIT_SECONDS
    while True:
        status = client.prepare_commits_status(repository, task_id)
        if status.completed or status.error is not None:
            break
        if waited >= client.timeouts.job:
            raise CatalogError(
                f"prepare_commits of {repository} (task {task_id}) was not done after {waited:.0f} s. Nothing was "
                "concluded. Give it more time with lakefs.gc.prepare_commits.timeout_seconds.",
                kind="catalog-timeout",
            )
        client.sleep(wait)
        waited += wait
        wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
    if status.error is not None:
        # Without rules the call is accepted and fails like this ("get gc rules: not found").
        if "not found" in status.error.message and client.rules(repository) is None:
            return None
        raise CatalogError(
            f"prepare_commits of {repository} (task {task_id}) failed: {status.error.message[:300]}.",
            kind="catalog-task-failed",
        )
    if status.result is None:
        raise CatalogError(
            f"prepare_commits of {repository} (task {task_id}) is completed, with neither a result nor an error.",
            kind="catalog-nonsense",
        )
    return status.result
