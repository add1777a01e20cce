"""A client of any lakeFS server, real or embedded, with the calls that a collector makes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Self, TypeVar

import httpx
from pydantic import BaseModel

from lakesweep.catalogs.lakefs.embedded_calls import EmbeddedLakeCalls
from lakesweep.catalogs.lakefs.entry_questions import (
    EntriesPage,
    EntryAsked,
    PageAsked,
    entry_question,
    page_question,
)
from lakesweep.catalogs.lakefs.transport import (
    Params,
    Timeouts,
    Transport,
    parse_answer,
)
from lakesweep.catalogs.lakefs.values import ObjectState, Repository, ServerProfile
from lakesweep.catalogs.lakefs.wire import (
    AddressHoldersWire,
    AddressHolderWire,
    CommitWire,
    ConfigWire,
    DiffWire,
    ExactCommitWire,
    GcConfigWire,
    GcRulesWire,
    HeadMoveListWire,
    ObjectStatsWire,
    PageWire,
    PrepareCommitsWire,
    PrepareTaskStatusWire,
    PrepareUncommittedWire,
    RefsDumpWire,
    RefWire,
    RepositoryWire,
    TaskWire,
)
from lakesweep.domain.commits import (
    BranchHead,
    BranchId,
    Commit,
    CommitId,
    HeadMove,
    Tag,
    TagId,
)
from lakesweep.domain.durations import parse_http_date
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import CatalogError, CatalogNotFoundError

__all__ = ["LakeFSClient", "ObjectState", "Repository", "ServerProfile"]

Wire = TypeVar("Wire", bound=BaseModel)
Item = TypeVar("Item")
_PAGE = 1000
_ADDRESSES_AT_ONCE = 100  # in one URL


class LakeFSClient(EmbeddedLakeCalls):
    """Calls to one server. Thread-safe. Questions are retried, calls that do something never are."""

    def __init__(
        self,
        endpoint: str,
        access_key_id: str,
        secret_access_key: str,
        *,
        timeouts: Timeouts | None = None,
        retries: int = 5,
        sleep: Callable[[float], None] = time.sleep,
        http_transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = Transport(
            endpoint,
            access_key_id,
            secret_access_key,
            timeouts=timeouts or Timeouts(),
            retries=retries,
            sleep=sleep,
            http_transport=http_transport,
        )
        self.sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LakeFSClient({self.url!r})"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def url(self) -> str:
        """The base of all calls, for messages; it holds no secret."""
        return self._http.url

    @property
    def timeouts(self) -> Timeouts:
        """How long this client waits."""
        return self._http.timeouts

    # -- the server

    def server_time(self) -> datetime | None:
        """The server's clock, from the date of its answer (to the second); None when it sends none."""
        operation = "asking for the server's time"
        answer = self._http.get(operation, ["healthcheck"], expect=(204, 200))
        return parse_http_date(answer.headers.get("date"))

    def profile(self, storage_id: str = "") -> ServerProfile:
        """What the server is, and the kind of store that the given storage id (of a repository) names."""
        config = self._ask("reading the server's configuration", ConfigWire, ["config"])
        storage = config.storage_of(storage_id)
        if storage is None:
            raise CatalogError(
                f"reading the server's configuration: {self.url} names no store with the id {storage_id!r}, so it "
                "is not known where the repository lies.",
                kind="catalog-nonsense",
            )
        lakesweep = config.lakesweep
        return ServerProfile(
            version=config.version_config.version,
            blockstore_type=storage.blockstore_type,
            is_embedded=lakesweep is not None,
            features=lakesweep.features if lakesweep is not None else frozenset(),
        )

    def grace_period(self) -> timedelta:
        """How long an issued address may still be linked; six hours on servers from before they said so."""
        operation = "asking for the grace period of uploads"
        try:
            answer = self._ask(operation, GcConfigWire, ["config", "garbage-collection"])
        except CatalogNotFoundError:
            return timedelta(hours=6)
        return timedelta(seconds=answer.grace_period)

    # -- repositories and refs

    def repository(self, repository: str) -> Repository:
        """The repository; CatalogNotFoundError when there is none of that name."""
        operation = f"reading repository {repository}"
        answer = self._ask(operation, RepositoryWire, ["repositories", repository])
        if answer.id != repository:
            raise CatalogError(
                f"{operation}: the server answered with repository {answer.id!r} instead.",
                kind="catalog-nonsense",
            )
        return answer.to_repository()

    def repositories(self) -> list[Repository]:
        """All repositories that the user may see."""
        found = self._items("listing repositories", PageWire[RepositoryWire], ["repositories"])
        return [repository.to_repository() for repository in found]

    def branches(self, repository: str) -> list[BranchHead]:
        """All branches, hidden ones too, in the server's order."""
        operation = f"listing the branches of {repository}"
        path = ["repositories", repository, "branches"]
        refs = self._items(operation, PageWire[RefWire], path, {"show_hidden": True})
        return [BranchHead(BranchId(ref.id), CommitId(ref.commit_id)) for ref in refs]

    def tags(self, repository: str) -> list[Tag]:
        """All tags."""
        path = ["repositories", repository, "tags"]
        refs = self._items(f"listing the tags of {repository}", PageWire[RefWire], path)
        return [Tag(TagId(ref.id), CommitId(ref.commit_id)) for ref in refs]

    def commit(self, repository: str, ref: str) -> Commit:
        """The commit that a ref expression names."""
        operation = f"reading commit {ref} of {repository}"
        path = ["repositories", repository, "commits", ref]
        return self._ask(operation, CommitWire, path).to_commit()

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        """The commit and all its ancestors, by whichever parent, newest first."""
        operation = f"reading the log of {ref} in {repository}"
        path = ["repositories", repository, "refs", ref, "commits"]
        for commit in self._items(operation, PageWire[CommitWire], path):
            yield commit.to_commit()

    def head_moves(self, repository: str) -> list[HeadMove]:
        """What branches pointed at before they were deleted or reset; the embedded lake alone keeps such a log."""
        operation = f"listing the head moves of {repository}"
        path = ["repositories", repository, "gc", "head_moves"]
        return [
            HeadMove(
                BranchId(move.branch_id),
                CommitId(move.commit_id),
                datetime.fromtimestamp(move.until, UTC),
            )
            for move in self._items(operation, HeadMoveListWire, path)
        ]

    def all_commits(self, repository: str) -> list[Commit]:
        """Every commit, also those that no branch reaches; the embedded lake alone lists them."""
        operation = f"listing the commits of {repository}"
        path = ["repositories", repository, "gc", "commits"]
        found = self._items(operation, PageWire[ExactCommitWire], path)
        return [commit.to_commit() for commit in found]

    def address_holders(self, repository: str, addresses: Sequence[str]) -> list[AddressHolderWire]:
        """What holds these addresses outside of commits; the embedded lake alone tells."""
        operation = f"asking what holds {len(addresses)} addresses of {repository}"
        path = ["repositories", repository, "gc", "holders"]
        found: list[AddressHolderWire] = []
        for start in range(0, len(addresses), _ADDRESSES_AT_ONCE):
            some = list(addresses[start : start + _ADDRESSES_AT_ONCE])
            found += self._ask(operation, AddressHoldersWire, path, {"address": some}).holders
        return found

    def dump_refs(self, repository: str) -> RefsDumpWire:
        """Have the server write all commits, branches and tags under `_lakefs/`."""
        operation = f"dumping the refs of {repository}"
        path = ["repositories", repository, "refs", "dump"]
        response = self._http.change(operation, "PUT", path, expect=(201,), is_job=True)
        return parse_answer(operation, RefsDumpWire, response.content)

    # -- objects

    def stat_object(self, repository: str, ref: str, path: str) -> ObjectStatsWire | None:
        """The entry at a path as the ref reads it (staged entries too, for a branch); None when there is none."""
        one = entry_question(repository, EntryAsked(ref, path))
        try:
            return self._ask(one.operation, ObjectStatsWire, list(one.path), one.params)
        except CatalogNotFoundError:
            return None

    def list_objects(
        self,
        repository: str,
        ref: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        page: int = _PAGE,
    ) -> Iterator[ObjectStatsWire]:
        """Entries in path order, after `after` (exclusive), at most `limit`, so many with each request."""
        amount = page if limit is None else min(limit, page)
        one = page_question(repository, PageAsked(ref, after, amount), prefix)
        entries = self._items(
            one.operation, PageWire[ObjectStatsWire], list(one.path), one.params, after=after
        )
        return islice(entries, limit)

    def look_at(
        self, repository: str, asked: Sequence[EntryAsked | PageAsked], most: int
    ) -> Iterator[EntriesPage | CatalogNotFoundError]:
        """What a branch or commit has at each of these places, in their order, at most so many requests at once.

        Of a listing it is the first page alone. What is not there (an entry, a branch) has its error for an answer.
        """
        questions = [
            entry_question(repository, one)
            if isinstance(one, EntryAsked)
            else page_question(repository, one)
            for one in asked
        ]
        answers = self._http.get_many(questions, most)
        for one, question, answer in zip(asked, questions, answers, strict=True):
            if isinstance(answer, CatalogNotFoundError):
                yield answer
            elif isinstance(one, EntryAsked):
                yield EntriesPage([parse_answer(question.operation, ObjectStatsWire, answer)], "")
            else:
                page = parse_answer(question.operation, PageWire[ObjectStatsWire], answer)
                offset = page.pagination.next_offset if page.pagination.has_more else ""
                if page.pagination.has_more and offset in ("", one.after):
                    raise _leads_nowhere(question.operation)
                yield EntriesPage(page.results, offset)

    def staged_page(
        self, repository: str, branch: str, *, after: str = ""
    ) -> tuple[list[str], str | None]:
        """Up to a thousand paths after `after` that are staged on a branch, and the offset of those that follow.

        A path staged with the content that is committed there is left out.
        """
        operation = f"listing what is staged on {branch} of {repository}"
        route = ["repositories", repository, "branches", branch, "diff"]
        query: Params = {"amount": _PAGE, "after": after}
        page = self._ask(operation, PageWire[DiffWire], route, query)
        staged = [c.path for c in page.results if c.type in ("added", "changed")]
        return staged, page.pagination.next_offset if page.pagination.has_more else None

    def object_state(self, repository: str, ref: str, path: str) -> ObjectState:
        """Whether the object's bytes read. Only reading them tells: stat and HEAD answer from metadata."""
        operation = f"reading {path!r} at {ref} of {repository}"
        route = ["repositories", repository, "refs", ref, "objects"]
        # One byte is enough; an empty object has none, which the server answers with 416.
        response = self._http.get(
            operation,
            route,
            {"path": path},
            headers={"Range": "bytes=0-0"},
            expect=(200, 206, 404, 410, 416),
        )
        if response.status_code == 410:
            return ObjectState.GONE
        return ObjectState.NOT_FOUND if response.status_code == 404 else ObjectState.READABLE

    # -- retention

    def rules(self, repository: str) -> RetentionRules | None:
        """The retention rules; None when there are none, and then nothing expires."""
        operation = f"reading the retention rules of {repository}"
        path = ["repositories", repository, "settings", "gc_rules"]
        try:
            answer = self._ask(operation, GcRulesWire, path)
        except CatalogNotFoundError:
            # A 404 also means that the repository is not there; that must not read as "no rules".
            self.repository(repository)
            return None
        days = {BranchId(rule.branch_id): rule.retention_days for rule in answer.branches}
        if len(days) != len(answer.branches):
            raise CatalogError(
                f"{operation}: the server's answer has two rules for one branch.",
                kind="catalog-nonsense",
            )
        return RetentionRules(answer.default_retention_days, days)

    def set_rules(self, repository: str, rules: RetentionRules) -> None:
        """Set the retention rules."""
        path = ["repositories", repository, "settings", "gc_rules"]
        operation = f"setting the retention rules of {repository}"
        self._http.change(operation, "PUT", path, body=rules.as_json(), expect=(204,))

    def delete_rules(self, repository: str) -> None:
        """Remove the retention rules: nothing expires any more."""
        path = ["repositories", repository, "settings", "gc_rules"]
        operation = f"clearing the retention rules of {repository}"
        self._http.change(operation, "DELETE", path, expect=(204,))

    def start_prepare_commits(self, repository: str) -> str:
        """Have the server start writing its list of retained commits; gives the task's id."""
        operation = f"starting prepare_commits of {repository}"
        path = ["repositories", repository, "gc", "prepare_commits", "async"]
        response = self._http.change(operation, "POST", path, expect=(202,), is_job=True)
        return parse_answer(operation, TaskWire, response.content).id

    def prepare_commits_status(self, repository: str, task_id: str) -> PrepareTaskStatusWire:
        """How far that task is."""
        operation = f"asking for prepare_commits {task_id} of {repository}"
        path = ["repositories", repository, "gc", "prepare_commits", "status"]
        return self._ask(operation, PrepareTaskStatusWire, path, {"id": task_id})

    def prepare_commits(self, repository: str) -> PrepareCommitsWire:
        """Have the server write its list of retained commits in one blocking call, for servers that have no other.

        On a store that can't presign, the list is written and the answer is a 400 of two JSON bodies: the refusal to
        presign and, after it, the result.
        """
        operation = f"prepare_commits of {repository}"
        path = ["repositories", repository, "gc", "prepare_commits"]
        response = self._http.change(operation, "POST", path, expect=(201, 400), is_job=True)
        if response.status_code == 201:
            return parse_answer(operation, PrepareCommitsWire, response.content)
        bodies = _json_bodies(response.text)
        if len(bodies) < 2:
            raise CatalogError(
                f"{operation}: {self.url} answered 400. lakesweep stopped trying.",
                kind="http-400",
            )
        return parse_answer(operation, PrepareCommitsWire, json.dumps(bodies[-1]))

    def prepare_uncommitted(
        self, repository: str, continuation_token: str | None = None
    ) -> PrepareUncommittedWire:
        """Have the server write one page of the list of staged addresses; without a token a new run begins."""
        operation = f"prepare_uncommitted of {repository}"
        path = ["repositories", repository, "gc", "prepare_uncommited"]  # the API's own spelling
        body = {} if continuation_token is None else {"continuation_token": continuation_token}
        response = self._http.change(operation, "POST", path, body=body, expect=(201,), is_job=True)
        return parse_answer(operation, PrepareUncommittedWire, response.content)

    # -- asking

    def _items(
        self,
        operation: str,
        model: type[PageWire[Item]],
        path: list[str],
        params: Params | None = None,
        *,
        after: str = "",
    ) -> Iterator[Item]:
        """The items of all pages. A page that leads nowhere, or back, is an error and not the end of the list."""
        asked: set[str] = set()
        while True:
            asked.add(after)
            query: Params = {"amount": _PAGE, **(params or {}), "after": after}
            page = self._ask(operation, model, path, query)
            yield from page.results
            if not page.pagination.has_more:
                return
            after = page.pagination.next_offset
            if not after or after in asked:
                raise _leads_nowhere(operation)


def _leads_nowhere(operation: str) -> CatalogError:
    return CatalogError(
        f"{operation}: the server says there is more, but its next page is one that was read before. The list is not "
        "complete, so it was not used.",
        kind="catalog-nonsense",
    )


def _json_bodies(text: str) -> list[object]:
    """All JSON values that stand one after the other in a text; none when it is not that."""
    decoder = json.JSONDecoder()
    bodies: list[object] = []
    rest = text.lstrip()
    while rest:
        try:
            body, end = decoder.raw_decode(rest)
        except ValueError:
            return []
        bodies.append(body)
        rest = rest[end:].lstrip()
    return bodies
