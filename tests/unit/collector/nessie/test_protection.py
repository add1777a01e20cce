"""What is said of files by their folders and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakesweep.collector.nessie.protection import NOT_UNDERSTOOD, OLD_ONLY, TOO_NEW, FolderIndex

UNTIL = datetime(2026, 5, 1, tzinfo=UTC)


def test_in_a_place_only_files_that_are_old_enough_may_go() -> None:
    """The last moment is old enough; a file without a time never is, and elsewhere nobody asks for it."""
    index = FolderIndex.of(
        [("s3://lake/place", OLD_ONLY), ("s3://lake/place/inner", "theirs"), ("s3://lake/t", "")],
        elsewhere="outside",
        old_until=UNTIL,
    )
    rows = [
        ("s3://lake/place/a", UNTIL, ""),
        ("s3a://lake/place/deep/b", UNTIL + timedelta(microseconds=1), TOO_NEW),
        ("s3://lake/place/c", None, TOO_NEW),
        ("s3://lake/place/inner/d", UNTIL, "theirs"),
        ("s3://lake/t/e", None, ""),
        ("s3://lake/other/f", UNTIL, "outside"),
    ]
    uris, times, words = zip(*rows, strict=True)
    said = index.labels_of(pa.array(uris), pa.array(times, pa.timestamp("us", tz="UTC")))
    assert said.to_pylist() == list(words)


def test_a_folder_that_may_be_another_place_is_nobodys_to_delete_from() -> None:
    index = FolderIndex.of([("s3://lake/t", "")], elsewhere="outside")
    assert index.label_of("s3://lake/t/%2e%2e/a") == NOT_UNDERSTOOD


def test_of_two_labels_of_a_folder_the_first_holds() -> None:
    """A base location of a live table may also be one that was given up, and what protects is said first."""
    labels = [("s3a://lake/t", "given up"), ("s3://lake/t", "")]
    index = FolderIndex.of(labels, overruling=[("s3://lake/u", "first"), ("s3://lake/u", "later")])
    assert index.label_of("s3://lake/t/data") == "given up"
    assert index.label_of("s3://lake/u") == "first"
