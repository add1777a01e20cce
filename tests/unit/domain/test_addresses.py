"""What a key is, told from its shape."""

from __future__ import annotations

import pytest

from lakesweep.domain.addresses import (
    KeyKind,
    ProtectedReason,
    classify_key,
    is_candidate,
)

SLICE = "gcoca17haabs73f2gtq0"
OBJECT = "cnnj2kqs3bo4lk9dl9dg"
SIGNATURE = "Zx_-09azAZ" + "a" * 33


@pytest.mark.parametrize(
    "key",
    [
        f"data/{SLICE}/{OBJECT}",
        f"data/{SLICE}/{OBJECT},{SIGNATURE}",
        f"data/!ab/c/{SLICE}/{OBJECT}",
    ],
)
def test_what_lakefs_writes_is_a_candidate(key):
    """Slices, signed addresses, shards."""
    assert classify_key(key).kind is KeyKind.CANDIDATE
    assert classify_key(key).reason is None
    assert is_candidate(key)


def test_names_at_the_root_count_only_where_commits_hold_such_addresses():
    """Any tool names files by an md5; only a repository from before slices may have given such a name itself."""
    key = "b0c968736d8f42a2b1c6284835f08226"
    assert classify_key(key).reason is ProtectedReason.FOREIGN_FILE_AT_ROOT
    assert not is_candidate(key)
    assert classify_key(key, root_names=True).kind is KeyKind.CANDIDATE
    assert is_candidate(key, root_names=True)
    assert not is_candidate("README.md", root_names=True)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("_lakefs/dummy", ProtectedReason.METADATA),
        ("_lakefs", ProtectedReason.METADATA),
        (f"_lakefs/data/{SLICE}/{OBJECT}", ProtectedReason.METADATA),
        ("dummy", ProtectedReason.MARKER),
        ("data/report.csv", ProtectedReason.PLAIN_FILE_UNDER_DATA),
        (f"data/{OBJECT}", ProtectedReason.PLAIN_FILE_UNDER_DATA),
        ("data/", ProtectedReason.PLAIN_FILE_UNDER_DATA),
        (f"data/{SLICE}/", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/{SLICE}/part-0.parquet", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/{SLICE}/{OBJECT}/x", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/{SLICE}/{OBJECT},", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/{SLICE}/{OBJECT}.crc", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/{SLICE}/{OBJECT}\n", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/{SLICE}//{OBJECT}", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/{SLICE.upper()}/{OBJECT}", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/backup/{SLICE}/{OBJECT}", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/{SLICE}/{'0' * 32}", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        (f"data/{SLICE}/{OBJECT[:-1]}1", ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA),
        ("README.md", ProtectedReason.FOREIGN_FILE_AT_ROOT),
        ("", ProtectedReason.FOREIGN_FILE_AT_ROOT),
        ("B0C968736D8F42A2B1C6284835F08226", ProtectedReason.FOREIGN_FILE_AT_ROOT),
        (f"other/{SLICE}/{OBJECT}", ProtectedReason.FOREIGN_FOLDER),
        (f"/data/{SLICE}/{OBJECT}", ProtectedReason.FOREIGN_FOLDER),
        ("symlinks/x/symlink.txt", ProtectedReason.FOREIGN_FOLDER),
        (f"../data/{SLICE}/{OBJECT}", ProtectedReason.FOREIGN_FOLDER),
    ],
)
def test_all_else_is_protected_and_named(key, reason):
    """Doubt keeps: a key that lakeFS would not have written is never a candidate."""
    shape = classify_key(key)
    assert (shape.kind, shape.reason) == (KeyKind.PROTECTED, reason)
    assert not is_candidate(key)


@pytest.mark.parametrize(
    "key",
    [
        "data/_lakefs/dummy",
        "data/dummy",
        f"data/inner/_lakefs/{'0' * 64}",
        "data/inner/dummy",
        f"data/{SLICE}/_lakefs/x",
        "data//_lakefs/new\nline",
    ],
)
def test_a_marker_below_data_is_another_repository(key):
    """Somebody made a repository inside our data/; all its objects would look unreferenced."""
    assert classify_key(key).kind is KeyKind.FOREIGN_REPOSITORY
    assert classify_key(key, is_odd=True).kind is KeyKind.FOREIGN_REPOSITORY


def test_an_odd_key_is_protected_whatever_it_looks_like():
    """The listing could not carry it safely, so its text may name another object."""
    shape = classify_key(f"data/{SLICE}/{OBJECT}", is_odd=True)
    assert (shape.kind, shape.reason) == (KeyKind.PROTECTED, ProtectedReason.ODD_KEY)
