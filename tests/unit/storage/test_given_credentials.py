"""What reaches the wire: a role that is taken on, a Google token as it is, and no credentials where only a clock is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import LakesweepError, ObjectNotFoundError
from lakesweep.storage import StorageOptions, open_store
from lakesweep.storage.clocks import store_time
from lakesweep.storage.s3.client import S3Client

_ROLE = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>role-secret</SecretAccessKey><SessionToken>role-token</SessionToken>
<Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


@contextmanager
def listening(status: int, content: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server on loopback that answers everything alike: its address, and (Authorization, body) of what came."""
    came: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            came.append((self.headers.get("authorization", ""), self.rfile.read(length).decode()))
            self.send_response(status)
            self.send_header("content-length", str(len(content.encode())))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content.encode())

        do_POST = do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()
            thread.join()


def role_options(**more: object) -> StorageOptions:
    return StorageOptions(
        s3_access_key_id="own",
        s3_secret_access_key="own-secret",
        s3_region="eu-west-1",
        s3_assume_role_arn="arn:aws:iam::123456789012:role/collector",
        s3_assume_role_external_id="partner",
        s3_assume_role_seconds=900,
        **more,  # type: ignore[arg-type]
    )


def test_a_role_is_taken_on_with_the_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS is asked once, signed by the given key, and requests go out with what it answered."""
    ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with listening(200, _ROLE.format(ends=ends)) as (address, came):
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", address)
        client = S3Client("lake", role_options())
        key = client.credentials.signing_key()
        again = client.credentials.for_obstore()
    assert (key.access_key, key.secret_key, key.token) == (
        "ASIAROLE",
        "role-secret",
        "role-token",
    )
    assert again["access_key_id"] == "ASIAROLE"
    assert again["expires_at"] is not None, "obstore asks again before the role's credentials end"
    ((signature, body),) = came
    assert "Credential=own/" in signature
    asked = {name: values[0] for name, values in parse_qs(body).items()}
    assert asked["RoleArn"] == "arn:aws:iam::123456789012:role/collector"
    assert (asked["ExternalId"], asked["DurationSeconds"]) == ("partner", "900")


def test_a_role_that_is_denied_is_an_error_and_the_own_key_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever names a role does not want to delete with another identity."""
    denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"
    with listening(403, denied) as (address, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", address)
        with pytest.raises(LakesweepError, match="taking on the role"):
            S3Client("lake", role_options()).credentials.signing_key()


def test_a_google_token_is_sent_as_it_is() -> None:
    """Also to another address than Google's."""
    with listening(404, "{}") as (address, came):
        options = StorageOptions(gcs_token="ya29.token", gcs_endpoint=address, transient_retries=0)
        with pytest.raises(ObjectNotFoundError):
            open_store(Location.parse("gs://lake"), options).read("x")
    assert {authorization for authorization, _ in came} == {"Bearer ya29.token"}


@pytest.mark.parametrize(
    ("uri", "option"),
    [("abfss://c@acme.dfs.core.windows.net/t", "azure_endpoint"), ("gs://lake/t", "gcs_endpoint")],
)
def test_a_refusal_tells_the_time_too(uri: str, option: str) -> None:
    """Azure and Google date every answer; they are asked without the credentials that the options have."""
    with listening(403, "") as (address, came):
        options = StorageOptions(azure_account_key="a2V5", gcs_token="hush").with_values(
            {option: address}
        )
        time = store_time(open_store(Location.parse(uri), options))
    assert time is not None
    assert abs(time - datetime.now(UTC)) < timedelta(minutes=5)
    assert [authorization for authorization, _ in came] == [""]
