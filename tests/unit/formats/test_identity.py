"""Identities and ids, against vectors that lakeFS's own tests hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakesweep.formats.entries import Entry
from lakesweep.formats.identity import commit_id, entry_identity
from lakesweep.formats.metaranges import write_metarange
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.values import join_value

VECTOR_RANGE_ID = "a83af763ba098c15369d9d6d723731eb9ce18b8dfac4f88c6f1287e772393d0e"


def vector_record(address: str, seconds: int, nanos: int, size: int, e_tag: str) -> bytes:
    at = datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=nanos // 1000)
    entry = Entry(address, at, size, e_tag, nanosecond=nanos)
    return join_value(entry_identity(size, e_tag), entry.encode())


def test_entry_identity() -> None:
    """Size, tag and metadata make an entry's identity."""
    identity = entry_identity(11, "664c688b4ea9c56730daacfc3d70aeed")
    assert identity.hex() == "56fef3921aa6e7fd62bbe23b2f69db3f9049a54b6f2c7bd886b7eb1a6ca3ab3e"


def test_content_type_counts_only_when_it_is_set() -> None:
    """Entries from before content types keep their identity."""
    assert entry_identity(1, "x", {}, "") == entry_identity(1, "x")
    assert entry_identity(1, "x", {}, "text/csv") != entry_identity(1, "x")


def test_commit_id() -> None:
    """A commit's id, with a creation date of Go's zero time."""
    assert (
        commit_id(
            committer="user1",
            message="message1",
            meta_range_id="deadbeef123",
            creation_date=-62135596800,
            metadata={"foo": "bar"},
            parents=["deadbeef1", "deadbeef12"],
        )
        == "2277b5abd2d3ba6b4d35c48a0e358b0c4bcf5cd6d891c67437fb4c4af0d2fd4b"
    )


def test_commit_id_counts_whole_seconds() -> None:
    """Fractions of a second do not change a commit's id."""

    def id_at(at: datetime | int) -> str:
        return commit_id(
            committer="c", message="m", meta_range_id="", creation_date=at, metadata={}, parents=[]
        )

    assert id_at(datetime(2024, 1, 1, 0, 0, 0, 999_999, UTC)) == id_at(1704067200)


def test_range_id() -> None:
    """Two entries of a file from 2021 give the id that lakeFS gave it, and its estimated size."""
    records = [
        (
            b"a/b/c/no",
            vector_record(
                "b0c968736d8f42a2b1c6284835f08226",
                1628163584,
                471124555,
                11,
                "664c688b4ea9c56730daacfc3d70aeed",
            ),
        ),
        (
            b"a/b/c/yes",
            vector_record(
                "fdf87fcf9ec849f98514ddb7e041ad56",
                1628163573,
                589644914,
                4,
                "eb4585ad9fe0426781ed7c49252f8225",
            ),
        ),
    ]
    [written] = write_ranges(records)
    assert written.id == VECTOR_RANGE_ID
    assert (written.min_key, written.max_key, written.count) == (b"a/b/c/no", b"a/b/c/yes", 2)
    assert written.estimated_size == 287


def test_id_of_the_empty_metarange() -> None:
    """A commit that deleted everything has this metarange."""
    metarange_id, _ = write_metarange([])
    assert metarange_id == "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"
