"""Marks that name what a test wants: a sweep alone must keep what is live, whatever its mark says."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa

from lakesweep.collector.lakefs.marks import load_plan, save_plan, write_mark
from lakesweep.collector.lakefs.paths import RunFolder
from lakesweep.collector.parts import parts_told, written_parts
from lakesweep.collector.record import RunRecord
from lakesweep.collector.run_files import MarkId
from lakesweep.domain.verdicts import Tally
from lakesweep.formats.tables import MARK_SCHEMA
from lakesweep_testing.scene import Scene

__all__ = ["forge_mark"]


def forge_mark(scene: Scene, addresses: Collection[str], reason: str = "unreferenced") -> RunRecord:
    """A finished mark, in order by every check of its files, whose plan names exactly these addresses as old garbage."""
    record = scene.mark()
    store = scene.store
    plan = load_plan(store, scene.name, MarkId(record.mark_id))
    rows = [
        {
            "address": address,
            "size_bytes": len(scene.container.objects[f"ns/{address}"].data),
            "last_modified": scene.container.objects[f"ns/{address}"].last_modified,
            "reason": reason,
        }
        for address in sorted(addresses)
    ]
    table = pa.Table.from_pylist(rows, schema=MARK_SCHEMA)
    folder = RunFolder(plan.run_id).verdicts
    parts = parts_told(written_parts(store, folder, "garbage", table))
    files = write_mark(store, plan.mark_id, parts)
    garbage = Tally(len(rows), sum(part.bytes for part in parts))
    save_plan(store, replace(plan, files=files, garbage=garbage))
    return record
