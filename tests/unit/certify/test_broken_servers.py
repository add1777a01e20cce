"""Each promise is broken once, by somebody between a good server and the suite, and must be reported as broken."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from lakesweep.catalogs.lakefs.transport import Timeouts
from lakesweep.certify import (
    addresses,
    clocks,
    commits,
    copies,
    hard_deletes,
    listings,
    races,
    retention,
    uncommitted,
    uploads,
)
from lakesweep.certify.promise import PromiseVerdict
from lakesweep.certify.suite import PROMISES, Certificate, Fitness, certify_server
from lakesweep.certify.throwaway import Server
from lakesweep.formats.tables import read_uncommitted, write_uncommitted
from lakesweep.lake.server import LakeServer
from lakesweep.storage.memory import memory_container
from lakesweep_testing.trouble import MeddlingTransport, Send, edited_answer, route_of

pytestmark = pytest.mark.slow

Meddle = Callable[[httpx.Request, Send], httpx.Response]
CONTAINER = "certify-tests"
PREPARE = "POST gc/prepare_uncommited"


def certified(
    lake: LakeServer, promises: Sequence[Any], meddle: Meddle | None = None, rounds: int = 1
) -> Certificate:
    server = Server(
        lake.endpoint,
        lake.access_key_id,
        lake.secret_access_key,
        f"mem://{CONTAINER}",
        timeouts=Timeouts(read=100.0),  # the first commit may compile what it needs
        http_transport=lambda: None if meddle is None else MeddlingTransport(meddle),
    )
    return certify_server(server, rounds=rounds, seed=1, promises=promises)


# -- ways to break a promise


def answering(route: str, **changes: object) -> Meddle:
    """Answers of a route with some fields changed."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        fits = re.fullmatch(route, route_of(request)) and response.status_code < 300
        return edited_answer(response, **changes) if fits else response

    return meddle


def statuses(route: str, status: int, *, when: range = range(100, 600)) -> Meddle:
    """Another status on a route, after the request was carried out."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        is_it = re.fullmatch(route, route_of(request)) and response.status_code in when
        return httpx.Response(status, json={}) if is_it else response

    return meddle


def unsent(route: str) -> Meddle:
    """A route that answers 204 and does nothing."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        return httpx.Response(204) if re.fullmatch(route, route_of(request)) else send(request)

    return meddle


def on_pages(route: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Meddle:
    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        fits = re.fullmatch(route, route_of(request))
        return edited_answer(response, **change(response.json())) if fits else response

    return meddle


def cut(page: dict[str, Any]) -> dict[str, Any]:
    """A page that lost its last item, and says nothing of it."""
    results = page["results"][:-1]
    return {"results": results, "pagination": {**page["pagination"], "results": len(results)}}


def miscounted(page: dict[str, Any]) -> dict[str, Any]:
    return {"pagination": {**page["pagination"], "results": len(page["results"]) + 1}}


def backwards(page: dict[str, Any]) -> dict[str, Any]:
    return {"results": page["results"][::-1]}


def first_page_again(route: str) -> Meddle:
    """A server that does not look at `after`."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        if re.fullmatch(route, route_of(request)):
            url = request.url.copy_set_param("after", "")
            request = httpx.Request(request.method, url, headers=request.headers)
        return send(request)

    return meddle


def endless(page: dict[str, Any]) -> dict[str, Any]:
    return {"pagination": {**page["pagination"], "has_more": True, "next_offset": ""}}


def list_without(rows_that_stay: Callable[[int], int]) -> Meddle:
    """An uncommitted list of which only the first rows are there."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == PREPARE and response.status_code == 201:
            objects = memory_container(CONTAINER)
            folder = f"/{response.json()['run_id']}/uncommitted/"
            for key in [key for key in objects.objects if folder in key]:
                rows = read_uncommitted(objects.objects[key].data)
                kept = rows.slice(0, rows_that_stay(rows.num_rows))
                objects.store(key, write_uncommitted(kept))
        return response

    return meddle


def empty_list() -> Meddle:
    return list_without(lambda rows: 0)


def undated(request: httpx.Request, send: Send) -> httpx.Response:
    response = send(request)
    del response.headers["date"]
    return response


def in_the_nineties(request: httpx.Request, send: Send) -> httpx.Response:
    response = send(request)
    response.headers["date"] = "Wed, 21 Oct 1998 07:28:00 GMT"
    return response


def stale_dump() -> Meddle:
    """A server whose dumps are all like its first one."""
    first: list[httpx.Response] = []

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) != "PUT refs/dump":
            return response
        first.append(response)
        return edited_answer(response, **first[0].json())

    return meddle


