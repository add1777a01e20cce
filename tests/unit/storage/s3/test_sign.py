"""Our signatures are botocore's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest import mock
from urllib.parse import parse_qs, quote, urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.storage import StorageOptions
from lakesweep.storage.s3.client import S3Client
from lakesweep.storage.s3.sign import (
    BareRequests,
    SigningKey,
    canonical_query,
    presigned_query,
    signed_headers,
)

TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=10)


@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE"]),
    key=TEXT,
    query=st.dictionaries(st.text("abcdef-", min_size=1), TEXT, max_size=4),
    headers=st.dictionaries(
        st.sampled_from(["Content-MD5", "x-amz-copy-source"]), st.text("ab /=")
    ),
    body=st.binary(max_size=50),
    token=st.none() | st.text("abc+/=", min_size=1, max_size=20),
)
def test_every_request_is_signed_as_botocore_signs_it(
    method: str,
    key: str,
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes,
    token: str | None,
) -> None:
    """The whole Authorization header agrees, for any key, query, header, body and token."""
    now = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    path = "/bucket/" + quote(key, safe="/~")
    pairs = sorted((quote(k, safe="~"), quote(v, safe="~")) for k, v in query.items())
    text = "&".join(f"{k}={v}" for k, v in pairs)
    url = f"http://127.0.0.1:9000{path}" + (f"?{text}" if text else "")
    request = AWSRequest(method=method, url=url, data=body, headers=dict(headers))
    with mock.patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)):
        S3SigV4Auth(Credentials("id", "secret", token), "s3", "eu-west-1").add_auth(request)
    ours = signed_headers(
        SigningKey("id", "secret", token),
        "eu-west-1",
        now,
        method,
        "127.0.0.1:9000",
        path,
        text,
        headers,
        body,
    )
    assert ours["authorization"] == request.headers["Authorization"]


@given(
    method=st.sampled_from(["GET", "PUT"]),
    key=TEXT,
    query=st.dictionaries(st.text("abcdef-", min_size=1), TEXT, max_size=4),
    token=st.none() | st.text("abc+/=", min_size=1, max_size=20),
)
def test_every_url_is_signed_as_botocore_signs_it(
    method: str, key: str, query: dict[str, str], token: str | None
) -> None:
    """The signature agrees, for any key, parameters and token, and the URL carries all that it covers."""
    now = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    path = "/bucket/" + quote(key, safe="/~")
    text = canonical_query(query)
    url = f"http://127.0.0.1:9000{path}" + (f"?{text}" if text else "")
    request = AWSRequest(method=method, url=url)
    with mock.patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)):
        signer = S3SigV4QueryAuth(Credentials("id", "secret", token), "s3", "eu-west-1", expires=90)
        signer.add_auth(request)
    signing_key = SigningKey("id", "secret", token)
    ours = presigned_query(signing_key, "eu-west-1", now, method, "127.0.0.1:9000", path, query, 90)
    theirs = parse_qs(urlsplit(request.url).query, keep_blank_values=True)
    assert parse_qs(ours, keep_blank_values=True) == theirs


def test_url_ends_with_its_credentials() -> None:
    """A role's credentials may end before the fifteen minutes are over, and every URL signed with them, too."""
    options = StorageOptions(
        s3_access_key_id="id", s3_secret_access_key="secret", s3_endpoint="http://s3.test"
    )
    client = S3Client("bucket", options)
    whole = client.presigned_url("GET", "a b", timedelta(minutes=15))
    assert whole.url.startswith("http://s3.test/bucket/a%20b?X-Amz-Algorithm=AWS4-HMAC-SHA256&")
    soon = datetime.now(UTC) + timedelta(minutes=5)
    client.credentials._found._expiry_time = soon
    assert whole.expires_at > soon
    assert client.presigned_url("GET", "a b", timedelta(minutes=15)).expires_at == soon


@given(
    method=st.sampled_from(["GET", "HEAD"]),
    key=TEXT,
    token=st.none() | st.text("abc+/=", min_size=1, max_size=20),
)
def test_bare_requests_are_signed_as_all_others(method: str, key: str, token: str | None) -> None:
    """Their head has the very headers that `signed_headers` makes."""
    now = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    path = "/bucket/" + quote(key, safe="/~")
    signing_key = SigningKey("id", "secret", token)
    host, region = "127.0.0.1:9000", "eu-west-1"
    expected = signed_headers(signing_key, region, now, method, host, path, "", {}, b"")
    sent = BareRequests(signing_key, region, host, now).request(method, path)
    first, *lines = sent.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    assert first == f"{method} {path} HTTP/1.1"
    assert dict(line.split(": ", 1) for line in lines) == expected | {"accept-encoding": "identity"}
