"""Hashes of file names: columns of every kind, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakesweep.errors import FormatError
from lakesweep.formats.file_hashes import hash_files, hash_listed_files
from lakesweep.formats.hashing import hash_address
from lakesweep_testing.one_by_one import hash_file

NAMES = ["s3a://lake/t/x", "s3://lake/t/x", "file:/t/x", "/t/x", "gs://lake/x", "s3://lake/a%20b"]
FOLDED = ["s3://lake/t/x"] * 2 + ["file:///t/x"] * 2 + ["gs://lake/x", "s3://lake/a b"]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_a_column_of_any_text_type_is_hashed(type_: pa.DataType) -> None:
    """The hash is that of the folded name, which the anti-join compares."""
    expected = [hash_address(name) for name in FOLDED]
    assert hash_files(pa.array(NAMES).cast(type_)).tolist() == expected
    assert [hash_file(name) for name in NAMES] == expected


def test_a_slice_and_a_dictionary_are_hashed_as_what_they_show() -> None:
    """Offsets count from the slice's first row."""
    column = pa.array(NAMES)
    assert hash_files(column[2:4]).tolist() == [hash_file(name) for name in NAMES[2:4]]
    assert hash_files(column.dictionary_encode()).tolist() == hash_files(column).tolist()


def test_no_names_have_no_hashes() -> None:
    """An empty column is fine; a null is not."""
    assert hash_files(pa.array([], pa.string())).tolist() == []
    with pytest.raises(ValueError, match="nulls"):
        hash_files(pa.array(["s3://lake/x", None]))


def test_a_name_that_cannot_be_folded_refuses_a_column_of_live_files() -> None:
    """It would be missing from the live ones."""
    with pytest.raises(FormatError) as caught:
        hash_files(pa.array(["s3://lake/x", "s3://lake/a/../b"]))
    assert caught.value.kind == "bad-file-name"


def test_a_listed_file_without_a_sound_name_is_told() -> None:
    """Who lists keeps it, and goes on."""
    hashes, is_sound = hash_listed_files(pa.array(["s3://lake/x", "s3://lake/a/../b", "/y"]))
    assert is_sound.tolist() == [True, False, True]
    assert (hashes[0], hashes[2]) == (hash_file("s3://lake/x"), hash_file("/y"))