def reset_by_a_refused_commit(request: httpx.Request, send: Send) -> httpx.Response:
    """A commit that is refused, and takes what is staged with it."""
    response = send(request)
    if route_of(request) == "POST branches/refused/commits" and response.status_code >= 400:
        url = str(request.url).removesuffix("/commits")
        headers = {"authorization": request.headers["authorization"]}
        send(httpx.Request("PUT", url, json={"type": "reset"}, headers=headers))
    return response


def rules_for_all_branches(request: httpx.Request, send: Send) -> httpx.Response:
    """Rules of branches are forgotten."""
    if route_of(request) == "PUT settings/gc_rules":
        headers = {"authorization": request.headers["authorization"]}
        body = {"default_retention_days": 5, "branches": []}
        return send(httpx.Request("PUT", request.url, json=body, headers=headers))
    return send(request)


def without_parents(*, whatever_the_ids: bool) -> Meddle:
    """The server's list lacks the parents of branches' own commits: those whose ids sort late, or all."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        is_status = "prepare_commits/status" in str(request.url)
        result = response.json().get("result") if is_status else None
        if result:
            objects = memory_container(CONTAINER)
            key = result["gc_commits_location"].removeprefix(f"mem://{CONTAINER}/")
            head, *rows = objects.objects[key].data.decode().splitlines()
            repository = str(request.url).partition("/gc/")[0]
            headers = {"authorization": request.headers["authorization"]}
            ids = {}
            for row in rows:
                url = f"{repository}/commits/{row.partition(',')[0]}"
                commit = send(httpx.Request("GET", url, headers=headers)).json()
                ids[commit["message"]] = commit["id"]
            lost = {
                ids[f"p {name[2:]}"]
                for name, commit in ids.items()
                if name.startswith("f ") and (whatever_the_ids or commit >= ids[f"h {name[2:]}"])
            }
            kept = [row for row in rows if row.partition(",")[0] not in lost]
            objects.store(key, "\n".join([head, *kept, ""]).encode())
        return response

    return meddle


def a_list_without_rules() -> Meddle:
    """A server that makes up rules when there are none."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        headers = {"authorization": request.headers["authorization"]}
        if route_of(request) == "POST gc/prepare_commits/async":
            url = str(request.url).replace("gc/prepare_commits/async", "settings/gc_rules")
            body = {"default_retention_days": 0, "branches": []}
            send(
                httpx.Request(
                    "PUT", url, json={**body, "default_retention_days": 1}, headers=headers
                )
            )
        return send(request)

    return meddle


def another_address(route: str) -> Meddle:
    """Entries that are told with an address that they do not have."""
    return with_addresses(route, lambda n: f"data/g{n:019}/d{n:018}0")


def one_address(route: str) -> Meddle:
    return with_addresses(route, lambda n: f"data/g{0:019}/d{0:018}0")


def with_addresses(route: str, address: Callable[[int], str]) -> Meddle:
    numbers = itertools.count()

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if re.fullmatch(route, route_of(request)) and response.status_code < 300:
            full = response.json()["physical_address"]
            namespace = full.partition("/data/")[0]
            told = f"{namespace}/{address(next(numbers))}"
            return edited_answer(response, physical_address=told)
        return response

    return meddle


