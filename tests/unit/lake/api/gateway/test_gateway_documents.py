"""XML out and in, tokens, metadata, conditions, and the lake's errors in S3's words."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep import errors as base
from lakesweep.lake import errors as lake
from lakesweep.lake.api.gateway.arguments import (
    decode_token,
    encode_token,
    read_user_metadata,
    user_metadata_headers,
)
from lakesweep.lake.api.gateway.conditions import check_conditions, is_range_current
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.objects import read_range
from lakesweep.lake.api.gateway.request import GatewayRequest
from lakesweep.lake.api.gateway.translation import to_s3_error
from lakesweep.lake.api.gateway.xml import format_time, parse_document, render_document
from lakesweep.lake.values import ByteRange, ObjectStats

XML_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="￾￿")
)


@given(text=XML_TEXT)
def test_text_survives_a_document(text: str) -> None:
    """Whatever a key has in it, a parser reads it back."""
    document = render_document("Root", [("Child", [("Key", text)])])
    (child,) = parse_document(document, "Root").children("Child")
    assert child.text("Key") == text
    assert ElementTree.fromstring(document).tag.startswith("{http://s3.amazonaws.com/")


def test_control_characters_travel_as_references() -> None:
    """They are no XML 1.0, and S3 sends them so."""
    assert b"<Key>a&#x1;b&#xA;</Key>" in render_document("Root", [("Key", "a\x01b\n")])


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<Other/>",
        b"<Delete>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><Delete>&b;</Delete>',
        b"\xff\xfe\x00",
    ],
)
def test_documents_that_are_wrong_or_dangerous_are_refused(document: bytes) -> None:
    """Not XML, another root, or entities that could expand without end."""
    with pytest.raises(S3Error) as caught:
        parse_document(document, "Delete")
    assert caught.value.code == "MalformedXML"


def test_times_have_milliseconds_and_utc() -> None:
    """The form that S3's clients parse."""
    assert (
        format_time(datetime(2026, 1, 2, 3, 4, 5, 6789, tzinfo=UTC)) == "2026-01-02T03:04:05.006Z"
    )


@given(key=st.text())
def test_tokens_carry_any_key(key: str) -> None:
    """A page can end at any key; the token is plain ASCII."""
    key = key.encode("utf-8", "replace").decode()
    token = encode_token(key)
    assert token.isascii()
    assert decode_token(token) == key


@given(value=st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=200))
def test_metadata_survives_its_headers(value: str) -> None:
    """What is stored goes out as ASCII, and a client that sends it back stores the same."""
    value = value.strip()
    headers = user_metadata_headers({"X-Amz-Meta-k": value, "other": "not S3's"})
    (sent,) = headers.values()
    assert sent.isascii()
    request = GatewayRequest("PUT", "", "", {"x-amz-meta-k": sent})
    if "=?" not in value and value.split() == [value]:
        assert read_user_metadata(request) == {"X-Amz-Meta-k": value}


def test_metadata_names_that_no_header_can_have_are_counted() -> None:
    """An entry whose metadata came through JSON is still served."""
    headers = user_metadata_headers({"X-Amz-Meta-a b": "1", "X-Amz-Meta-c": "2"})
    assert headers == {"X-Amz-Meta-c": "2", "x-amz-missing-meta": "1"}


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        ("bytes=0-4", ByteRange(first=0, last=4)),
        ("bytes=3-", ByteRange(first=3)),
        ("bytes=-5", ByteRange(suffix=5)),
        ("bytes=4-3", None),
        ("bytes=-", None),
        ("bytes=0-1,2-3", None),
        ("items=0-1", None),
        (None, None),
        ("bytes=٣-", None),
    ],
)
def test_ranges(header: str | None, asked: ByteRange | None) -> None:
    """One range of ASCII digits is a range; anything else is the whole object."""
    assert read_range(header) == asked


ENTRY = ObjectStats("a", checksum="abc", mtime=datetime(2026, 1, 1, 12, 0, 0, 500, tzinfo=UTC))
BEFORE, AT, AFTER = (f"Thu, 01 Jan 2026 {hour}:00:00 GMT" for hour in (11, 12, 13))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, None),
        ({"if-match": '"abc"'}, None),
        ({"if-match": "*"}, None),
        ({"if-match": '"x", "y"'}, "PreconditionFailed"),
        ({"if-none-match": '"x"'}, None),
        ({"if-none-match": 'W/"abc"'}, "NotModified"),
        ({"if-modified-since": BEFORE}, None),
        ({"if-modified-since": AT}, "NotModified"),
        ({"if-unmodified-since": AT}, None),
        ({"if-unmodified-since": BEFORE}, "PreconditionFailed"),
        ({"if-match": '"abc"', "if-unmodified-since": BEFORE}, None),
        ({"if-none-match": '"x"', "if-modified-since": AFTER}, None),
        ({"if-modified-since": "yesterday"}, None),
    ],
)
def test_conditions(headers: dict[str, str], code: str | None) -> None:
    """Tags go before times, and a time counts in whole seconds."""
    if code is None:
        check_conditions(headers, ENTRY)
        return
    with pytest.raises(S3Error) as caught:
        check_conditions(headers, ENTRY)
    assert caught.value.code == code


def test_a_copys_conditions_fail_and_never_answer_not_modified() -> None:
    """304 is an answer to reads alone."""
    with pytest.raises(S3Error) as caught:
        check_conditions({"p-if-none-match": '"abc"'}, ENTRY, prefix="p-")
    assert caught.value.code == "PreconditionFailed"


def test_if_range_serves_a_range_of_the_known_object_alone() -> None:
    """Another version is sent whole."""
    assert is_range_current({}, ENTRY)
    assert is_range_current({"if-range": '"abc"'}, ENTRY)
    assert is_range_current({"if-range": AT}, ENTRY)
    assert not is_range_current({"if-range": '"x"'}, ENTRY)
    assert not is_range_current({"if-range": BEFORE}, ENTRY)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (lake.GoneError("x"), "Gone"),
        (lake.MissingError("x", kind="entry-not-found"), "NoSuchKey"),
        (lake.MissingError("x", kind="ref-not-found"), "NoSuchKey"),
        (lake.MissingError("x", kind="branch-not-found"), "NoSuchBucket"),
        (lake.MissingError("x", kind="repository-not-found"), "NoSuchBucket"),
        (lake.MissingError("x", kind="upload-not-found"), "NoSuchUpload"),
        (lake.PreconditionFailedError("x"), "PreconditionFailed"),
        (lake.RangeNotSatisfiableError("x", size_bytes=3), "InvalidRange"),
        (lake.ForbiddenError("x"), "AccessDenied"),
        (lake.TooManyTriesError("x"), "SlowDown"),
        (lake.NoChangesError("x"), "InvalidArgument"),
        (lake.InvalidRequestError("x", kind="invalid-part"), "InvalidPart"),
        (lake.UnsupportedOperationError("x"), "NotImplemented"),
        (base.StorageDeniedError("x"), "AccessDenied"),
        (base.StorageError("x"), "InternalError"),
    ],
)
def test_the_lakes_errors_in_s3s_words(error: base.LakesweepError, code: str) -> None:
    """Each has the code that makes an S3 client do the right thing."""
    assert to_s3_error(error).code == code
