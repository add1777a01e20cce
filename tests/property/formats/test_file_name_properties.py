"""What holds for every file name: folding merges spellings, is done once, and both roads to a hash agree."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakesweep.domain.file_names import fold, is_below
from lakesweep.errors import FormatError
from lakesweep.formats.file_hashes import hash_files, hash_listed_files
from lakesweep.formats.hashing import hash_address
from lakesweep_testing.one_by_one import hash_file

# Parts that matter to folding come up often; any text may stand between them.
PARTS = st.sampled_from(
    [
        *("s3", "s3a", "s3n", "gs", "gcs", "file", "abfss", "wasb", "https", "hdfs", "S3", "s3x"),
        *(":", "/", "//", "///", "://", ":/", "@", ".", "..", "./", "/.", "%", "%2", "%25", "%2F"),
        *(
            "%2e",
            "%FF",
            "%C3%A9",
            "localhost",
            "lake",
            "LAKE",
            "la-ke_1.x",
            "data",
            "a b",
            "é",
            "İ",
        ),
        *("acct.dfs.core.windows.net", "acct.blob.core.windows.net", "c@acct", "?", "#", "\0"),
    ]
)
ANY_NAMES = st.lists(PARTS | st.text(st.characters(codec="utf-8"), max_size=4), max_size=12).map(
    "".join
)
SEGMENTS = st.text(st.characters(codec="utf-8", exclude_characters="/%"), min_size=1, max_size=8)
KEYS = st.lists(SEGMENTS.filter(lambda part: part not in (".", "..")), min_size=1, max_size=5)
PREFIXES = [
    "s3://b/",
    "s3a://b/",
    "s3n://b/",
    "gs://b/",
    "/",
    "file:/",
    "file:///",
    "gs://b.c-d_e/",
]
TIDY_NAMES = st.builds("{}{}".format, st.sampled_from(PREFIXES), KEYS.map("/".join))
NAMES = ANY_NAMES | TIDY_NAMES

# Every way to spell a place, by kind: what stands before the key.
KINDS = [
    ["s3://lake/", "s3a://lake/", "s3n://Lake/", "S3://lake//", "s3:/lake/", "s3://k:s@lake/"],
    ["/", "//", "file:/", "file:///", "file://localhost/", "FILE:////", "file:/./"],
    [
        "abfs://c@a.dfs.core.windows.net/",
        "abfss://c@A.blob.core.windows.net/",
        "wasbs://c@a.blob.core.windows.net//",
        "https://a.blob.core.windows.net/c/",
        "http://a.dfs.core.windows.net/c/./",
    ],
    ["gs://lake/", "gcs://LAKE//"],
    ["hdfs://node:1/", "HDFS://Node:1/./"],
]


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str]:
    """Two names of one place."""
    kind = draw(st.sampled_from(KINDS))
    segments = draw(KEYS)
    return _spelled(draw, kind, segments), _spelled(draw, kind, segments)


def _spelled(draw: st.DrawFn, kind: list[str], segments: list[str]) -> str:
    name = draw(st.sampled_from(kind))
    for number, segment in enumerate(segments):
        between = draw(st.sampled_from(["/", "//", "/./", "%2F", "/%2e/"])) if number else ""
        name += between + _encoded(draw, segment)
    return name + draw(st.sampled_from(["", "/", "/.", "//"]))


def _encoded(draw: st.DrawFn, segment: str) -> str:
    """Percent signs for some of the characters, and for some of those percent signs again."""
    for _ in range(draw(st.integers(0, 2))):
        wants = draw(st.sets(st.sampled_from(segment)))
        segment = "".join(
            "".join(f"%{byte:02X}" for byte in sign.encode()) if sign in wants else sign
            for sign in segment
        )
    return segment


def outcome_of(name: str) -> str | None:
    try:
        return fold(name)
    except FormatError:
        return None


@given(NAMES)
@example("https://acct.blob.core.windows.net/a@b/k")
@example("s3:/k@/x")
def test_folding_again_changes_nothing(name: str) -> None:
    """So a folded name may be folded again wherever it lands."""
    folded = outcome_of(name)
    assert folded is None or fold(folded) == folded


@given(spellings())
def test_all_spellings_of_one_place_fold_to_one_name(names: tuple[str, str]) -> None:
    """Or a live file would be taken for garbage."""
    assert fold(names[0]) == fold(names[1])


@given(spellings(), KEYS)
def test_what_is_below_stays_below(names: tuple[str, str], key: list[str]) -> None:
    """Whatever the two spellings are."""
    child = names[1] + "/" + "/".join(key)
    assert is_below(fold(child), fold(names[0]))


@given(st.lists(NAMES, max_size=8), st.booleans(), st.booleans())
def test_hashes_of_columns_are_hashes_of_folded_names(
    names: list[str], is_large: bool, is_sliced: bool
) -> None:
    """The fast road and `fold` may never part."""
    column = pa.array(["/left out", *names] if is_sliced else names, _type(is_large))
    column = column[1:] if is_sliced else column
    folded = [outcome_of(name) for name in names]
    hashes, is_sound = hash_listed_files(column)
    assert is_sound.tolist() == [name is not None for name in folded]
    for name, value in zip(folded, hashes.tolist(), strict=True):
        assert name is None or value == hash_address(name)
    if None in folded:
        with pytest.raises(FormatError):
            hash_files(column)
    else:
        assert hash_files(column).tolist() == hashes.tolist()


@given(TIDY_NAMES)
def test_one_file_hashes_as_a_column_of_one(name: str) -> None:
    """Names that need only their scheme rewritten, too."""
    folded = outcome_of(name)
    if folded is not None:
        assert hash_files(pa.array([name])).tolist() == [hash_file(name)] == [hash_address(folded)]


def _type(is_large: bool) -> pa.DataType:
    return pa.large_string() if is_large else pa.string()
