"""List prefixes of the namespace, tell candidates from what is protected, keep the candidates in Parquet parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.parts import PartWriter, sum_of
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import (
    CANDIDATE_PATTERN,
    FOREIGN_REPOSITORY_PATTERN,
    classify_key,
)
from lakesweep.progress import advance
from lakesweep.storage import ObjectStore

# What a listing keeps of each candidate. Later stages add columns; none changes these.
CANDIDATE_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("last_modified", pa.timestamp("us", tz="UTC")),
    ]
)

LISTED_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string()),  # "prefix": what was seen; "part": what was written
        pa.field("name", pa.string()),
        pa.field("objects", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("protected", pa.int64()),
        pa.field("protected_bytes", pa.int64()),
        pa.field("examples", pa.string()),  # JSON: reason → a few names
        pa.field("foreign_repository", pa.string()),
    ]
)

_EXAMPLES_PER_REASON = 5
# The pattern takes longer to build than a page of keys to be matched with it.
_KEYS_PER_MATCH = 50_000


@dataclass(frozen=True, slots=True)
class Prefix:
    """One piece of a listing: everything below `key`, or only what lies directly in it."""

    key: str
    recursive: bool = True


@dataclass(slots=True)
class _Seen:
    objects: int = 0
    bytes: int = 0
    protected: int = 0
    protected_bytes: int = 0
    examples: dict[str, list[str]] = field(default_factory=dict)
    foreign_repository: str = ""


def list_prefixes(
    target: Target, folder: str, prefixes: Iterator[Prefix]
) -> Iterator[pa.RecordBatch]:
    """Work function: one row per prefix with its counts, one per written part."""
    store = target.open()
    wanted = list(prefixes)
    seen = {prefix: _Seen() for prefix in wanted}
    writer = PartWriter(store, folder, "listing", CANDIDATE_SCHEMA)
    for pages in _by_rows(_pages(store, wanted), _KEYS_PER_MATCH):
        for candidates in _candidates([(page, seen[prefix]) for prefix, page in pages]):
            writer.add(candidates)
    rows = [
        (
            "prefix",
            prefix.key,
            s.objects,
            s.bytes,
            s.protected,
            s.protected_bytes,
            json.dumps(s.examples),
            s.foreign_repository,
        )
        for prefix, s in seen.items()
    ]
    rows += [("part", p.key, p.rows, p.bytes, 0, 0, "{}", "") for p in writer.close()]
    yield pa.RecordBatch.from_pylist(
        [dict(zip(LISTED_SCHEMA.names, row, strict=True)) for row in rows], schema=LISTED_SCHEMA
    )


def _pages(
    store: ObjectStore, prefixes: Sequence[Prefix]
) -> Iterator[tuple[Prefix, pa.RecordBatch]]:
    deep = {prefix.key: prefix for prefix in prefixes if prefix.recursive}
    for key, page in store.list_many(list(deep)):
        yield deep[key], page
    for prefix in prefixes:
        if not prefix.recursive:
            yield prefix, store.list_folder(prefix.key).objects


def _by_rows(
    pages: Iterable[tuple[Prefix, pa.RecordBatch]], rows: int
) -> Iterator[list[tuple[Prefix, pa.RecordBatch]]]:
    """Lists of pages with so many rows in all."""
    waiting: list[tuple[Prefix, pa.RecordBatch]] = []
    for prefix, page in pages:
        waiting.append((prefix, page))
        if sum(page.num_rows for _, page in waiting) >= rows:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _candidates(pages: Sequence[tuple[pa.RecordBatch, _Seen]]) -> Iterator[pa.RecordBatch]:
    """The rows of a listing that lakeFS itself could have written; all others are counted and named as protected."""
    keys = pa.concat_arrays([page.column("key") for page, _ in pages])
    has_shape = pc.match_substring_regex(keys, CANDIDATE_PATTERN)
    start = 0
    for page, seen in pages:
        size = sum_of(page, "size")
        seen.objects += page.num_rows
        seen.bytes += size
        advance(page.num_rows, size)
        is_candidate = pc.and_(
            has_shape.slice(start, page.num_rows), pc.invert(page.column("is_odd"))
        )
        start += page.num_rows
        rest = page.filter(pc.invert(is_candidate))
        if rest.num_rows:
            _note_protected(rest, seen)
        kept = page.filter(is_candidate)
        yield pa.RecordBatch.from_arrays(
            [
                kept.column("key").cast(pa.string()),
                kept.column("size").cast(pa.int64()),
                kept.column("last_modified").cast(pa.timestamp("us", tz="UTC")),
            ],
            schema=CANDIDATE_SCHEMA,
        )


def _note_protected(rest: pa.RecordBatch, seen: _Seen) -> None:
    seen.protected += rest.num_rows
    seen.protected_bytes += sum_of(rest, "size")
    foreign = rest.filter(pc.match_substring_regex(rest.column("key"), FOREIGN_REPOSITORY_PATTERN))
    if foreign.num_rows and not seen.foreign_repository:
        seen.foreign_repository = foreign.column("key")[0].as_py()
    for key, is_odd in zip(
        rest.column("key")[:1000].to_pylist(), rest.column("is_odd")[:1000].to_pylist(), strict=True
    ):
        reason = classify_key(key, is_odd=is_odd).reason
        names = seen.examples.setdefault(str(reason.value if reason else "unknown"), [])
        if len(names) < _EXAMPLES_PER_REASON:
            names.append(key)
