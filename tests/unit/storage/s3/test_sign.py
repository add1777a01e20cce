"""Our signatures are botocore's."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest import mock
from urllib.parse import quote

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.storage.s3.sign import SigningKey, signed_headers

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
