"""What every REST route needs of the caller's key: one table, checked before any handler runs.

A route that is not in the table can't be served: the server does not start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute

from lakesweep.lake.api.auth import CREDENTIALS_KEY
from lakesweep.lake.api.observing import note
from lakesweep.lake.api.rest.unsupported import UNSUPPORTED_OPERATIONS
from lakesweep.lake.users.access import Need, check_access
from lakesweep.lake.values import Credentials

__all__ = ["NEED_OF_ROUTE", "check_route_access", "routes_in", "set_up_access"]

RouteKey = tuple[str, str]
"""Method and path template, below `/api/v1`."""

_TABLE = """
open    GET    /_health
open    GET    /_ready
key     GET    /metrics
open    GET    /healthcheck
open    GET    /setup_lakefs
open    POST   /setup_lakefs
open    POST   /auth/login

key     GET    /user
key     GET    /config
key     GET    /config/storage
key     GET    /config/version
key     GET    /config/garbage-collection
key     POST   /statistics

key     GET    /repositories
manage  POST   /repositories
read    GET    /repositories/{repository}
manage  DELETE /repositories/{repository}
read    GET    /repositories/{repository}/metadata

write   PUT    /repositories/{repository}/refs/dump
write   POST   /repositories/{repository}/dump
read    GET    /repositories/{repository}/dump
manage  PUT    /repositories/{repository}/refs/restore
manage  POST   /repositories/{repository}/restore
read    GET    /repositories/{repository}/restore

read    GET    /repositories/{repository}/branches
write   POST   /repositories/{repository}/branches
read    GET    /repositories/{repository}/branches/{branch}
write   DELETE /repositories/{repository}/branches/{branch}
write   PUT    /repositories/{repository}/branches/{branch}
write   PUT    /repositories/{repository}/branches/{branch}/hard_reset
read    GET    /repositories/{repository}/branches/{branch}/diff
write   POST   /repositories/{repository}/branches/{branch}/revert
write   POST   /repositories/{repository}/branches/{branch}/cherry-pick

read    GET    /repositories/{repository}/tags
write   POST   /repositories/{repository}/tags
read    GET    /repositories/{repository}/tags/{tag}
write   DELETE /repositories/{repository}/tags/{tag}

write   POST   /repositories/{repository}/branches/{branch}/commits
read    GET    /repositories/{repository}/commits/{ref}
read    GET    /repositories/{repository}/refs/{ref}/commits
manage  POST   /repositories/{repository}/commits
read    GET    /repositories/{repository}/refs/{left_ref}/diff/{right_ref}
read    GET    /repositories/{repository}/refs/{source_ref}/merge/{destination_branch}
write   POST   /repositories/{repository}/refs/{source_ref}/merge/{destination_branch}

read    GET    /repositories/{repository}/refs/{ref}/objects
read    HEAD   /repositories/{repository}/refs/{ref}/objects
read    GET    /repositories/{repository}/refs/{ref}/objects/stat
read    GET    /repositories/{repository}/refs/{ref}/objects/ls
read    GET    /repositories/{repository}/refs/{ref}/objects/underlyingProperties

write   POST   /repositories/{repository}/branches/{branch}/objects
write   PUT    /repositories/{repository}/branches/{branch}/objects
write   DELETE /repositories/{repository}/branches/{branch}/objects
write   GET    /repositories/{repository}/branches/{branch}/objects/stage_allowed
write   POST   /repositories/{repository}/branches/{branch}/objects/delete
write   POST   /repositories/{repository}/branches/{branch}/objects/copy
write   PUT    /repositories/{repository}/branches/{branch}/objects/stat/user_metadata
write   GET    /repositories/{repository}/branches/{branch}/staging/backing
write   PUT    /repositories/{repository}/branches/{branch}/staging/backing
write   POST   /repositories/{repository}/branches/{branch}/staging/pmpu
write   PUT    /repositories/{repository}/branches/{branch}/staging/pmpu/{uploadId}
write   DELETE /repositories/{repository}/branches/{branch}/staging/pmpu/{uploadId}
write   PUT    /repositories/{repository}/branches/{branch}/staging/pmpu/{uploadId}/parts/{partNumber}
write   POST   /repositories/{repository}/branches/{branch}/import
read    GET    /repositories/{repository}/branches/{branch}/import
write   DELETE /repositories/{repository}/branches/{branch}/import

read    GET    /repositories/{repository}/metadata/meta_range/{meta_range_id}
read    GET    /repositories/{repository}/metadata/range/{range_id}
read    GET    /repositories/{repository}/metadata/object/{type}/{object_id}

read    GET    /repositories/{repository}/settings/gc_rules
write   PUT    /repositories/{repository}/settings/gc_rules
write   DELETE /repositories/{repository}/settings/gc_rules
read    GET    /repositories/{repository}/gc/rules
write   POST   /repositories/{repository}/gc/rules
write   DELETE /repositories/{repository}/gc/rules
write   GET    /repositories/{repository}/gc/rules/set_allowed
write   POST   /repositories/{repository}/gc/prepare_commits
write   POST   /repositories/{repository}/gc/prepare_commits/async
read    GET    /repositories/{repository}/gc/prepare_commits/status
write   POST   /repositories/{repository}/gc/prepare_uncommited
read    GET    /repositories/{repository}/gc/head_moves
read    GET    /repositories/{repository}/gc/commits
read    GET    /repositories/{repository}/gc/holders

read    GET    /repositories/{repository}/settings/hard_delete
write   PUT    /repositories/{repository}/settings/hard_delete
read    GET    /repositories/{repository}/gc/hard_deletes
write   POST   /repositories/{repository}/gc/hard_deletes/undo
write   PUT    /repositories/{repository}/gc/fences/{batch}/addresses
write   PUT    /repositories/{repository}/gc/fences/{batch}
write   DELETE /repositories/{repository}/gc/fences/{batch}
"""


def _parse_table() -> Iterator[tuple[RouteKey, Need]]:
    for line in filter(None, _TABLE.splitlines()):
        need, method, path = line.split()
        yield (method, path), Need(need)
    for operation in UNSUPPORTED_OPERATIONS:  # nothing is read or changed
        yield (operation.method, operation.path), Need.KEY


NEED_OF_ROUTE: dict[RouteKey, Need] = dict(_parse_table())


def routes_in(routers: Iterable[APIRouter]) -> Iterator[RouteKey]:
    """Method and path of every route."""
    for router in routers:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            for method in route.methods or ():
                yield method, route.path


def set_up_access(routers: Iterable[APIRouter]) -> None:
    """Refuse to serve a route whose need nobody decided."""
    unknown = sorted(set(routes_in(routers)) - NEED_OF_ROUTE.keys())
    if unknown:
        raise LookupError(f"no need in the table of api/rest/access.py for {unknown}")


async def check_route_access(request: Request) -> None:
    """Check the caller's key against the route that was found; passed by every request before its handler."""
    route, repository_id = request.scope["route"], request.path_params.get("repository")
    need = NEED_OF_ROUTE[request.method, route.path]
    caller: Credentials | None = request.scope.get(CREDENTIALS_KEY)
    target = request.query_params.get("path") or request.query_params.get("dest_path")
    note(request.scope, caller, route.name, repository_id, target)
    if need is not Need.OPEN:
        assert caller is not None
        check_access(caller, need, repository_id)
