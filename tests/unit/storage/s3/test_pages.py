"""Listing pages: the compiled reader and the XML parser read the same, and neither takes half a page."""

from __future__ import annotations

import random
from unittest import mock
from urllib.parse import quote_plus
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import StorageError
from lakesweep.storage.s3 import pages as s3_pages
from lakesweep.storage.s3.pages import Page, read_page, read_page_as_xml

KEY_TEXT = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=20)


@pytest.fixture(autouse=True)
def _compiled_reader() -> object:
    """Small pages go the fast road too."""
    with mock.patch.object(s3_pages, "_WORTH_COMPILING_BYTES", 0):
        yield


def row(
    key: str,
    size: object = 5,
    when: str = "2024-02-29T12:34:56.789Z",
    etag: str = "&quot;abc-1&quot;",
    more: str = "<StorageClass>STANDARD</StorageClass>",
) -> str:
    return (
        f"<Contents><Key>{key}</Key><LastModified>{when}</LastModified><ETag>{etag}</ETag>"
        f"<Size>{size}</Size>{more}</Contents>"
    )


def page(
    *rows: str, head: str = "", tail: str = "", encoding: str = "url", count: int | None = None
) -> bytes:
    count = len(rows) if count is None else count
    encoded = f"<EncodingType>{encoding}</EncodingType>" if encoding else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>b</Name>{head}<KeyCount>{count}</KeyCount><MaxKeys>1000</MaxKeys>{encoded}"
        f"<IsTruncated>false</IsTruncated>{''.join(rows)}{tail}</ListBucketResult>"
    ).encode()


def fast(content: bytes, base: str = "r/") -> Page:
    """The page, read by compiled code alone."""
    with mock.patch.object(s3_pages, "read_page_as_xml", side_effect=AssertionError("gave up")):
        return read_page(content, base)


def assert_same(one: Page, other: Page) -> None:
    assert one.objects.to_pylist() == other.objects.to_pylist()
    assert (one.folders, one.next_token) == (other.folders, other.next_token)


@given(keys=st.lists(KEY_TEXT, min_size=1, max_size=5))
def test_url_encoded_keys_come_out_exactly(keys: list[str]) -> None:
    """Any text a key may be, control characters included, through both readers."""
    content = page(*(row(quote_plus("r/" + key, safe="/")) for key in keys))
    read = fast(content)
    assert read.objects.column("key").to_pylist() == keys
    assert_same(read, read_page_as_xml(content, "r/"))


@given(keys=st.lists(st.text("ab/. %+é日😀", min_size=1, max_size=12), min_size=1, max_size=5))
def test_plain_keys_are_not_decoded(keys: list[str]) -> None:
    """A server that does not encode keys means its percent signs."""
    content = page(*(row(escape("r/" + key)) for key in keys), encoding="")
    assert fast(content).objects.column("key").to_pylist() == keys
    assert_same(fast(content), read_page_as_xml(content, "r/"))


def test_all_columns_agree_with_the_xml_parser() -> None:
    """Sizes, times with and without fractions, both kinds of quotes, elements in other orders, unknown ones."""
    content = page(
        row("r/a", 0, "1970-01-01T00:00:00Z"),
        row("r/b", 10**15, "2024-02-29T23:59:59.123456Z", "&#34;x&#34;"),
        row("r/c", 1, "1999-12-31T23:59:59.9Z", '"q"', "<Owner><ID>x</ID></Owner>"),
        "<Contents><Size>7</Size><ETag>e</ETag><Owner><ID>1</ID><Size>9</Size></Owner>"
        "<LastModified>2000-03-01T00:00:00.000Z</LastModified><Key>r/d</Key></Contents>",
        tail="<CommonPrefixes><Prefix>r/x+y/</Prefix></CommonPrefixes>",
        count=5,
    )
    read = fast(content)
    assert_same(read, read_page_as_xml(content, "r/"))
    assert read.folders == ("x y/",)
    assert read.objects.column("size").to_pylist() == [0, 10**15, 1, 7]
    assert read.objects.column("etag").to_pylist() == ['"abc-1"', '"x"', '"q"', "e"]


@pytest.mark.parametrize(
    "odd_row",
    [
        row("r/a&amp;b"),
        row("r/a", etag="&lt;"),
        row("r/a", when="2024-01-01T00:00:00+00:00"),
        row("r/a", when="2024-01-01T00:00:00.123+02:00"),
        row("r/a", more="<Restore a='1'/>"),
        "<Contents>\n  <Key>r/a</Key><Size>1</Size>\n</Contents>",
        row("r/a") + "\n",
    ],
)
def test_what_the_compiled_reader_does_not_know_the_parser_reads(odd_row: str) -> None:
    """Giving up is not failing."""
    content = page(row("r/0"), odd_row, row("r/z"), encoding="")
    assert_same(read_page(content, "r/"), read_page_as_xml(content, "r/"))
    assert read_page(content, "r/").objects.num_rows == 3


@pytest.mark.parametrize(
    "bad_row",
    [
        row("elsewhere/a"),
        row("r"),
        row("r/a", size="x"),
        row("r/a", size=-1) + "<",
        row("r/%ff"),
        row("r/a", when="2024-02-30T00:00:00Z"),
        row("r/a", when="2024-01-01T24:00:01Z"),
        row("r/a", when="yesterday"),
        row("r/a", when="2024-01-01T00:00:00"),
        "<Contents><Size>1</Size></Contents>",
        "<Contents><Key>r/a</Key></Contents>",
    ],
)
def test_a_bad_entry_spoils_the_page(bad_row: str) -> None:
    """Nothing is taken from a page that holds one."""
    with pytest.raises(StorageError):
        read_page(page(row("r/0"), bad_row, count=2), "r/")


def test_a_page_cut_anywhere_raises() -> None:
    """Truncation at every offset gives an error, never fewer keys."""
    content = page(
        row("r/a"),
        row("r/b%20c"),
        tail="<CommonPrefixes><Prefix>r/d/</Prefix></CommonPrefixes>",
        count=3,
    )
    for length in range(len(content)):
        with pytest.raises(StorageError):
            read_page(content[:length], "r/")


def test_flipped_bytes_never_lose_a_key_silently() -> None:
    """With any byte changed, the two readers agree, or both refuse."""
    content = page(*(row(f"r/{name}") for name in "abc"))
    chance = random.Random(1)
    for _ in range(1500):
        damaged = bytearray(content)
        damaged[chance.randrange(len(damaged))] = chance.choice(b"<>/&%;x0\x00\xff ")
        try:
            expected = read_page_as_xml(bytes(damaged), "r/")
        except StorageError:
            expected = None
        try:
            read = read_page(bytes(damaged), "r/")
        except StorageError:
            read = None
        if read is not None and expected is not None:
            assert_same(read, expected)
        else:
            assert read is None


def test_the_page_must_keep_its_own_word() -> None:
    """A wrong count, a missing truncation mark, a missing token."""
    for content in (
        page(row("r/a"), count=2),
        page(row("r/a")).replace(b"<IsTruncated>false</IsTruncated>", b""),
        page(row("r/a")).replace(b">false<", b">true<"),
        page(row("r/a")).replace(b"ListBucketResult", b"Other"),
    ):
        with pytest.raises(StorageError):
            read_page(content, "r/")


def test_the_token_of_the_next_page_is_kept() -> None:
    """Verbatim, entities resolved."""
    token = "<NextContinuationToken>a&amp;b==</NextContinuationToken>"
    content = page(row("r/a"), head=token).replace(b">false<", b">true<")
    assert fast(content).next_token == "a&b=="
