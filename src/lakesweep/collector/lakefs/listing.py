"""The listing of a namespace: what lakeFS itself could have written may be garbage, all else is counted and named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.listing import ListedStore, Listing, Piece, list_objects
from lakesweep.collector.resources import Resources
from lakesweep.domain.addresses import (
    CANDIDATE_PATTERN,
    FOREIGN_REPOSITORY_PATTERN,
    PROTECTED_PATTERNS,
    ProtectedReason,
)
from lakesweep.errors import UnsafeToSweepError

# What a listing keeps of each candidate. Later stages add columns; none changes these.
CANDIDATE_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("last_modified", pa.timestamp("us", tz="UTC")),
    ]
)

_EXAMPLES = 5
MOST_TASKS = 200


@dataclass(frozen=True)
class ListedNamespace(ListedStore):
    """Tells objects of a repository from what else lies in its namespace."""

    schema: pa.Schema = CANDIDATE_SCHEMA

    def is_candidate(self, page: pa.RecordBatch) -> pa.Array:
        return pc.and_(has_shape_of_data(page), super().is_candidate(page))

    def notices(self, rows: pa.RecordBatch, protected: pa.RecordBatch) -> Iterator[tuple[str, str]]:
        return protected_examples(protected)


def has_shape_of_data(page: pa.RecordBatch) -> pa.Array:
    """Which keys have the shape of names that lakeFS gives to data, so that they may be candidates."""
    return pc.match_substring_regex(page.column("key"), CANDIDATE_PATTERN)


def protected_examples(protected: pa.RecordBatch) -> Iterator[tuple[str, str]]:
    """A few names for each reason to protect."""
    for reason, pattern in (
        (ProtectedReason.OTHER_REPOSITORY, FOREIGN_REPOSITORY_PATTERN),
        (ProtectedReason.ODD_KEY, None),
        *PROTECTED_PATTERNS,
    ):
        if not protected.num_rows:
            return
        keys, is_so = protected.column("key"), protected.column("is_odd")
        if pattern is not None:
            is_so = pc.match_substring_regex(keys, pattern)
        for key in keys.filter(is_so)[:_EXAMPLES].to_pylist():
            yield reason.value, key
        protected = protected.filter(pc.invert(is_so))


def list_namespace(resources: Resources, prefixes: Sequence[Piece[str]], folder: str) -> Listing:
    """List these prefixes of a repository; refuses to take another repository's objects for its own."""
    engine, target = resources.engine, resources.target
    catalog = ListedNamespace(target)
    listing = list_objects(
        engine, target, folder, catalog, prefixes, most_tasks=MOST_TASKS, per_task=8
    )
    refuse_foreign_repository(resources.name, listing)
    return listing


def refuse_foreign_repository(name: str, listing: Listing) -> None:
    """Refuse to take another repository's objects for those of the repository of this name."""
    foreign = listing.notices.get(ProtectedReason.OTHER_REPOSITORY.value)
    if foreign:
        raise UnsafeToSweepError(
            f"Another repository lies inside the data of {name}: {foreign[0]}. Its objects would look like garbage here. "
            "Nothing was deleted. Move that repository out of this namespace.",
            kind="foreign-repository",
        )
