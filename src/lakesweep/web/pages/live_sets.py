"""Nessie's live sets, where a database of them is configured."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import islice

from fastapi import APIRouter, Request, Response

from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.domain.live_sets import parse_live_set_id
from lakesweep.errors import ConfigError
from lakesweep.report.live_sets import mark_facts_json
from lakesweep.web.admission import site_of
from lakesweep.web.rendering import render

__all__ = ["router"]

router = APIRouter()
_MOST_SHOWN = 200


@router.get("/live-sets", name="live_sets")
def show_live_sets(request: Request) -> Response:
    """Every live set, the newest first."""
    with _opened(request) as store:
        return render(request, "live_sets.html", live_sets=store.all())


@router.get("/live-sets/{live_set_id}", name="live_set")
def show_live_set(request: Request, live_set_id: str) -> Response:
    """One live set with what its mark was asked and the first of its contents."""
    with _opened(request) as store:
        live_set = store.get(parse_live_set_id(live_set_id))
        contents = list(islice(store.distinct_contents(live_set.id), _MOST_SHOWN + 1))
        deferred = list(islice(store.deferred(live_set.id), _MOST_SHOWN + 1))
        return render(
            request,
            "live_set.html",
            live_set=live_set,
            content_count=store.content_count(live_set.id),
            facts=mark_facts_json(store.facts(live_set.id)),
            contents=contents,
            deferred=deferred,
            most=_MOST_SHOWN,
        )


def _opened(request: Request) -> AbstractContextManager[LiveSetStore]:
    opened = site_of(request).live_sets
    if opened is None:
        raise ConfigError(
            "These pages have no database of live sets. `lakesweep web --jdbc-url` gives them one.",
            kind="no-live-sets",
        )
    return opened()
