"""A single-threaded mark and sweep of a Nessie catalog with pyiceberg: the yardstick of bench_nessie.py.

What one writes first: every reference is walked with httpx, each distinct content is opened once with pyiceberg and
gone through down to its data files, the live files are a set, and what lies in the tables' folders and is not in it is
printed. Nothing is deleted. There is no grace period, and no proof that anything was read whole.

    python benchmarks/naive_nessie_gc.py http://127.0.0.1:19120/api/v2 200
    python benchmarks/naive_nessie_gc.py http://127.0.0.1:19120/api/v2 200 --manifests-once

With `--manifests-once` it also remembers which manifests it has read. nessie-gc does not, and neither does the yardstick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import httpx
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import StaticTable

_PAGE = 250
Content = tuple[str, int]  # metadata location, snapshot id


def live_contents(http: httpx.Client, commits: int) -> set[Content]:
    """What each reference's last commits put, and the state at the oldest of them."""
    live: set[Content] = set()
    for reference in _pages(http, "trees", "references"):
        log = _pages(http, f"trees/{reference['name']}@{reference['hash']}/history", "logEntries")
        last = None
        for number, entry in enumerate(log, start=1):
            if number > commits:
                break
            puts = (o["content"] for o in entry["operations"] if o["type"] == "PUT")
            live |= {_content(content) for content in puts if content["type"] == "ICEBERG_TABLE"}
            last = entry["commitMeta"]["hash"]
        if last is not None:
            state = _pages(http, f"trees/@{last}/entries", "entries", content="true")
            live |= {_content(e["content"]) for e in state if e["type"] == "ICEBERG_TABLE"}
    return live


def live_files(contents: set[Content], *, manifests_once: bool) -> tuple[set[str], set[str]]:
    """The files that the contents need, and the tables' locations."""
    files: set[str] = set()
    locations: set[str] = set()
    seen: set[str] = set()
    for metadata_location, snapshot_id in contents:
        table = StaticTable.from_metadata(metadata_location)
        locations.add(table.location())
        files.add(metadata_location)
        snapshot = table.snapshot_by_id(snapshot_id)
        if snapshot is None:
            continue
        files.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifests_once and manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            files.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.status != ManifestEntryStatus.DELETED:
                    files.add(entry.data_file.file_path)
    return files, locations


def garbage_in(locations: set[str], live: set[str]) -> Iterator[str]:
    """Files below the locations that are not live."""
    for location in locations:
        for folder, _, names in os.walk(location.removeprefix("file://")):
            for name in names:
                uri = f"file://{folder}/{name}"
                if uri not in live:
                    yield uri


def _content(content: dict[str, Any]) -> Content:
    return content["metadataLocation"], content["snapshotId"]


def _pages(http: httpx.Client, path: str, what: str, **more: str) -> Iterator[dict[str, Any]]:
    params = {"fetch": "ALL", "max-records": str(_PAGE), **more}
    while True:
        response = http.get(path, params=params)
        response.raise_for_status()
        page = response.json()
        yield from page[what]
        if not page["hasMore"]:
            return
        params["page-token"] = page["token"]


if __name__ == "__main__":
    with httpx.Client(base_url=sys.argv[1], timeout=60) as http:
        contents = live_contents(http, int(sys.argv[2]))
    live, locations = live_files(contents, manifests_once="--manifests-once" in sys.argv)
    print("\n".join(sorted(garbage_in(locations, live))))
