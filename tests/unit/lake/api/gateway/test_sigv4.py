"""Signature verification, with botocore as the oracle: what it signs is accepted, anything altered is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.request import GatewayRequest, parse_query
from lakesweep.lake.api.gateway.sigv4 import verify_request

KEY_ID = "AKIATESTONLY"
SECRET = "a-secret-for+tests/only"
HOST = "127.0.0.1:8000"


def find_secret(access_key_id: str) -> str | None:
    return SECRET if access_key_id == KEY_ID else None


def utc_now() -> datetime:
    return datetime.now(UTC)


def to_gateway(method: str, url: str, headers: Mapping[str, str]) -> GatewayRequest:
    """What the server would see of a signed request."""
    parts = urlsplit(url)
    return GatewayRequest(
        method=method,
        raw_path=parts.path,
        raw_query=parts.query,
        headers={"host": HOST} | {name.lower(): str(value) for name, value in headers.items()},
        query=dict(parse_query(parts.query)),
    )


def sign_with_header(
    method: str = "GET",
    path: str = "/repo/main/a",
    query: str = "",
    headers: Mapping[str, str] | None = None,
    secret: str = SECRET,
    key_id: str = KEY_ID,
) -> GatewayRequest:
    url = f"http://{HOST}{path}" + (f"?{query}" if query else "")
    request = AWSRequest(method=method, url=url, headers=dict(headers or {}), data=b"")
    S3SigV4Auth(Credentials(key_id, secret), "s3", "us-east-1").add_auth(request)
    return to_gateway(method, url, dict(request.headers.items()))


def presign(
    method: str = "GET", path: str = "/repo/main/a", expires: int = 60, secret: str = SECRET
) -> GatewayRequest:
    request = AWSRequest(method=method, url=f"http://{HOST}{path}", headers={})
    S3SigV4QueryAuth(Credentials(KEY_ID, secret), "s3", "us-east-1", expires=expires).add_auth(
        request
    )
    return to_gateway(method, request.url, {})


def refusal(request: GatewayRequest, now: datetime | None = None) -> str:
    with pytest.raises(S3Error) as caught:
        verify_request(request, find_secret, now or utc_now())
    return caught.value.code


TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=("Cs",)), max_size=20
)


@given(
    key=TEXT,
    pairs=st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=4, unique_by=lambda pair: pair[0]),
    meta=st.text("abc =+/", max_size=10),
)
def test_what_botocore_signs_in_a_header_is_accepted(
    key: str, pairs: list[tuple[str, str]], meta: str
) -> None:
    """Any key, query and metadata value that botocore signs verifies here."""
    query = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs)
    path = "/repo/main/" + quote(key, safe="/~")
    request = sign_with_header("PUT", path, query, {"x-amz-meta-a": meta})
    assert verify_request(request, find_secret, utc_now()).access_key_id == KEY_ID


@given(key=TEXT, method=st.sampled_from(["GET", "PUT", "HEAD", "DELETE"]))
def test_what_botocore_presigns_is_accepted(key: str, method: str) -> None:
    """A presigned query verifies, whatever the key."""
    request = presign(method, "/repo/main/" + quote(key, safe="/~"))
    assert verify_request(request, find_secret, utc_now()).payload_hash == "UNSIGNED-PAYLOAD"


@given(data=st.data())
def test_any_altered_byte_of_a_signed_request_is_refused(data: st.DataObject) -> None:
    """Method, path, query, a signed header, the credential or the signature: change one byte, and it is refused."""
    presigned = data.draw(st.booleans())
    request = presign() if presigned else sign_with_header(query="list-type=2&prefix=main%2F")
    part = data.draw(st.sampled_from(["method", "raw_path", "raw_query", "header"]))
    if part == "header" and not presigned:
        name = data.draw(st.sampled_from(sorted(request.headers)))
        changed = _flip(request.headers[name], data)
        # White space around and between words is no part of a header's value.
        if changed.split() == request.headers[name].split():
            return
        request = replace(request, headers={**request.headers, name: changed})
    elif part == "method":
        request = replace(request, method=_flip(request.method, data))
    elif part == "raw_query" and request.raw_query:
        changed = _flip(request.raw_query, data)
        if sorted(parse_query(changed)) == sorted(parse_query(request.raw_query)):
            return
        request = replace(request, raw_query=changed, query=dict(parse_query(changed)))
    else:
        request = replace(request, raw_path=_flip(request.raw_path, data))
    refusal(request)


def _flip(text: str, data: st.DataObject) -> str:
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(
        st.characters(min_codepoint=33, max_codepoint=126).filter(lambda c: c != text[at])
    )
    return text[:at] + other + text[at + 1 :]


def test_another_secret_is_refused() -> None:
    """A signature made with a wrong secret does not match."""
    assert refusal(sign_with_header(secret="wrong")) == "SignatureDoesNotMatch"
    assert refusal(presign(secret="wrong")) == "SignatureDoesNotMatch"


def test_an_unknown_access_key_is_refused() -> None:
    """An id nobody has is told apart from a wrong secret, as S3 does."""
    assert refusal(sign_with_header(key_id="AKIANOBODY")) == "InvalidAccessKeyId"


@pytest.mark.parametrize("sign", [1, -1])
def test_a_signature_a_quarter_of_an_hour_away_is_refused(sign: int) -> None:
    """The clocks may differ by 15 minutes, in either direction, and not by more."""
    request = sign_with_header()
    now = utc_now()
    verify_request(request, find_secret, now + sign * timedelta(minutes=14, seconds=55))
    assert refusal(request, now + sign * timedelta(minutes=15, seconds=5)) == "RequestTimeTooSkewed"


def test_a_presigned_url_lives_as_long_as_it_says() -> None:
    """It may outlive the clock's tolerance, ends on time, and does not begin in the future."""
    now = utc_now()
    verify_request(presign(expires=3600), find_secret, now + timedelta(minutes=59))
    assert refusal(presign(expires=3600), now + timedelta(minutes=61)) == "AccessDenied"
    assert refusal(presign(expires=3600), now - timedelta(minutes=16)) == "RequestTimeTooSkewed"


