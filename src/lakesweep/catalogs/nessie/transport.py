"""One road for every question to a Nessie server: credentials, timeouts, retries, and errors in our words.

There is no method that sends anything but a GET, so nothing above can change a catalog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from lakesweep.catalogs.connecting import (
    advice_on_answer,
    advice_on_failure,
    new_client,
    split_url,
)
from lakesweep.catalogs.nessie.authentication import authentication_of
from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep.catalogs.responses import problems_of, send_with_retries, server_message
from lakesweep.domain.durations import parse_http_date
from lakesweep.errors import CatalogDeniedError, CatalogError, CatalogNotFoundError, ConfigError

__all__ = ["ReadOnlyTransport", "catalog_url", "nonsense"]

logger = logging.getLogger(__name__)

Wire = TypeVar("Wire", bound=BaseModel)

# The defaults of Nessie's own clients.
_READ_SECONDS = 25.0
_CONNECT_SECONDS = 5.0


def catalog_url(uri: str) -> str:
    """The base of all calls, without its closing slash; what can't be a Nessie v2 API is refused."""
    url = uri.strip().rstrip("/")
    try:
        parts = split_url(url)
    except ValueError as error:
        shown = url.rpartition("@")[2].partition("?")[0]
        raise _bad_uri(shown, "is not a URL") from error
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.username is not None or parts.password is not None:
        problem = "holds credentials, which belong into --nessie-option"
    elif parts.query or parts.fragment:
        problem = "has a query"
    elif parts.path.endswith("/api/v1"):
        problem = "names version 1 of the API, and lakesweep speaks version 2"
    elif not parts.path:
        problem = "has no path"
    else:
        return url
    raise _bad_uri(shown, problem)


def _bad_uri(shown: str, problem: str) -> ConfigError:
    return ConfigError(
        f"The Nessie URI {shown} {problem}. Write one like http://localhost:19120/api/v2. No server was asked.",
        kind="bad-endpoint",
    )


class ReadOnlyTransport:
    """Asks, and asks again when the server was busy or out of reach. Safe for many threads."""

    def __init__(
        self,
        uri: str,
        properties: ClientProperties,
        *,
        retries: int,
        sleep: Callable[[float], None],
        http_transport: httpx.BaseTransport | None,
    ) -> None:
        self.url = catalog_url(uri)
        self._retries = retries
        self._sleep = sleep
        headers = {"Accept": "application/json"}
        if properties.flag("nessie.transport.disable-compression", False):
            headers["Accept-Encoding"] = "identity"
        redirects = (properties.get("nessie.http-redirects") or "NEVER").upper()
        self._client = new_client(
            headers=headers,
            transport=http_transport,
            verify=not properties.flag("nessie.ssl.no-certificate-verification", False),
            follow_redirects=redirects in ("NORMAL", "ALWAYS"),
            timeout=httpx.Timeout(
                properties.seconds("nessie.transport.read-timeout", _READ_SECONDS),
                connect=properties.seconds("nessie.transport.connect-timeout", _CONNECT_SECONDS),
            ),
        )
        self._auth = authentication_of(properties, self._client)

    def close(self) -> None:
        self._client.close()

    def ask(
        self, operation: str, path: Sequence[str], params: Mapping[str, str], model: type[Wire]
    ) -> Wire:
        """The answer as a value, or an error: nonsense never turns into a default."""
        content = self._get(operation, path, params).content
        try:
            return model.model_validate_json(content)
        except ValidationError as error:
            raise nonsense(
                operation, f"its answer is not what it should be ({problems_of(error)})"
            ) from error

    def server_time(self) -> datetime | None:
        """The server's clock, from the date of its answer; None when it sends none."""
        return parse_http_date(self._get("asking for the time", ["config"], {}).headers.get("date"))

    def _get(
        self, operation: str, path: Sequence[str], params: Mapping[str, str]
    ) -> httpx.Response:
        url = "/".join((self.url, *(quote(part, safe="") for part in path)))
        logger.debug("nessie GET %s: %s", url, operation)
        try:
            response = send_with_retries(
                lambda: self._client.get(url, params=params, auth=self._auth),
                f"nessie {operation}",
                retries=self._retries,
                sleep=self._sleep,
            )
        except httpx.RequestError as error:
            raise self._unreachable(operation, error) from error
        return self._checked(operation, response)

    def _unreachable(self, operation: str, error: httpx.RequestError) -> CatalogError:
        what = "took too long" if isinstance(error, httpx.TimeoutException) else "failed"
        return CatalogError(
            f"{operation}: the connection to {self.url} {what} ({type(error).__name__}: {error}). lakesweep stopped trying. "
            f"Check the URI, or raise nessie.transport.read-timeout.{advice_on_failure(self.url, error)}",
            kind="catalog-unreachable",
        )

    def _checked(self, operation: str, response: httpx.Response) -> httpx.Response:
        status = response.status_code
        if status == 200:
            return response
        said = f"{operation}: {self.url} answered {status}{server_message(response)}."
        advice = advice_on_answer(self.url, response)
        if status in (401, 403):
            raise CatalogDeniedError(
                f"{said} No answer was used. Check nessie.authentication.*, and that its user may view every "
                f"reference, commit log and entry: what Nessie hides from a user would look like garbage.{advice}"
            )
        if status == 404:
            raise CatalogNotFoundError(
                f"{said} No answer was used. If a reference was deleted or moved meanwhile, start again."
            )
        raise CatalogError(f"{said} lakesweep stopped trying.{advice}", kind=f"http-{status}")


def nonsense(operation: str, problem: str) -> CatalogError:
    """An answer that can't be the whole truth."""
    return CatalogError(
        f"{operation}: {problem}. It was not used. "
        "Check that the URI is a Nessie server's, and its version.",
        kind="catalog-nonsense",
    )
