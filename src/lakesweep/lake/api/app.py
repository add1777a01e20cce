"""The lake as one ASGI app: REST under `/api/v1`, the S3 gateway beside it, bounds and credentials before both."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from lakesweep.lake.api.auth import Authenticator, RequireCredentials, find_header
from lakesweep.lake.api.gateway.app import DEFAULT_DOMAINS, build_gateway
from lakesweep.lake.api.hiding import HidePaths
from lakesweep.lake.api.lanes import Lanes
from lakesweep.lake.api.limits import LimitRequests, RequestLimits
from lakesweep.lake.api.metrics import Metrics
from lakesweep.lake.api.observing import AuditLog, ObserveRequests
from lakesweep.lake.api.rest import (
    branches,
    commits,
    config,
    gc,
    hard_delete,
    imports,
    metadata,
    object_reads,
    object_writes,
    presigned_uploads,
    refs,
    repositories,
    setup,
    staging,
    tags,
    unsupported,
)
from lakesweep.lake.api.rest.access import check_route_access, set_up_access
from lakesweep.lake.api.rest.dependencies import ApiState, check_text
from lakesweep.lake.api.rest.errors import install_error_handlers
from lakesweep.lake.api.rest.quick_routes import QuickRoutes
from lakesweep.lake.hidden_paths import HiddenPaths
from lakesweep.lake.lake import Lake
from lakesweep.lake.readiness import Readiness

API_PATH = "/api/v1"
PAGES_PATH = "/ui"

# Routes are tried one after the other, so the busiest come first.
_ROUTERS = (
    object_writes.router,
    object_reads.router,
    staging.router,
    presigned_uploads.router,
    commits.router,
    branches.router,
    refs.router,
    tags.router,
    repositories.router,
    hard_delete.router,
    imports.router,
    metadata.router,
    gc.router,
    config.router,
    setup.router,
    unsupported.router,
)


def build_app(
    lake: Lake,
    *,
    limits: RequestLimits | None = None,
    gateway_domains: Sequence[str] = DEFAULT_DOMAINS,
    audit_log: AuditLog | None = None,
    pages: ASGIApp | None = None,
) -> ASGIApp:
    """Everything that listens on the lake's one port; `pages` are what browsers find below `PAGES_PATH`."""
    lanes = Lanes(lake)
    gateway = build_gateway(lake, lanes, domains=gateway_domains)
    metrics = Metrics(lake)
    dispatch = _Dispatch(build_rest(lake, lanes, metrics), gateway, gateway_domains, pages)
    hiding = HidePaths(dispatch, HiddenPaths(lake.settings.data_dir))
    limited = LimitRequests(hiding, limits or RequestLimits())
    return ObserveRequests(limited, (metrics,) if audit_log is None else (metrics, audit_log))


def build_rest(lake: Lake, lanes: Lanes, metrics: Metrics) -> ASGIApp:
    """The REST API, behind its credentials and what each route needs of them."""
    authenticator = Authenticator(lake.credentials.find, is_remote=lake.credentials.is_remote)
    app = build_routes()
    app.state.api = ApiState(lake, authenticator, metrics, Readiness(lake), lanes)
    quick = QuickRoutes(app, _ROUTERS, API_PATH, gates=[check_text, check_route_access])
    return RequireCredentials(quick, authenticator)


def build_routes() -> FastAPI:
    """Every REST route, of no lake yet. Its description (`openapi()`) is not served."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    set_up_access((setup.health_router, *_ROUTERS))
    check_access = [Depends(check_text), Depends(check_route_access)]
    app.include_router(setup.health_router, dependencies=check_access)
    for router in _ROUTERS:
        app.include_router(router, prefix=API_PATH, dependencies=check_access)
    install_error_handlers(app)
    return app


class _Dispatch:
    """Sends S3 requests to the gateway, a browser's to the pages, and all others to the REST API."""

    def __init__(
        self, rest: ASGIApp, gateway: ASGIApp, domains: Sequence[str], pages: ASGIApp | None
    ) -> None:
        self._rest = rest
        self._gateway = gateway
        self._pages = pages
        self._domains = tuple(domain.lower() for domain in domains)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_s3(scope):
            await self._gateway(scope, receive, send)
        elif self._pages is not None and (scope.get("path", "") + "/").startswith(f"{PAGES_PATH}/"):
            await self._pages(scope, receive, send)
        else:
            await self._rest(scope, receive, send)

    def _is_s3(self, scope: Scope) -> bool:
        presented = find_header(scope, b"authorization") or ""
        if presented.startswith(("AWS4-HMAC-SHA256", "AWS ")):
            return True
        named = (find_header(scope, b"host") or "").lower()
        host = named.rpartition(":")[0] or named
        for domain in self._domains:
            if host == domain or host.endswith("." + domain):
                return True
        query: bytes = scope["query_string"]
        lowered = query.lower()
        # Most requests have no such name in their query at all, so parsing it is the exception.
        if b"x-amz-" not in lowered and b"awsaccesskeyid" not in lowered:
            return False
        names = {name.lower() for name in parse_qs(query.decode("latin-1"), keep_blank_values=True)}
        # Links of signature version 2 are refused by the gateway, which says what to sign with instead.
        return bool(names & {"x-amz-algorithm", "x-amz-credential", "awsaccesskeyid"})
