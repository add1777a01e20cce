"""Several server processes on one PostgreSQL."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesweep.lake.kv.sql import open_sql_store
from lakesweep_testing.lakes import LakeRepo, SetClock
from lakesweep_testing.servers import PostgresServer

pytestmark = pytest.mark.real

# Each process uploads, copies, commits and links on the same branch, and prints what was acknowledged.
_WORKER = """
import json, sys
from datetime import UTC, datetime
from pathlib import Path
from lakesweep.lake.errors import InvalidAddressError, NoChangesError, PreconditionFailedError
from lakesweep.lake.kv.sql import open_sql_store
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import LakeSettings

url, folder, name, address, count = *sys.argv[1:5], int(sys.argv[5])
settings = LakeSettings(data_dir=Path(folder), slice_max_size=10, key_file=Path(sys.argv[6]))
lake = Lake(open_sql_store(url), settings, lambda: datetime.now(UTC))
repo = lake.writable("repo")
written, won, slices, commits, linked = {}, [], set(), 0, False
for n in range(count):
    path = f"{name}/{n:03d}"
    stats = lake.objects.upload(repo, "main", path, [path.encode()])
    slices.add(stats.physical_address.split("/data/")[1].split("/")[0])
    written[path] = path
    if n % 3 == 0:
        lake.copying.copy(repo, "main", path + "-copy", path)
        written[path + "-copy"] = path
    if n % 4 == 0:
        try:
            lake.objects.upload(repo, "main", f"race/{n}", [name.encode()], if_absent=True)
            won.append(f"race/{n}")
        except PreconditionFailedError:
            pass
    if n % 5 == 0:
        try:
            lake.committing.commit(repo, "main", name, committer=name)
            commits += 1
        except NoChangesError:
            pass
try:
    lake.linking.link(repo, "main", "linked", address, checksum=name, size_bytes=4)
    linked = True
except InvalidAddressError:
    pass
print(json.dumps({"written": written, "won": won, "slices": sorted(slices), "commits": commits, "linked": linked}))
lake.close()
"""


_numbers = itertools.count()


@pytest.fixture
def shared(postgres: PostgresServer, tmp_path: Path) -> Iterator[LakeRepo]:
    url = postgres.make_database(f"lake_{next(_numbers)}")
    kv = open_sql_store(url)
    repo = LakeRepo(
        kv=kv, clock=SetClock(datetime.now(UTC)), data_dir=tmp_path, namespace="local://ns"
    ).create()
    repo.url = url  # type: ignore[attr-defined]
    yield repo
    repo.lake.close()


def test_processes_lose_nothing_and_share_no_slice(shared: LakeRepo, tmp_path: Path) -> None:
    """Every acknowledged write is there; every race has one winner; each slice has one writer."""
    at = shared.lake.linking.issue(shared.lake.writable(shared.id), "main", "linked")
    shared.store.write(shared.relative(at.physical_address), b"1234")
    workers = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", _WORKER, shared.url, str(tmp_path)),  # type: ignore[attr-defined]
                *(f"p{number}", at.physical_address, "30", str(shared.settings.key_file)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    results = [json.loads(worker.communicate(timeout=110)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]

    contents = shared.contents()
    for result in results:
        for path, content in result["written"].items():
            assert contents.pop(path) == content.encode()
    winners = [path for result in results for path in result["won"]]
    assert len(winners) == len(set(winners))
    races = {path for path in contents if path.startswith("race/")}
    assert races == set(winners)
    slices = [name for result in results for name in result["slices"]]
    assert len(slices) == len(set(slices))
    assert sum(result["linked"] for result in results) == 1
    assert sum(result["commits"] for result in results) > 3
    live = set(shared.uncommitted()) | shared.committed()
    assert {shared.address(path) for path in shared.paths()} <= live


def test_two_processes_create_one_repository(shared: LakeRepo) -> None:
    """Of many that create overlapping namespaces at once, one is told that it did."""
    create = """
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from lakesweep.lake.errors import LakeError
from lakesweep.lake.kv.sql import open_sql_store
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import LakeSettings
lake = Lake(open_sql_store(sys.argv[1]), LakeSettings(data_dir=Path(sys.argv[2])), lambda: datetime.now(UTC))
made = []
for n in range(5):
    try:
        lake.repositories.create(f"{sys.argv[3]}-{n}", f"local://shared-{n}/" + "x/" * int(sys.argv[4]))
        made.append(n)
    except LakeError:
        pass
print(*made)
"""
    folder = str(shared.settings.data_dir)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", create, shared.url, folder, f"repo{n}", str(n)],  # type: ignore[attr-defined]
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(3)
    ]
    made = [number for worker in workers for number in worker.communicate(timeout=110)[0].split()]
    assert sorted(made) == ["0", "1", "2", "3", "4"]
