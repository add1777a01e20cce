"""Ids, facts, content keys and deferred files: each reads back as it was written, or is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakesweep.domain.head_contents import HeadContents
from lakesweep.domain.live_sets import (
    LONGEST_ERROR_MESSAGE,
    LONGEST_URI_PART,
    ContentKind,
    DeferredFile,
    DroppedTable,
    MarkFacts,
    OtherContent,
    cut_error_message,
    decode_content_key,
    deferred_file,
    encode_content_key,
    new_live_set_id,
    parse_live_set_id,
)
from lakesweep.errors import ConfigError, FormatError, UnsafeToSweepError

FACTS = MarkFacts(
    head_contents=HeadContents.of(["s3://lake/t/metadata/1.json"]),
    catalog_uri="http://127.0.0.1:19120/api/v2",
    reference_time=datetime(2026, 5, 1, 12, 30, 15, 250, tzinfo=UTC),
    default_policy="NONE",
    policies=(("main|dev", "P10D"), ("tag-.*", "3")),
    keep_state_at_cutoff=True,
    heads={"BRANCH main": "aa", "TAG münchen": "bb"},
    others=(OtherContent("id-1", ("db", "délta.1"), "DELTA_LAKE_TABLE", ("s3://b/d", "s3://b/e")),),
    dropped=(DroppedTable("id-2", ("db", "t"), ContentKind.ICEBERG_VIEW, "s3://b/m.json", -1),),
)


def test_new_ids_are_ids_and_differ() -> None:
    """A new id parses as itself."""
    one, two = new_live_set_id(), new_live_set_id()
    assert parse_live_set_id(one) == one != two


def test_id_is_read_in_any_case_with_blanks_around() -> None:
    """What an id file holds, a newline included, is the id in lower case."""
    text = "0BAAA1FF-90db-4ee5-b6d2-b60aea148c76"
    assert parse_live_set_id(f" {text}\n") == text.lower()


@pytest.mark.parametrize(
    "text", ["", "1", "0baaa1ff90db4ee5b6d2b60aea148c76", "{0baaa1ff-90db-4ee5-b6d2-b60aea148c76}"]
)
def test_other_texts_are_no_ids(text: str) -> None:
    """Anything but the usual form of a UUID is refused."""
    with pytest.raises(ConfigError) as refusal:
        parse_live_set_id(text)
    assert refusal.value.kind == "bad-live-set-id"


def test_facts_read_back_as_written() -> None:
    """The JSON holds every field; nothing in it needs more than ASCII."""
    text = FACTS.to_json()
    assert MarkFacts.from_json(text) == FACTS
    assert text.isascii()


def test_facts_keep_an_instant_not_a_zone() -> None:
    """A reference time of another zone comes back as the same instant in UTC."""
    facts = MarkFacts.from_json(
        FACTS.to_json().replace("2026-05-01T12:30:15.000250Z", "2026-05-01T21:30:15.000250+09:00")
    )
    assert facts == FACTS
    assert facts.reference_time.tzinfo is UTC


@pytest.mark.parametrize("name", sorted(json.loads(FACTS.to_json())))
@pytest.mark.parametrize("damage", [None, 7, "x", [1], {"a": 1}])
def test_damaged_facts_are_refused(name: str, damage: object) -> None:
    """A field of the wrong kind is doubt about the mark, not a crash and not a default."""
    fields = json.loads(FACTS.to_json())
    if isinstance(damage, str) and isinstance(fields[name], str) and name.endswith(("uri", "cy")):
        return  # any text will do there
    with pytest.raises(FormatError) as refusal:
        MarkFacts.from_json(json.dumps({**fields, name: damage}))
    assert refusal.value.kind == "damaged-mark-facts"


def test_a_grace_before_the_drop_is_refused() -> None:
    """It would count from a time after the mark."""
    fields = json.loads(FACTS.to_json())
    with pytest.raises(FormatError, match="dropped_grace"):
        MarkFacts.from_json(json.dumps({**fields, "dropped_grace": -1}))


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", FACTS.to_json()[:-1]])
def test_facts_cut_short_are_refused(text: str) -> None:
    """So is text that is not whole."""
    with pytest.raises(FormatError):
        MarkFacts.from_json(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content_type", "DELTA_LAKE_TABLE"),
        ("snapshot_id", "5"),
        ("snapshot_id", True),
        ("last_seen", "2024-05-01T00:00:00"),  # of which zone?
    ],
)
def test_damaged_dropped_tables_are_refused(field: str, value: object) -> None:
    """The parts of a fact are looked at as closely as the whole."""
    fields = json.loads(FACTS.to_json())
    fields["dropped"][0][field] = value
    with pytest.raises(FormatError):
        MarkFacts.from_json(json.dumps(fields))


@pytest.mark.parametrize(
    ("elements", "text"),
    [
        (("db", "t"), "db.t"),
        (("one",), "one"),
        (("a.b", "c"), "a\x1db.c"),
        ((".hidden", "x*y/z%"), "\x1dhidden.x*y/z%"),
    ],
)
def test_content_keys_read_back_as_written(elements: tuple[str, ...], text: str) -> None:
    """Dots part the elements; a dot inside one is U+001D."""
    assert encode_content_key(elements) == text
    assert decode_content_key(text) == elements


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        (".a*.b.c", ("a.b", "c")),
        (".x**y.*{*}*[", ("x*y", "/\\%")),
        ("a\0b.c", ("a.b", "c")),
    ],
)
def test_other_forms_of_keys_are_read(text: str, elements: tuple[str, ...]) -> None:
    """The escaped form begins with a dot; a zero character is the older stand-in."""
    assert decode_content_key(text) == elements


@pytest.mark.parametrize("text", [".a*x", ".a*"])
def test_unknown_escapes_are_refused(text: str) -> None:
    """An escape that stands for nothing is damage."""
    with pytest.raises(FormatError):
        decode_content_key(text)


AT = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("base", "uri", "expected"),
    [
        ("s3://b/t", "s3://b/t/data/x", ("s3://b/t/", "data/x")),
        ("s3://b/t/", "s3://b/t/data/x", ("s3://b/t/", "data/x")),
        ("s3://b/t", "s3://b/t/a:b", ("s3://b/t/", "s3://b/t/a:b")),
        ("s3://b/t", "s3://b/t/.crc", ("s3://b/t/", "s3://b/t/.crc")),
        ("s3://b/t", "s3://b/t//x", ("s3://b/t/", "s3://b/t//x")),
        ("s3a://b/t", "s3://b/t/x", ("s3a://b/t/", "s3://b/t/x")),
        ("s3://b/t", "s3://b/t2/x", ("s3://b/t/", "s3://b/t2/x")),
        ("file:///t", "file:///t/a/.x.crc", ("file:///t/", "a/.x.crc")),
    ],
)
def test_deferred_file_is_parted_so_that_both_tools_read_it(
    base: str, uri: str, expected: tuple[str, str]
) -> None:
    """Relative where nessie-gc reads it right, absolute where it would not; the URI is always the same."""
    file = deferred_file(base, uri, AT)
    assert (file.base_uri, file.path_uri) == expected
    assert file.uri == uri
    assert not file.is_doubtful


@pytest.mark.parametrize(
    ("base", "uri"),
    [
        ("s3://b/t", "s3://b/t/" + "d" * 200 + "/" + "e" * 100 + "/x"),
        ("s3://b/" + "t" * 150, "s3://b/" + "t" * 150 + "/ts=12:30/" + "x" * 200),
        ("s3://b/a/" + "t" * 250, "s3://b/a/" + "t" * 240 + "/x"),
        ("s3://b/" + "a/" * 125, "s3://b/" + "a/" * 125 + "x"),
    ],
)
def test_long_uris_are_parted_at_another_folder(base: str, uri: str) -> None:
    """Both parts fit, and together they are the URI."""
    file = deferred_file(base, uri, None)
    assert file.base_uri + file.path_uri == uri
    assert file.base_uri.endswith("/")
    assert max(len(file.base_uri), len(file.path_uri)) <= LONGEST_URI_PART
    assert file.uri == uri


@pytest.mark.parametrize(
    "uri", ["s3://b/t/" + "x" * 251, "s3://b/" + "t" * 240 + "/a:b", "s3://b/" + "t/" * 400 + "x"]
)
def test_uri_that_fits_nowhere_is_refused(uri: str) -> None:
    """It is never cut: a cut name could be a live file's."""
    with pytest.raises(UnsafeToSweepError) as refusal:
        deferred_file("s3://b/t", uri, None)
    assert refusal.value.kind == "too-long"
    assert uri in refusal.value.message