def never_ending_list() -> Meddle:
    """One page for ever: its token leads to itself."""
    pages: list[httpx.Response] = []

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) != PREPARE or b"no-such-token" in request.content:
            return send(request)
        if b"again" not in request.content:
            pages.append(send(request))
        return edited_answer(pages[-1], continuation_token="again")

    return meddle


def a_token_for_anybody(request: httpx.Request, send: Send) -> httpx.Response:
    response = send(request)
    if route_of(request) == PREPARE and response.status_code >= 400:
        page = {"run_id": "r", "gc_uncommitted_location": ""}
        return httpx.Response(201, json=page, headers={"date": response.headers["date"]})
    return response


def parents_swapped(request: httpx.Request, send: Send) -> httpx.Response:
    response = send(request)
    if route_of(request).startswith("GET commits/"):
        return edited_answer(response, parents=response.json()["parents"][::-1])
    return response


def gone_as(status: int) -> Meddle:
    """Reads of hard-deleted objects, through either door, with another status."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        return httpx.Response(status) if response.status_code == 410 else response

    return meddle


PAGES = r"GET (branches|tags|refs/[^/]+/(commits|objects/ls)|branches/[^/]+/diff)"
LINK = r"PUT branches/[^/]+/staging/backing"
ANY_LINK = statuses(LINK, 200, when=range(400, 500))
STAT = r"GET refs/[^/]+/objects/stat"


@dataclass(frozen=True)
class Case:
    name: str
    meddle: Meddle
    promises: tuple[Any, ...]
    verdict: PromiseVerdict = PromiseVerdict.BROKEN


CASES = [
    Case("no dates", undated, (clocks.answers_have_a_date,)),
    Case("dates of another time", in_the_nineties, clocks.PROMISES),
    *(
        Case(f"pages {change.__name__}", on_pages(PAGES, change), listings.PROMISES)
        for change in (cut, miscounted, endless)
    ),
    Case("branches backwards", on_pages("GET branches", backwards), (listings.branches,)),
    Case("log backwards", on_pages("GET refs/log/commits", backwards), (listings.commits,)),
    Case("first page again", first_page_again("GET (branches|tags)"), listings.PROMISES[:2]),
    Case(
        "no tags",
        answering(
            "GET tags",
            results=[],
            pagination={"has_more": False, "next_offset": "", "results": 0, "max_per_page": 1000},
        ),
        (listings.tags,),
    ),
    Case(
        "one address for all",
        one_address("POST branches/[^/]+/objects"),
        (addresses.never_shared, addresses.times_in_names),
    ),
    Case(
        "addresses of another form",
        with_addresses("POST branches/[^/]+/objects", lambda n: f"objects/{n}"),
        (addresses.uploaded_form,),
    ),
    Case(
        "anything can be staged",
        statuses("PUT branches/[^/]+/objects", 201, when=range(400, 500)),
        (addresses.staging_inside,),
    ),
    Case(
        "any link is accepted",
        ANY_LINK,
        (
            *(uploads.one_path, uploads.one_use, uploads.forged, uploads.other_repository),
            *(uploads.nothing_uploaded, races.one_token_many_links),
        ),
    ),
    Case("no link is accepted", statuses(LINK, 400), (uploads.issue_and_link,)),
    Case(
        "no link is offered",
        statuses("GET branches/[^/]+/staging/backing", 501),
        uploads.PROMISES[:3],
        PromiseVerdict.NOT_OFFERED,
    ),
    Case(
        "tokens live for no time",
        answering("GET config/garbage-collection", grace_period=0),
        (uploads.life_told,),
    ),
    Case(
        "lost: the whole list",
        empty_list(),
        (
            *copies.PROMISES,
            uncommitted.everything_staged,
            uncommitted.same_content_again,
            uncommitted.linked_objects,
            uncommitted.after_a_failed_commit,
            *races.PROMISES[:5],
        ),
    ),
    Case("lost: one row", list_without(lambda rows: rows - 1), (uncommitted.everything_staged,)),
    Case(
        "copies share addresses across branches",
        one_address(r"POST branches/[^/]+/objects/copy"),
        copies.PROMISES[:2],
    ),
    Case(
        "no copies",
        statuses(r"POST branches/[^/]+/objects/copy", 501),
        copies.PROMISES[:2],
        PromiseVerdict.NOT_OFFERED,
    ),
    Case(
        "entries change their address",
        another_address(STAT),
        (
            commits.same_address,
            commits.merges,
            commits.reverts,
            commits.commits_survive,
            uploads.issue_and_link,
        ),
    ),
    Case("parents swapped", parents_swapped, (commits.merges,)),
    Case(
        "rules are not set",
        unsent("PUT settings/gc_rules"),
        (retention.rules_kept, retention.days_of_a_branch),
    ),
    Case("rules are not removed", unsent("DELETE settings/gc_rules"), (retention.rules_kept,)),
    Case("a list without rules", a_list_without_rules(), (retention.without_rules,)),
    Case("rules of branches are forgotten", rules_for_all_branches, (retention.days_of_a_branch,)),
    Case(
        "retention by ids", without_parents(whatever_the_ids=False), (retention.any_order_of_ids,)
    ),
    Case(
        "retention without parents",
        without_parents(whatever_the_ids=True),
        (retention.any_order_of_ids,),
    ),
    Case("gone is not found", gone_as(404), hard_deletes.PROMISES[:2]),
    Case("gone is there", gone_as(200), hard_deletes.PROMISES[:2]),
    Case("entries go with their bytes", statuses(STAT, 404), (hard_deletes.entry_stays,)),
    Case(
        "a refused commit resets", reset_by_a_refused_commit, (uncommitted.after_a_failed_commit,)
    ),
    Case(
        "nothing is pending",
        empty_list(),
        (uncommitted.uploads_under_way,),
        PromiseVerdict.NOT_OFFERED,
    ),
    Case("a list that never ends", never_ending_list(), (uncommitted.continuation,)),
    Case("any token will do", a_token_for_anybody, (uncommitted.continuation,)),
    Case("rows miscounted", answering(PREPARE, total_rows=999), (uncommitted.rows_counted,)),
    Case(
        "rows not counted",
        answering(PREPARE, total_rows=None, rows_written=None),
        (uncommitted.rows_counted,),
        PromiseVerdict.NOT_OFFERED,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_promise_is_reported(lake: LakeServer, case: Case) -> None:
    """Somebody between server and suite breaks one promise; the suite says so, and names no other verdict."""
    found = certified(lake, case.promises, case.meddle)
    assert {
        f.name: (f.verdict, f.seen) for f in found.findings if f.verdict is not case.verdict
    } == {}
    if any(promise.is_needed for promise in case.promises):
        assert found.fitness is Fitness.UNFIT


def test_a_dump_that_is_never_made_anew(lake: LakeServer) -> None:
    """What came after the first dump is missing from it: tags, branches and dangling commits."""
    found = certified(
        lake, [commits.same_address, commits.whole_dump, commits.commits_survive], stale_dump()
    )
    assert [f.verdict for f in found.findings] == [
        PromiseVerdict.KEPT,
        PromiseVerdict.BROKEN,
        PromiseVerdict.BROKEN,
    ]


def test_commits_that_are_not_seen_are_lost_in_a_race(lake: LakeServer) -> None:
    """Users commit before the list is made, and the commits that are read after it are of another time."""
    promises = [commits.same_address, races.commits_beside_the_list, races.links_beside_the_list]
    # In one round of four or so, everything that was committed is written over before it is looked for.
    found = certified(lake, promises, stale_dump(), rounds=40)
    assert [f.verdict for f in found.findings] == [
        PromiseVerdict.KEPT,
        PromiseVerdict.BROKEN,
        PromiseVerdict.BROKEN,
    ]


def test_every_promise_is_broken_by_somebody() -> None:
    """A promise that no test sees broken might be one that can't be."""
    broken = {promise.name for case in CASES for promise in case.promises}
    assert {p.name for p in PROMISES} - broken - {"a dump has every branch and tag"} == set()
