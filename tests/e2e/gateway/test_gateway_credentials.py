"""Who gets in: signatures, clocks, presigned links, and requests without any."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from lakesweep.lake.server import LakeServer

Refusal = Callable[..., tuple[str, int]]

MakeClient = Callable[..., Any]


def test_a_wrong_secret_is_refused(make_client: MakeClient, repo: str, refusal: Refusal) -> None:
    """403 SignatureDoesNotMatch, for reads and writes."""
    s3 = make_client(aws_secret_access_key="wrong")
    for call in (
        lambda: s3.list_buckets(),
        lambda: s3.put_object(Bucket=repo, Key="main/a", Body=b"x" * 3_000_000),
    ):
        assert refusal(call) == ("SignatureDoesNotMatch", 403)


def test_an_unknown_key_is_refused(make_client: MakeClient, refusal: Refusal) -> None:
    """403 InvalidAccessKeyId."""
    assert refusal(make_client(aws_access_key_id="AKIANOBODYHERE").list_buckets) == (
        "InvalidAccessKeyId",
        403,
    )


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_wrong_clock_is_refused(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, minutes: int, refusal: Refusal
) -> None:
    """403 RequestTimeTooSkewed when the client's clock is more than 15 minutes off, either way."""
    shifted = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr(
        "botocore.auth.get_current_datetime", lambda *_, **__: shifted.replace(tzinfo=None)
    )
    assert refusal(make_client().list_buckets) == ("RequestTimeTooSkewed", 403)


def test_presigned_links_read_and_write(s3: Any, repo: str) -> None:
    """A link alone is enough to put and to get one object, whatever its key."""
    params = {"Bucket": repo, "Key": "main/by link + 100%"}
    with httpx.Client(trust_env=False) as http:
        put = http.put(s3.generate_presigned_url("put_object", Params=params), content=b"data")
        assert put.status_code == 200, put.text
        got = http.get(s3.generate_presigned_url("get_object", Params=params))
        assert (got.status_code, got.content) == (200, b"data")
        labelled = s3.generate_presigned_url(
            "get_object",
            Params=params | {"ResponseContentDisposition": 'attachment; filename="a b"'},
        )
        assert http.get(labelled).headers["content-disposition"] == 'attachment; filename="a b"'


def test_a_link_opens_nothing_else(s3: Any, repo: str) -> None:
    """Another method, another key, more headers or a changed expiry break its signature."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"data")
    s3.put_object(Bucket=repo, Key="main/b", Body=b"secret")
    link = s3.generate_presigned_url(
        "get_object", Params={"Bucket": repo, "Key": "main/a"}, ExpiresIn=60
    )
    with httpx.Client(trust_env=False) as http:
        assert http.get(link).status_code == 200
        for reply in (
            http.get(link.replace("main/a", "main/b")),
            http.delete(link),
            http.put(link, content=b"x"),
            http.get(link.replace("X-Amz-Expires=60", "X-Amz-Expires=6000")),
            http.get(link, headers={"x-amz-copy-source": f"{repo}/main/b"}),
            http.get(link + "&versionId=1"),
        ):
            assert reply.status_code == 403, reply.text
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == b"data"


def test_link_of_signature_version_2_is_told_what_to_use(
    lake_server: LakeServer, repo: str
) -> None:
    """The AWS command line and boto3 make such links unless told otherwise; 400, and S3's words for it."""
    query = {"AWSAccessKeyId": lake_server.access_key_id, "Signature": "x", "Expires": "9999999999"}
    reply = httpx.get(f"{lake_server.url}/{repo}/main/a", params=query, trust_env=False)
    assert reply.status_code == 400
    assert "Please use AWS4-HMAC-SHA256" in reply.text


def test_an_expired_link_is_refused(s3: Any, repo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link ends when it says."""
    earlier = datetime.now(UTC) - timedelta(minutes=10)
    with monkeypatch.context() as patch:
        patch.setattr(
            "botocore.auth.get_current_datetime", lambda *_, **__: earlier.replace(tzinfo=None)
        )
        link = s3.generate_presigned_url(
            "get_object", Params={"Bucket": repo, "Key": "main/a"}, ExpiresIn=60
        )
    with httpx.Client(trust_env=False) as http:
        reply = http.get(link)
    assert reply.status_code == 403
    assert "Request has expired" in reply.text


def test_an_unsigned_request_gets_nothing(s3: Any, repo: str, lake_server: LakeServer) -> None:
    """Without credentials no object, listing or write is served, on any host name."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"secret data")
    with httpx.Client(trust_env=False) as http:
        for headers in ({}, {"host": "s3.local.lakefs.io"}, {"host": f"{repo}.s3.local.lakefs.io"}):
            for path in (f"/{repo}/main/a", "/main/a", f"/{repo}?list-type=2", "/"):
                reply = http.get(f"{lake_server.url}{path}", headers=headers)
                assert reply.status_code in (401, 403, 404)
                assert b"secret data" not in reply.content
            reply = http.put(f"{lake_server.url}/{repo}/main/b", content=b"x", headers=headers)
            assert reply.status_code in (401, 403, 404, 405)


def test_errors_are_s3_documents(lake_server: LakeServer, repo: str) -> None:
    """An error has a code, a message, the resource and an id that is also in the log and the headers."""
    with httpx.Client(trust_env=False) as http:
        reply = http.get(
            f"{lake_server.url}/{repo}/main/a<b>", headers={"host": "s3.local.lakefs.io"}
        )
    assert reply.headers["content-type"] == "application/xml"
    assert "<Code>AccessDenied</Code>" in reply.text
    assert f"<Resource>/{repo}/main/a&lt;b&gt;</Resource>" in reply.text
    assert f"<RequestId>{reply.headers['x-amz-request-id']}</RequestId>" in reply.text


def test_virtual_host_addresses(
    make_client: MakeClient, repo: str, lake_server: LakeServer
) -> None:
    """`<repo>.<domain>` names the repository in the host, as S3 clients without path style do."""
    s3 = make_client()
    s3.put_object(Bucket=repo, Key="main/a", Body=b"data")
    port = lake_server.url.rpartition(":")[2]
    virtual = make_client(
        endpoint_url=f"http://s3.local.lakefs.io:{port}", s3={"addressing_style": "virtual"}
    )
    link = virtual.generate_presigned_url("get_object", Params={"Bucket": repo, "Key": "main/a"})
    host = f"{repo}.s3.local.lakefs.io:{port}"
    assert host in link
    with httpx.Client(trust_env=False) as http:
        reply = http.get(link.replace(f"http://{host}", lake_server.url), headers={"host": host})
    assert (reply.status_code, reply.content) == (200, b"data")
