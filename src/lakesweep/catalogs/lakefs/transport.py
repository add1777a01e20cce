"""One road for every request to a lakeFS server: credentials, timeouts, retries, and errors in our words."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from lakesweep.errors import CatalogDeniedError, CatalogError, CatalogNotFoundError, ConfigError

__all__ = ["Params", "Timeouts", "Transport", "answer_time", "api_url", "parse_answer"]

logger = logging.getLogger(__name__)

Wire = TypeVar("Wire", bound=BaseModel)
Params = Mapping[str, str | int | bool]

_RETRIED_STATUSES = frozenset({429, 503})
_MESSAGE_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait: for a connection, for an ordinary answer, and for calls in which the server does a job."""

    connect: float = 10.0
    read: float = 10.0
    job: float = 600.0


def api_url(endpoint: str) -> str:
    """The base of all calls. `/api/v1` is added when the endpoint has no path, as the official clients do."""
    parts = urlsplit(endpoint.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"The lakeFS endpoint {_without_credentials(endpoint)!r} is not a URL like https://lakefs.example.com.",
            kind="bad-endpoint",
        )
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
        self._client = httpx.Client(
            auth=httpx.BasicAuth(access_key_id, secret_access_key),
            headers={"Accept": "application/json", "X-Lakefs-Client": "lakesweep"},
            transport=http_transport,
            follow_redirects=False,
        )

    def close(self) -> None:
        self._client.close()

    def get(
        self,
        operation: str,
        path: Sequence[str],
        params: Params | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        expect: Sequence[int] = (200,),
        method: str = "GET",
    ) -> httpx.Response:
        """A question that changes nothing, so it is asked again when the server was busy or out of reach."""
        for attempt in range(self._retries + 1):
            is_last = attempt == self._retries
            try:
                response = self._send(
                    operation,
                    method,
                    path,
                    params,
                    headers=headers,
                    read_timeout=self.timeouts.read,
                )
            except httpx.TransportError as error:
                if is_last:
                    raise self._unreachable(operation, error) from error
                self._back_off(operation, attempt, type(error).__name__)
                continue
            if response.status_code in _RETRIED_STATUSES and not is_last:
                self._back_off(operation, attempt, str(response.status_code), response)
                continue
            return self._checked(operation, response, expect)
        raise AssertionError("the last attempt returns or raises")

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
            response = self._send(operation, method, path, body=body, read_timeout=read_timeout)
        except httpx.TransportError as error:
            raise self._unreachable(operation, error) from error
        return self._checked(operation, response, expect)

    def _send(
        self,
        operation: str,
        method: str,
        path: Sequence[str],
        params: Params | None = None,
        *,
        body: object | None = None,
        headers: Mapping[str, str] | None = None,
        read_timeout: float,
    ) -> httpx.Response:
        url = "/".join((self.url, *(quote(part, safe="") for part in path)))
        logger.debug("lakefs %s %s: %s", method, url, operation)
        timeout = httpx.Timeout(read_timeout, connect=self.timeouts.connect)
        return self._client.request(
            method,
            url,
            params=None if params is None else {k: _query(v) for k, v in params.items()},
            json=body,
            headers=headers,
            timeout=timeout,
        )

    def _back_off(
        self, operation: str, attempt: int, why: str, response: httpx.Response | None = None
    ) -> None:
        # Full jitter, so that many collectors do not come back in step.
        delay = random.uniform(0, min(20.0, 0.5 * 2**attempt))
        asked = response.headers.get("retry-after", "") if response is not None else ""
        if asked.isdigit():
            delay = max(delay, min(float(asked), 60.0))
        logger.info("lakefs %s: %s, trying again in %.1f s", operation, why, delay)
        self._sleep(delay)

    def _unreachable(self, operation: str, error: httpx.TransportError) -> CatalogError:
        what = "took too long" if isinstance(error, httpx.TimeoutException) else "failed"
        return CatalogError(
            f"{operation}: the connection to {self.url} {what} ({type(error).__name__}: {error}). The call's outcome "
            "is not known and it was given up. Check the endpoint, or give the server more time.",
            kind="catalog-unreachable",
        )

    def _checked(
        self, operation: str, response: httpx.Response, expect: Sequence[int]
    ) -> httpx.Response:
        if response.status_code in expect:
            return response
        status = response.status_code
        said = f"{operation}: {self.url} answered {status}{_server_message(response)}."
        if status in (401, 403):
            raise CatalogDeniedError(
                f"{said} Check the access key and secret, and that its user has the right to do this."
            )
        if status == 404:
            raise CatalogNotFoundError(said)
        # The status is the kind, for callers that know what it means to them.
        raise CatalogError(f"{said} It was given up.", kind=f"http-{status}")


def _query(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _server_message(response: httpx.Response) -> str:
    """The server's own words, shortened and on one line."""
    try:
        message = json.loads(response.text)["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    printable = "".join(c if c.isprintable() else " " for c in str(message))
    return f" ({printable[:_MESSAGE_LIMIT]})"


def parse_answer(operation: str, model: type[Wire], text: str | bytes) -> Wire:
    """The answer as a value, or a CatalogError: nonsense never turns into a default."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'body'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)[:5]
        )
        raise CatalogError(
            f"{operation}: the server's answer is not what it should be ({problems}). Nothing was concluded from it. "
            "Check that the endpoint is a lakeFS server, and its version.",
            kind="catalog-nonsense",
        ) from error


def answer_time(response: httpx.Response) -> datetime | None:
    """The server's clock when it answered, to the second; None when the answer does not say."""
    try:
        time_said = parsedate_to_datetime(response.headers["date"])
    except (KeyError, ValueError):
        return None
    return time_said.replace(tzinfo=UTC) if time_said.tzinfo is None else time_said.astimezone(UTC)
