"""Random histories on a real lakeFS: our mark is what an independent walk of every ref expects."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx
import pyarrow as pa
import pytest

from lakesweep.catalogs.lakefs.graph import read_commit_graph
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.lakefs.request import MarkRequest, What
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import MarkId
from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.tasks import Engine
from lakesweep.formats.tables import read_mark
from lakesweep_testing.histories import (
    RandomHistory,
    addresses_read_by,
    client_of,
    expected_garbage,
)
from lakesweep_testing.servers import RealLakeFS
from lakesweep_testing.user import User

pytestmark = [
    pytest.mark.real,
    # The official client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

OpenRun = Callable[..., RunContext]
AT_ONCE = MarkRequest(min_age=timedelta(seconds=1), allow_lower_min_age=True)
DEFAULT_DAYS, BRANCH_DAYS = 9, {"main": 14}


def marked_addresses(context: RunContext, mark_id: str) -> set[str]:
    folder = mark_folder(MarkId(mark_id))
    keys = [k for b in context.store.list(folder) for k in b.column("key").to_pylist()]
    tables = [read_mark(context.store.read(key)) for key in keys]
    return set(pa.concat_tables(tables).column("address").to_pylist())


def wait_until_old() -> None:
    """Ages are told in whole seconds by some stores; two are enough for a minimum age of one."""
    time.sleep(2.1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mark_equals_an_independent_walk_of_every_ref(
    seed: int,
    real_lakefs: RealLakeFS,
    lake_bucket: str,
    open_run: OpenRun,
    api: httpx.Client,
    request: pytest.FixtureRequest,
) -> None:
    """Mark, compare, sweep: the garbage is exactly what no ref reads, and all that refs read still reads."""
    name = f"history-{seed}"
    client = client_of(real_lakefs.url, real_lakefs.access_key_id, real_lakefs.secret_access_key)
    history = RandomHistory(client, name, f"{lake_bucket}/{name}", seed)
    history.write(150)
    User(api, name).set_rules(DEFAULT_DAYS, **BRANCH_DAYS)
    wait_until_old()
    engine: Engine | None = None
    if seed == 1:
        engine = SparkEngine(request.getfixturevalue("spark"))
    context = open_run(name, engine)
    refs = read_commit_graph(context.repository.client, context.store, name)
    commits = {
        commit_id: api.get(f"/repositories/{name}/commits/{commit_id}").json()
        for commit_id in refs.graph.columns.ids.astype(str).tolist()
    }
    wire = {cid: type("Commit", (), value) for cid, value in commits.items()}
    expected = expected_garbage(
        history.repo,
        f"{lake_bucket}/{name}",
        context.store,
        wire,
        DEFAULT_DAYS,
        BRANCH_DAYS,
        datetime.now(UTC),
    )
    assert expected, "a history without garbage proves nothing"

    record = run_mark(context, AT_ONCE)
    assert marked_addresses(context, record.mark_id) == expected
    swept = run_sweep(
        open_run(name, engine), record.mark_id, SweepRequest(allow_lower_min_age=True)
    )
    assert swept.status is RunStatus.SWEPT
    assert swept.objects["deleted"] == len(expected)

    for branch in history.repo.branches():
        for path in addresses_read_by(history.repo, branch.id, f"{lake_bucket}/{name}"):
            assert history.repo.ref(branch.id).object(path).reader().read() is not None
    again = run_gc(open_run(name, engine), AT_ONCE, SweepRequest())
    assert again.status is RunStatus.NOTHING_TO_DO
    for what in (What.COMMITTED, What.UNCOMMITTED):
        one = run_gc(
            open_run(name),
            MarkRequest(what, min_age=timedelta(seconds=1), allow_lower_min_age=True),
            SweepRequest(),
        )
        assert one.status is RunStatus.NOTHING_TO_DO
