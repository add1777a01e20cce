"""Requests that no honest client sends: each is refused in words, none is a 500, none is slow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakesweep.formats.entries import Entry
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.xml import parse_document
from lakesweep.lake.errors import InvalidRequestError
from lakesweep.lake.refs.expressions import LONGEST_REF, MOST_STEPS_BACK, RefExpression
from lakesweep.lake.staging.staged_values import decode_staged
from lakesweep_testing.asgi import AsgiLake

OBJECTS = "/repositories/repo/branches/main/objects?path=p"
LINK = "/repositories/repo/branches/main/staging/backing?path=p"
OUTSIDE = {"physical_address": "s3://elsewhere/x", "checksum": "c", "size_bytes": 1}


@pytest.fixture
def lake() -> Iterator[AsgiLake]:
    with AsgiLake() as lake:
        lake.create()
        yield lake


@pytest.mark.parametrize(
    "ref",
    [
        "~" * LONGEST_REF,
        "main" + "~" * 2000,
        "main" + "^1~" * 600,
        "1" * 2000,
        "main~" + "0" * 2000,
    ],
)
def test_a_long_expression_is_read_once(ref: str) -> None:
    """Reading takes one step back over each character, however they are mixed."""
    parsed = RefExpression.parse(ref)
    assert parsed.base + "".join(parsed.steps) == ref


@pytest.mark.parametrize(
    "ref",
    ["main" + "~" * 20_000, "x" * (LONGEST_REF + 1), "main~" + "9" * 99, "main~10001", ""],
)
def test_an_expression_that_asks_for_too_much_is_refused(lake: AsgiLake, ref: str) -> None:
    """Too long, or too many commits back: said before any commit is read."""
    with pytest.raises(InvalidRequestError):
        RefExpression.parse(ref)
    if ref:
        assert lake.send("GET", f"/repositories/repo/commits/{ref}").status_code == 400


def test_an_expression_walks_no_further_than_it_may(lake: AsgiLake) -> None:
    """The sum of all steps counts; one with leading zeros is no longer than it says."""
    assert RefExpression.parse(f"main~{MOST_STEPS_BACK}").steps == (f"~{MOST_STEPS_BACK}",)
    with pytest.raises(InvalidRequestError):
        RefExpression.parse(f"main~{MOST_STEPS_BACK}~")
    path = "/repositories/repo/commits/"
    first = lake.send("GET", path + "main").json()["id"]
    body = {"message": "m", "allow_empty": True}
    lake.send("POST", "/repositories/repo/branches/main/commits", json=body).raise_for_status()
    assert lake.send("GET", path + "main~" + "0" * 20 + "1").json()["id"] == first


@pytest.mark.parametrize("size", [10**30, 2**63, -1])
def test_a_size_that_no_object_has_is_refused(lake: AsgiLake, size: int) -> None:
    """For staged and for linked objects."""
    assert lake.send("PUT", OBJECTS, json=OUTSIDE | {"size_bytes": size}).status_code == 400
    linked = {"staging": {"physical_address": "mem://x/y"}, "checksum": "c", "size_bytes": size}
    assert lake.send("PUT", LINK, json=linked).status_code == 400


_LONE = '"a\\ud800b"'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/repositories/repo/branches/main/commits", f'{{"message": {_LONE}}}'),
        (
            "POST",
            "/repositories/repo/branches/main/commits",
            f'{{"message": "m", "metadata": {{{_LONE}: "v"}}}}',
        ),
        (
            "POST",
            "/repositories/repo/branches/main/commits",
            f'{{"message": "m", "metadata": {{{_LONE}: 5}}}}',
        ),
        ("POST", "/repositories/repo/branches", f'{{"name": "b", "source": {_LONE}}}'),
        ("POST", "/repositories/repo/tags", f'{{"id": {_LONE}, "ref": "main"}}'),
        ("POST", "/repositories/repo/branches/main/objects/delete", f'{{"paths": [{_LONE}]}}'),
        ("POST", "/auth/login", f'{{"access_key_id": {_LONE}, "secret_access_key": {_LONE}}}'),
    ],
)
def test_half_a_surrogate_pair_is_no_text(
    lake: AsgiLake, method: str, path: str, body: str
) -> None:
    """JSON can spell what no UTF-8 can: refused where it comes in, and not told back raw."""
    headers = {"content-type": "application/json"}
    reply = lake.send(method, path, content=body.encode(), headers=headers)
    assert reply.status_code == 400, reply.text
    assert "not valid" in reply.json()["message"]


@pytest.mark.parametrize("content_type", ["text/plain\r\nX-Evil: 1", "text/ünïcode", "τύπος", "\0"])
def test_a_content_type_that_no_header_can_carry_is_refused(
    lake: AsgiLake, content_type: str
) -> None:
    """Through JSON, for staged and for linked objects."""
    body = OUTSIDE | {"content_type": content_type}
    assert lake.send("PUT", OBJECTS, json=body).status_code == 400
    issued = lake.send("GET", LINK).json()["physical_address"]
    link = {"staging": {"physical_address": issued}, "checksum": "c", "size_bytes": 1}
    refused = lake.send("PUT", LINK, json=link | {"content_type": content_type})
    assert "not a content type" in refused.json()["message"]


def test_a_content_type_of_a_header_is_held_to_the_same_rule(lake: AsgiLake) -> None:
    """Uploads over both APIs, the beginning of a multipart upload, and a copy that replaces it."""
    odd = {"content-type": "text/ünïcode".encode()}
    assert lake.send("POST", OBJECTS, content=b"x", headers=odd).status_code == 400
    assert lake.send("POST", OBJECTS, content=b"x").status_code == 201
    for method, path, headers in (
        ("PUT", "/repo/main/p", {}),
        ("POST", "/repo/main/p?uploads", {}),
        (
            "PUT",
            "/repo/main/q",
            {"x-amz-copy-source": "/repo/main/p", "x-amz-metadata-directive": "REPLACE"},
        ),
    ):
        reply = lake.send_s3(method, path, b"", headers | {"content-type": "text/ünïcode"})
        assert (reply.status_code, "not a content type" in reply.text) == (400, True), reply.text


def test_an_entry_made_elsewhere_is_still_served(
    lake: AsgiLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A type and a checksum that came with another server's commit are shown as a header can carry them."""
    entry = replace(
        decode_staged(_staged_value(lake)), e_tag="τ\r\nX-Evil: 1", content_type="\r\nτύπος/x "
    )
    monkeypatch.setattr("lakesweep.lake.objects.objects.decode_staged", lambda _: entry)
    for reply in (
        lake.send("GET", "/repositories/repo/refs/main/objects?path=p"),
        lake.send("HEAD", "/repositories/repo/refs/main/objects?path=p"),
        lake.send_s3("GET", "/repo/main/p"),
    ):
        assert reply.status_code == 200
        for _, value in reply.headers.raw:
            assert not {b"\r", b"\n"} & {bytes([byte]) for byte in value}
            assert value == value.strip()