@pytest.mark.parametrize("expires", [0, 604801])
def test_a_presigned_url_longer_than_a_week_is_refused(expires: int) -> None:
    """S3's own limits of 1 second to 7 days hold."""
    assert refusal(presign(expires=expires)) == "AuthorizationQueryParametersError"


def test_an_unsigned_request_is_refused() -> None:
    """Without a signature nothing is allowed."""
    assert refusal(to_gateway("GET", f"http://{HOST}/repo", {})) == "AccessDenied"


def test_an_added_unsigned_amz_header_is_refused() -> None:
    """A header such as a copy source can't be added to somebody else's signed request."""
    for request in (sign_with_header("PUT"), presign("PUT")):
        headers = {**request.headers, "x-amz-copy-source": "/other/main/secret"}
        assert refusal(replace(request, headers=headers)) == "AccessDenied"


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("AWS AKIATESTONLY:c2ln", "InvalidRequest"),
        ("AWS4-HMAC-SHA256 nonsense", "AuthorizationHeaderMalformed"),
        (
            "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host, Signature=b",
            "AuthorizationHeaderMalformed",
        ),
        ("Basic YTpi", "AccessDenied"),
    ],
)
def test_other_authorizations_are_refused_by_name(authorization: str, code: str) -> None:
    """Version 2, a mangled header and basic auth each get the refusal that tells what to do."""
    request = sign_with_header()
    assert (
        refusal(replace(request, headers={**request.headers, "authorization": authorization}))
        == code
    )


def test_a_signature_without_the_host_is_refused() -> None:
    """A request signed for another host could be replayed here."""
    request = sign_with_header()
    authorization = request.headers["authorization"].replace("host;", "")
    assert (
        refusal(replace(request, headers={**request.headers, "authorization": authorization}))
        == "AccessDenied"
    )
