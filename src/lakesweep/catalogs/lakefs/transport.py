"""One road for every request to a lakeFS server: credentials, timeouts, retries, and errors in our words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import BaseModel, ValidationError

from lakesweep.catalogs.connecting import (
    advice_on_answer,
    advice_on_failure,
    is_behind_proxy,
    new_client,
    split_url,
    tls_of_us,
)
from lakesweep.catalogs.lakefs.rights import Right, needed_right
from lakesweep.catalogs.questions import Questions
from lakesweep.catalogs.responses import problems_of, send_with_retries, server_message
from lakesweep.errors import CatalogDeniedError, CatalogError, CatalogNotFoundError, ConfigError
from lakesweep.storage.parallel import ordered_parallel

__all__ = ["Params", "Question", "Timeouts", "Transport", "api_url", "parse_answer", "query_values"]

logger = logging.getLogger(__name__)

# lakeFS's own words.
_READ_ONLY = "read-only"
_NO_RIGHT = "insufficient permissions"

Wire = TypeVar("Wire", bound=BaseModel)
Params = Mapping[str, str | int | bool | Sequence[str]]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait: for a connection, for an ordinary answer, and for calls in which the server does a job."""

    connect: float = 10.0
    read: float = 10.0
    job: float = 600.0


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a server; `operation` says in words what for."""

    operation: str
    path: Sequence[str]
    params: Params


def api_url(endpoint: str) -> str:
    """The base of all calls. `/api/v1` is added when the endpoint has no path, as the official clients do."""
    try:
        parts = split_url(endpoint.strip())
    except ValueError as error:
        raise ConfigError(
            f"The lakeFS endpoint {_without_credentials(endpoint)!r} is not a URL like https://lakefs.example.com. Nothing was "
            "touched.",
            kind="bad-endpoint",
        ) from error
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "The lakeFS endpoint holds credentials. Give them as access key id and secret access key instead.",
            kind="bad-endpoint",
        )
    path = parts.path.rstrip("/") or "/api/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _without_credentials(endpoint: str) -> str:
    return endpoint.rpartition("@")[2]


class Transport:
    """Sends requests. Safe for many threads; close it, or use it as a context manager."""

    def __init__(
        self,
        endpoint: str,
        access_key_id: str,
        secret_access_key: str,
        *,
        timeouts: Timeouts,
        retries: int,
        sleep: Callable[[float], None],
        http_transport: httpx.BaseTransport | None,
    ) -> None:
        self.url = api_url(endpoint)
        self.timeouts = timeouts
        self._retries = retries
        self._sleep = sleep
        auth = httpx.BasicAuth(access_key_id, secret_access_key)
        tls = None if http_transport else tls_of_us()
        self._client = new_client(
            auth=auth,
            headers={"Accept": "application/json", "X-Lakefs-Client": "lakesweep"},
            verify=tls or True,
            transport=http_transport,
            follow_redirects=False,
        )
        self._questions: Questions | None = None
        if tls is not None and not is_behind_proxy(self.url):
            sample = next(auth.auth_flow(self._client.build_request("GET", self.url)))
            self._questions = Questions(sample, tls, timeouts.connect, timeouts.read)

    def close(self) -> None:
        self._client.close()
        if self._questions is not None:
            self._questions.close()

    def get(
        self,
        operation: str,
        path: Sequence[str],
        params: Params | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        expect: Sequence[int] = (200,),
    ) -> httpx.Response:
        """A question that changes nothing, so it is asked again when the server was busy or out of reach."""
        route = _route(path, params)
        try:
            response = send_with_retries(
                lambda: self._send(
                    operation, "GET", route, headers=headers, read_timeout=self.timeouts.read
                ),
                f"lakefs {operation}",
                retries=self._retries,
                sleep=self._sleep,
            )
        except httpx.RequestError as error:
            raise self._unreachable(operation, error) from error
        return self._checked(operation, response, expect, needed_right("GET", path))

    def get_many(
        self, questions: Sequence[Question], most: int
    ) -> Iterator[bytes | CatalogNotFoundError]:
        """Answers to questions that change nothing, in their order, at most so many under way at once.

        A question about what is not there has its error for an answer; any other error is raised.
        """
        by_route = {_route(one.path, one.params): one for one in questions}
        routes = [_route(one.path, one.params) for one in questions]

        def ask(route: str) -> bytes | CatalogNotFoundError:
            one = by_route[route]
            try:
                return self.get(one.operation, one.path, one.params).content
            except CatalogNotFoundError as error:
                return error

        if self._questions is not None:
            return self._questions.get_many(routes, ask, most)
        return (answer for _, answer in ordered_parallel(ask, routes, most))

    def change(
        self,
        operation: str,
        method: str,
        path: Sequence[str],
        *,
        body: object | None = None,
        expect: Sequence[int],
        is_job: bool = False,
    ) -> httpx.Response:
        """A call that does something. Sent once: a prepare call that is sent again is another run."""
        read_timeout = self.timeouts.job if is_job else self.timeouts.read
        try:
            response = self._send(
                operation, method, _route(path), body=body, read_timeout=read_timeout
            )
        except httpx.RequestError as error:
            raise self._unreachable(operation, error) from error
        return self._checked(operation, response, expect, needed_right(method, path))

    def _send(
        self,
        operation: str,
        method: str,
        route: str,
        *,
        body: object | None = None,
        headers: Mapping[str, str] | None = None,
        read_timeout: float,
    ) -> httpx.Response:
        logger.debug("lakefs %s %s%s: %s", method, self.url, route, operation)
        if self._questions is not None and method == "GET":
            return self._questions.get(route, headers)
        timeout = httpx.Timeout(read_timeout, connect=self.timeouts.connect)
        return self._client.request(
            method, self.url + route, json=body, headers=headers, timeout=timeout
        )

    def _unreachable(self, operation: str, error: httpx.RequestError) -> CatalogError:
        what = "took too long" if isinstance(error, httpx.TimeoutException) else "failed"
        return CatalogError(
            f"{operation}: the connection to {self.url} {what} ({type(error).__name__}: {error}). What became "
            "of the call is not known, and lakesweep stopped trying. Check the endpoint, or give the server more time."
            f"{advice_on_failure(self.url, error)}",
            kind="catalog-unreachable",
        )

    def _checked(
        self,
        operation: str,
        response: httpx.Response,
        expect: Sequence[int],
        right: Right | None,
    ) -> httpx.Response:
        if response.status_code in expect:
            return response
        status = response.status_code
        said = f"{operation}: {self.url} answered {status}{server_message(response)}."
        advice = advice_on_answer(self.url, response)
        if status == 403 and _READ_ONLY in said:
            raise CatalogDeniedError(
                f"{said} The repository is read-only, and lakeFS prepares no collection of such a one, so "
                "it was not done. Collect the repository that writes to this storage namespace instead, or have an "
                "administrator make this one writable.",
                kind="read-only-repository",
            )
        if status in (401, 403):
            raise CatalogDeniedError(
                f"{said} It was not done. {_what_to_allow(said, right)}{advice}"
            )
        if status == 404:
            raise CatalogNotFoundError(
                f"{said} lakesweep stopped trying. Check the name, and whether this is the server that has it.{advice}"
            )
        # The status is the kind, for callers that know what it means to them.
        raise CatalogError(f"{said} lakesweep stopped trying.{advice}", kind=f"http-{status}")


def _what_to_allow(said: str, right: Right | None) -> str:
    check = "Check the access key and secret"
    if right is None:
        return f"{check}, and that its user has the right to do this."
    needed = (
        f"{' and '.join(right.actions)} on {right.resource}. Add this statement to one of the policies of the access "
        f"key's user: {right.statement}"
    )
    if _NO_RIGHT in said:
        return f"The right that is missing is {needed}"
    return f"{check}. If they are as they should be, the right that is missing is {needed}"


def _route(path: Sequence[str], params: Params | None = None) -> str:
    route = "".join(f"/{quote(part, safe='')}" for part in path)
    query = urlencode(query_values(params) or {}, doseq=True)
    return f"{route}?{query}" if query else route


def query_values(params: Params | None) -> dict[str, str | list[str]] | None:
    """Parameters as they stand in a URL; None for none."""
    return None if params is None else {name: _query(value) for name, value in params.items()}


def _query(value: str | int | bool | Sequence[str]) -> str | list[str]:
    if isinstance(value, str | int):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return list(value)


def parse_answer(operation: str, model: type[Wire], text: str | bytes) -> Wire:
    """The answer as a value, or a CatalogError: nonsense never turns into a default."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise CatalogError(
            f"{operation}: the server's answer is not what it should be ({problems_of(error)}). It was not used. "
            "Check that the endpoint is a lakeFS server, and its version.",
            kind="catalog-nonsense",
        ) from error