def test_times_of_deferred_files_are_kept_to_the_millisecond() -> None:
    """The column holds milliseconds, so that is what every store gives back."""
    tokyo = AT.astimezone(timezone(timedelta(hours=9)))
    file = deferred_file("s3://b/t", "s3://b/t/x", tokyo)
    assert file.modified_at == AT.replace(microsecond=123000)
    assert file.modified_at is not None
    assert file.modified_at.tzinfo is UTC


def test_relative_path_with_a_colon_is_doubtful() -> None:
    """Only nessie-gc writes those, lower-cased before the colon, so they may name another file."""
    assert DeferredFile("s3://b/t/", "data/x:y", None).is_doubtful
    assert DeferredFile("s3://b/t/", "data/x:y", None).uri == "s3://b/t/data/x:y"


def test_long_error_message_is_cut_to_the_column() -> None:
    """The text and the word that it was cut fill the column exactly; what can't be stored is replaced."""
    cut = cut_error_message("x" * 5000)
    assert len(cut) == LONGEST_ERROR_MESSAGE
    assert cut.endswith("x ... (truncated)")
    assert cut_error_message("x" * LONGEST_ERROR_MESSAGE) == "x" * LONGEST_ERROR_MESSAGE
    assert cut_error_message("a\0b\ud800") == "a\ufffdb?"
