"""Readers of large objects hold pieces; all of them together hold a bounded amount."""

from __future__ import annotations

from itertools import islice

from lakesweep_testing.lakes import LakeRepo

MIB = 1024 * 1024


def test_many_readers_share_what_few_may_hold() -> None:
    """Sixty readers, each with a piece in its hands, hold tens of MiB; one alone reads in large pieces."""
    repo = LakeRepo().create()
    content = bytes(range(256)) * (8 * MIB // 256)
    repo.put("large", content)
    lake, record = repo.lake, repo.record
    readers = [lake.objects.open(record, "main", "large").chunks for _ in range(60)]
    first = [next(reader) for reader in readers]
    held = [next(reader) for reader in readers]
    assert sum(map(len, first)) <= 16 * MIB
    assert sum(map(len, held)) <= 24 * MIB
    assert first[0] + held[0] + b"".join(readers[0]) == content
    for reader in readers:
        reader.close()  # type: ignore[attr-defined]
    alone = lake.objects.open(record, "main", "large").chunks
    assert max(map(len, islice(alone, 2))) == 2 * MIB
