"""A mark is looked through in pages that leave nothing out and name nothing twice."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.collector.lakefs import browsing
from lakesweep.collector.lakefs.browsing import MarkPage, Position, browse_mark
from lakesweep.collector.parts import Part
from lakesweep.domain.location import Location
from lakesweep.formats.tables import MARK_SCHEMA, write_mark
from lakesweep.storage import ObjectStore, StorageOptions, open_store

_numbers = itertools.count()
REASONS = ("expired", "unreferenced")


def write_parts(sizes: list[int]) -> tuple[ObjectStore, list[Part], list[tuple[str, str]]]:
    store = open_store(Location.parse(f"mem://browsing-{next(_numbers)}/ns"), StorageOptions())
    parts, rows = [], []
    for number, size in enumerate(sizes):
        here = [(f"data/{n % 3}/{number}-{n}", REASONS[n % 2]) for n in range(size)]
        table = pa.table(
            {
                "address": [address for address, _ in here],
                "size_bytes": [1] * size,
                "last_modified": [None] * size,
                "reason": [reason for _, reason in here],
            },
            schema=MARK_SCHEMA,
        )
        key = f"part-{number}"
        store.write(key, write_mark(table))
        parts.append(Part(key, size, size))
        rows += here
    return store, parts, rows


def seen(pages: list[MarkPage]) -> list[str]:
    return [found.address for page in pages for found in page.objects]


@given(
    sizes=st.lists(st.integers(0, 7), max_size=4),
    prefix=st.sampled_from(["", "data/1", "data/2/0", "x"]),
    reason=st.sampled_from(["", *REASONS]),
    limit=st.integers(1, 4),
    is_slow=st.booleans(),
)
def test_pages_add_up_to_the_search(
    sizes: list[int], prefix: str, reason: str, limit: int, is_slow: bool
) -> None:
    """Whatever the parts, the page size and the time that a page takes."""
    store, parts, rows = write_parts(sizes)
    ticks = itertools.count(0, 10.0)
    pages: list[MarkPage] = []
    at: Position | None = Position()
    before = browsing._ROWS_AT_ONCE
    browsing._ROWS_AT_ONCE = 2
    try:
        while at is not None:
            pages.append(
                browse_mark(
                    store,
                    parts,
                    prefix=prefix,
                    reason=reason,
                    start=at,
                    limit=limit,
                    clock=(lambda: next(ticks)) if is_slow else (lambda: 0.0),
                )
            )
            assert at != pages[-1].next
            at = pages[-1].next
    finally:
        browsing._ROWS_AT_ONCE = before
    assert seen(pages) == [a for a, r in rows if a.startswith(prefix) and r == (reason or r)]
    assert all(len(page.objects) <= limit for page in pages)
    assert pages[-1].rows_seen == len(rows)
    counts = [page.rows_seen for page in pages]
    assert counts == sorted(counts)


def test_a_position_beyond_the_end_finds_nothing() -> None:
    """An old link to a shorter mark."""
    store, parts, _ = write_parts([3])
    for at in (Position(0, 9), Position(7, 0)):
        assert browse_mark(store, parts, start=at).objects == ()
