"""Proxies, certificates and addresses that are wrong: the message says which of them, and what to write instead."""

from __future__ import annotations

import httpx
import pytest

from lakesweep.catalogs.connecting import new_client
from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep.errors import CatalogError, ConfigError

HTTP, HTTPS = "http://lake.example.com", "https://lake.example.com"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no certificates but the test's."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def failure(url: str, answer: httpx.Response | httpx.RequestError) -> str:
    """What a question to a server that answers so fails with, in either catalog."""

    def send(request: httpx.Request) -> httpx.Response:
        if isinstance(answer, httpx.RequestError):
            raise answer
        return answer

    wire = httpx.MockTransport(send)
    clients = (
        LakeFSClient(url, "key", "secret", retries=0, http_transport=wire),
        NessieClient(f"{url}/api/v2", ClientProperties({}), retries=0, http_transport=wire),
    )
    said = set()
    for client, ask in zip(
        clients, (lambda c: c.repository("shop"), lambda c: c.config()), strict=True
    ):
        with client, pytest.raises(CatalogError) as caught:
            ask(client)
        said.add(caught.value.message.partition("server more time.")[2] or caught.value.message)
    return "\n".join(sorted(said))


@pytest.mark.parametrize(
    ("url", "answer", "advice"),
    [
        (
            HTTP,
            httpx.Response(301, headers={"location": f"{HTTPS}/x?a=b"}),
            f"callers to {HTTPS}: if",
        ),
        (HTTPS, httpx.Response(302, headers={"location": "/login?a=b"}), "its page /login: check"),
        (
            HTTP,
            httpx.Response(400, text="Client sent an HTTP request to an HTTPS server."),
            "try https:// in place",
        ),
        (HTTPS, httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong"), "try http:// in place"),
        (
            HTTPS,
            httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"),
            "SSL_CERT_FILE",
        ),
    ],
)
def test_a_wrong_address_is_told_with_the_right_one(
    url: str, answer: httpx.Response | httpx.RequestError, advice: str
) -> None:
    """http for https, https for http, a load balancer that redirects, a certificate of one's own."""
    assert all(advice in line for line in failure(url, answer).splitlines())


@pytest.mark.parametrize("answer", [httpx.ConnectError("refused"), httpx.Response(502)])
def test_a_proxy_that_failed_is_named(
    answer: httpx.Response | httpx.RequestError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address in the message is fine then, and nobody would look elsewhere."""
    assert "proxy" not in failure(HTTP, answer)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert all("HTTP_PROXY" in line for line in failure(HTTP, answer).splitlines())
    monkeypatch.setenv("NO_PROXY", "lake.example.com")
    assert "HTTP_PROXY" not in failure(HTTP, answer)


@pytest.mark.parametrize(
    ("variable", "value", "kind"),
    [
        ("ALL_PROXY", "odd://127.0.0.1:9", "bad-proxy"),
        ("HTTPS_PROXY", "http://127.0.0.1:port", "bad-proxy"),
        ("SSL_CERT_FILE", "/not/there.pem", "bad-certificates"),
    ],
)
def test_variables_that_can_not_be_used_are_wrong_settings(
    variable: str, value: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no bug of lakesweep: the message names the variable."""
    monkeypatch.setenv(variable, value)
    for make in (
        lambda: LakeFSClient(HTTPS, "key", "secret"),
        lambda: NessieClient(f"{HTTPS}/api/v2", ClientProperties({})),
    ):
        with pytest.raises(ConfigError, match=variable) as caught:
            make()
        assert caught.value.kind == kind


def test_socks_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tunnel made by `ssh -D`, for example."""

    def refuse(**_: object) -> None:
        raise ImportError("Using SOCKS proxy, but the 'socksio' package is not installed. …")

    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    monkeypatch.setattr(httpx, "Client", refuse)
    with pytest.raises(
        ConfigError, match=r"all_proxy names can't be used: Using SOCKS proxy\. .*httpx\[socks\]"
    ):
        new_client()
