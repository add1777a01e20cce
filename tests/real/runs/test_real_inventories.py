"""Inventories of a bucket of MinIO with a real lakeFS on it: a mark by one finds what a mark by a listing finds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from lakesweep.collector.lakefs.collect import run_gc, run_mark
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import MarkId
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.formats.tables import read_mark
from lakesweep.storage.memory import memory_container
from lakesweep_testing.histories import RandomHistory, client_of
from lakesweep_testing.inventories import Row, inventory_of
from lakesweep_testing.servers import RealLakeFS
from lakesweep_testing.user import User

pytestmark = [
    pytest.mark.real,
    # The official client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

OpenRun = Callable[..., RunContext]
CLEAN = MarkRequest(min_age=timedelta(seconds=1), allow_lower_min_age=True, flow=Flow.CLEAN)


def marked(context: RunContext, mark_id: str) -> set[str]:
    keys = list(context.store.keys(mark_folder(MarkId(mark_id))))
    return {a for k in keys for a in read_mark(context.store.read(k)).column("address").to_pylist()}


def inventory_in_store(context: RunContext, bucket: Location, kind: str) -> str:
    """An inventory of the whole bucket, written into it."""
    target = replace(context.resources.target, namespace=bucket)
    told = [row for page in target.open().list() for row in page.to_pylist()]
    rows = [Row(r["key"], r["size"], r["last_modified"], bucket.container) for r in told]
    made = inventory_of(kind, rows, bucket.container, datetime.now(UTC))
    copies = Target(bucket.child(f"copies/{kind}"), target.storage).open()
    for key, stored in memory_container(made.container).objects.items():
        copies.write(key, stored.data)
    return copies.root.child(made.manifest or made.folder).uri


@pytest.mark.timeout(300)
def test_an_inventory_of_a_real_bucket_is_a_listing(
    real_lakefs: RealLakeFS, lake_bucket: str, open_run: OpenRun, api: httpx.Client
) -> None:
    """Times in listings have milliseconds and times of look-ups whole seconds; both are those of one object."""
    client = client_of(real_lakefs.url, real_lakefs.access_key_id, real_lakefs.secret_access_key)
    history = RandomHistory(client, "inventory", f"{lake_bucket}/inventory", 7)
    history.write(150)
    User(api, "inventory").set_rules(9, main=14)
    time.sleep(2.1)
    context = open_run("inventory")
    listed = marked(context, run_mark(context, CLEAN).mark_id)
    assert listed
    bucket = Location.parse(lake_bucket)
    uris = [inventory_in_store(context, bucket, k) for k in ("s3-csv", "s3-orc", "plain")]
    for uri in uris:
        record = run_mark(context, replace(CLEAN, inventory=uri))
        assert marked(context, record.mark_id) == listed
        assert record.inventory["as_listed"] == len(listed)
    gone = sorted(listed)[0]
    context.store.delete_many([gone])
    record = run_gc(context, replace(CLEAN, inventory=uris[0]), SweepRequest())
    assert record.objects["vanished"] == 1
    assert record.objects["deleted"] == len(listed) - 1