def _staged_value(lake: AsgiLake) -> bytes:
    seen: list[bytes] = []

    def remember(value: bytes) -> Entry:
        seen.append(value)
        return decode_staged(value)

    lake.send("POST", OBJECTS, content=b"x").raise_for_status()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakesweep.lake.objects.objects.decode_staged", remember)
        lake.send("GET", "/repositories/repo/refs/main/objects/stat?path=p").raise_for_status()
    return seen[0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_a_document_type_is_refused_in_every_encoding(encoding: str) -> None:
    """Entities that expand without end are never declared."""
    text = '<!DOCTYPE a [<!ENTITY b "cc">]><Delete>&b;</Delete>'
    with pytest.raises(S3Error, match="document type"):
        parse_document(text.encode(encoding), "Delete")


def test_an_encoding_that_nobody_knows_is_refused() -> None:
    """What the parser can't read is the client's mistake."""
    for name in ("no-such", "utf-7", "idna", "undefined"):
        with pytest.raises(S3Error):
            parse_document(f'<?xml version="1.0" encoding="{name}"?><A/>'.encode(), "Delete")


def test_metadata_has_the_bound_of_s3_everywhere(lake: AsgiLake) -> None:
    """2 KiB of names and values an object: uploads, links, staged objects, copies, later changes."""
    fits, too_long = {"k": "v" * 2047}, {"k": "é" * 1024}
    lake.send("POST", OBJECTS, content=b"x").raise_for_status()
    change = "/repositories/repo/branches/main/objects/stat/user_metadata?path=p"
    assert lake.send("PUT", change, json={"set": fits}).status_code == 204
    assert lake.send("PUT", change, json={"set": too_long}).status_code == 400
    assert lake.send("PUT", OBJECTS, json=OUTSIDE | {"metadata": too_long}).status_code == 400
    issued = lake.send("GET", LINK).json()["physical_address"]
    link = {"staging": {"physical_address": issued}, "checksum": "c", "size_bytes": 1}
    refused = lake.send("PUT", LINK, json=link | {"user_metadata": too_long})
    assert "2048" in refused.json()["message"]
    headers = {"x-lakefs-meta-k": "v" * 2048}
    upload = lake.send("POST", OBJECTS, content=b"x", headers=headers)
    assert upload.status_code == 400
    long_header = {"x-amz-meta-k": "v" * 2048}
    copy = {"x-amz-copy-source": "/repo/main/p", "x-amz-metadata-directive": "REPLACE"}
    for over_s3 in (
        lake.send_s3("PUT", "/repo/main/p", b"x", long_header),
        lake.send_s3("POST", "/repo/main/p?uploads", b"", long_header),
        lake.send_s3("PUT", "/repo/main/q", b"", long_header | copy),
    ):
        assert (over_s3.status_code, "MetadataTooLarge" in over_s3.text) == (400, True)
    assert lake.send_s3("PUT", "/repo/main/p", b"x", {"x-amz-meta-k": "v" * 2047}).is_success


def test_a_commit_has_bounds_too(lake: AsgiLake) -> None:
    """A page of the log holds a thousand messages, so none is a book."""
    path = "/repositories/repo/branches/main/commits"
    for body in ({"message": "m" * 70_000}, {"message": "m", "metadata": {"k": "v" * 70_000}}):
        reply = lake.send("POST", path, content=json.dumps(body).encode())
        assert reply.status_code == 400


@pytest.mark.parametrize("name", ["a%FF", "a%ED%A0%80", "a%C3"])
def test_a_name_that_is_no_text_names_nothing_else(lake: AsgiLake, name: str) -> None:
    """All such bytes would be read as one sign: objects of different names would take each other's place."""
    objects, kept = "/repositories/repo/branches/main/objects", "a%EF%BF%BD"
    assert lake.send("POST", f"{objects}?path={kept}", content=b"kept").status_code == 201
    assert lake.send("POST", f"{objects}?path={name}", content=b"other").status_code == 400
    assert lake.send("DELETE", f"{objects}?path={name}").status_code == 400
    copy = {"src_path": "a"}
    assert lake.send("POST", f"{objects}/copy?dest_path={name}", json=copy).status_code == 400
    reads = "/repositories/repo/refs/main/objects"
    assert lake.send("GET", f"{reads}?path={name}").status_code == 400
    assert lake.send("GET", f"{reads}?path={kept}").content == b"kept"
    assert lake.send("DELETE", f"/repositories/repo/tags/{name}").status_code == 400
