"""The scenario on the embedded lake: its refs and staged entries are loaded straight into the ref store.

The objects and the history's files lie on the loopback S3 server as ever; the lake is reached at a port of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import numpy as np

from lake_files import branch_name, path_of
from lake_objects import ENTRIES_PER_RANGE, Indexes
from lakesweep.domain.commits import BranchId
from lakesweep.domain.rules import RetentionRules
from lakesweep.formats.entries import Entry
from lakesweep.lake.context import LakeContext
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.lake import Lake
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.server import LakeServer, open_lake
from lakesweep.lake.staging.staged_values import encode_staged
from lakesweep.lake.values import LakeSettings
from lakesweep.storage import StorageOptions
from loopback_http import Trouble
from scenario import NAMESPACE, REPOSITORY, LakeState, Scenario
from scenario_server import (
    ACCESS_KEY_ID,
    SECRET_ACCESS_KEY,
    ScenarioServer,
    serve,
    staged_path,
)


@contextmanager
def serve_embedded(
    scenario: Scenario, folder: Path, trouble: Trouble | None = None
) -> Iterator[ScenarioServer]:
    """The first state on an embedded lake whose ref store is in `folder`; there is no way back to it."""
    with serve(scenario, trouble) as server:
        storage = StorageOptions(
            s3_endpoint=server.url,
            s3_access_key_id=ACCESS_KEY_ID,
            s3_secret_access_key=SECRET_ACCESS_KEY,
            s3_region="us-east-1",
        )
        settings = LakeSettings(folder, storage=storage, allow_namespaces=(NAMESPACE,))
        lake = open_lake(settings)
        try:
            _load(lake, server)
        finally:
            lake.close()
        with LakeServer(folder, settings=settings) as embedded:
            server.lake_environment = {
                "LAKECTL_SERVER_ENDPOINT_URL": embedded.url,
                "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": embedded.access_key_id,
                "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": embedded.secret_access_key,
            }
            yield server


def _load(lake: Lake, server: ScenarioServer) -> None:
    state, scenario = server.state, server.scenario
    repository = lake.repositories.create(REPOSITORY, NAMESPACE, is_bare=True)
    lake.dumping.restore(repository, server.write_dump())
    rules = state.rules()
    days = {BranchId(r["branch_id"]): r["retention_days"] for r in rules["branches"]}
    lake.rules.set(repository, RetentionRules(rules["default_retention_days"], days))
    for branch in state.history.heads:
        head = lake.branches.head(repository, branch_name(branch))
        rows = [*_committed_again(scenario, state, branch), *_staged(scenario, state, branch)]
        lake.kv.set_many(head.staging_token, rows)
    copies = TrackedCopies(LakeContext(lake.kv, lake.settings, lake.now))
    copies.track(repository, list(_values(scenario, state.tracked)))


def _staged(scenario: Scenario, state: LakeState, branch: int) -> Iterator[Row]:
    ranks = state.staged.get(branch, np.empty(0, np.int64))
    paths = (staged_path(rank).encode() for rank in ranks.tolist())
    return zip(paths, _values(scenario, ranks), strict=True)


def _committed_again(scenario: Scenario, state: LakeState, branch: int) -> Iterator[Row]:
    """Re-uploads, which this server lists."""
    objects, ranks = scenario.objects, scenario.reuploads(state)
    for original, row in zip(
        objects.originals(ranks).tolist(), _values(scenario, ranks), strict=True
    ):
        slot, place = divmod(original, ENTRIES_PER_RANGE)
        if state.history.owner(slot) == branch:
            yield path_of(slot, place).encode(), row


def _values(scenario: Scenario, ranks: Indexes) -> Iterator[bytes]:
    objects, written = scenario.objects, scenario.now - timedelta(days=3)
    for rank, size in zip(ranks.tolist(), objects.sizes(ranks).tolist(), strict=True):
        yield encode_staged(Entry(objects.address(rank), written, size, objects.checksum(rank)))
