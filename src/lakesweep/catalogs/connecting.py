"""HTTP clients as the environment wants them (proxies, certificates), and what to try where an endpoint can't be used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from lakesweep.errors import ConfigError

__all__ = [
    *("advice_on_answer", "advice_on_failure", "is_behind_proxy", "new_client", "split_url"),
    "tls_of_us",
]

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_BY_PROXY = (
    " The way there leads through a proxy that the environment names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY), which may be "
    "what failed; NO_PROXY lists hosts that are reached without."
)


def is_behind_proxy(url: str) -> bool:
    """Whether the environment names a proxy for such URLs. Which hosts go around it, httpx knows best."""
    proxies = getproxies()
    return bool(proxies.get(httpx.URL(url).scheme) or proxies.get("all"))


def tls_of_us() -> Any:
    """The TLS of new connections, with the certificates that the environment names.

    Raises:
        ConfigError: those can't be read.
    """
    with _environment_blamed():
        return httpx.create_ssl_context()


def new_client(**how: Any) -> httpx.Client:
    """A client of httpx.

    Raises:
        ConfigError: the environment names certificates or a proxy that can't be used.
    """
    with _environment_blamed():
        return httpx.Client(**how)


@contextmanager
def _environment_blamed() -> Iterator[None]:
    """Errors of httpx while it makes a client: what the program itself says is right, so they come from variables."""
    try:
        yield
    except OSError as error:
        named = " and ".join(
            name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)
        )
        raise ConfigError(
            f"The certificates that {named or 'this Python'} names can't be read: {error}. Nothing was touched. Name a "
            "PEM file with the authorities that sign your servers' certificates, or unset it.",
            kind="bad-certificates",
        ) from error
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        named = ", ".join(name for name in os.environ if name.lower() in _PROXIES)
        raise ConfigError(
            f"The proxy that {named or 'the environment'} names can't be used: {str(error).partition(', but')[0]}. Nothing "
            "was touched. Write http://host:port; for SOCKS, run `pip install 'httpx[socks]'`. NO_PROXY lists hosts that are "
            "reached without.",
            kind="bad-proxy",
        ) from error


def advice_on_failure(url: str, error: httpx.RequestError) -> str:
    """What to try where a connection failed and the words of the system do not say so; empty where they do."""
    said = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return " To trust its certificate, name a PEM file with the authority that signed it in SSL_CERT_FILE."
    if "[SSL" in said and not isinstance(error, httpx.TimeoutException):
        return " Nothing seems to speak TLS there: try http:// in place of https://."
    if isinstance(error, httpx.TransportError) and _goes_by_proxy(url):
        return _BY_PROXY
    return ""


def advice_on_answer(url: str, response: httpx.Response) -> str:
    """What to try where a server's answer shows that it is not the one that was meant; empty where it does not."""
    if response.has_redirect_location:
        asked, found = httpx.URL(url), httpx.URL(url).join(response.headers["location"])
        if (found.scheme, found.netloc) != (asked.scheme, asked.netloc):
            elsewhere = f"{found.scheme}://{found.netloc.decode('ascii')}"
            return f" It sends callers to {elsewhere}: if that is the server, give that address."
        return f" It sends callers to its page {found.path}: check the address, and what stands before the server."
    if response.status_code == 400 and url.startswith("http:") and "HTTPS" in response.text[:1000]:
        return " It speaks TLS: try https:// in place of http://."
    return _BY_PROXY if _goes_by_proxy(url) else ""


def _goes_by_proxy(url: str) -> bool:
    return is_behind_proxy(url) and not proxy_bypass(httpx.URL(url).host)


def split_url(url: str) -> SplitResult:
    """The parts of a web address.

    Raises:
        ValueError: no connection can have it.
    """
    parts = urlsplit(url)
    try:
        httpx.URL(f"//{parts.netloc}").host.encode("idna")  # as a connection reads it
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("no scheme, host or port of the web")
    return parts
