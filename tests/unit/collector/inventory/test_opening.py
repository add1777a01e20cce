"""Parquet files without a manifest as an inventory: which of them are read, and how old it is by them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakesweep.collector.inventory.opening import open_inventory
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.storage import StorageOptions
from lakesweep.storage.memory import memory_container

OLD = datetime(2026, 1, 10, tzinfo=UTC)


def folder_of_files(*names: str) -> tuple[Target, str]:
    """The namespace, the URI of a folder with these files, each a day younger than the one before."""
    bucket = f"opening-{uuid.uuid4().hex}"
    container = memory_container(bucket)
    for days, name in enumerate(names):
        key = f"lists/{name}"
        at = OLD + timedelta(days=days)
        container.objects[key] = replace(container.store(key, b"PAR1"), last_modified=at)
    target = Target(Location.parse(f"mem://{bucket}/ns"), StorageOptions())
    return target, f"mem://{bucket}/lists"


def test_files_without_a_manifest_are_as_old_as_the_oldest() -> None:
    """Of what was written since then, a younger file tells a part alone."""
    target, uri = folder_of_files("a.parquet", "b.parquet")
    found = open_inventory(target, uri)
    assert found.taken_at == OLD
    assert len(found.files) == 2


def test_files_of_other_tools_are_passed_over() -> None:
    """A writer's attempts that did not count stand under such names."""
    names = ("_temporary/0/a.parquet", ".hidden.parquet", "_SUCCESS", "day=1/b.parquet")
    target, uri = folder_of_files(*names)
    found = open_inventory(target, uri)
    assert [file.location.key for file in found.files] == ["lists/day=1/b.parquet"]
