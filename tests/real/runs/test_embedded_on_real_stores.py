"""The same history with the embedded lake on real stores: S3 (MinIO) and Azure (Azurite)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.backup_restore import run_backup, run_restore
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Engine
from lakesweep.lake.server import LakeServer
from lakesweep.lake.values import LakeSettings
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import assert_adds_up
from lakesweep_testing.servers import AzuriteServer, MinIOServer
from lakesweep_testing.user import User

pytestmark = pytest.mark.real

AT_ONCE = MarkRequest(min_age=timedelta(seconds=1), allow_lower_min_age=True)


def wait_until_old() -> None:
    """Ages are told in whole seconds by some stores; two are enough for a minimum age of one."""
    time.sleep(2.1)


@dataclass
class Place:
    """A kind of store: where repositories go, and how to get there and to the other stores."""

    root: str
    options: StorageOptions


@dataclass
class History:
    """A repository on some store, with live and dead objects."""

    user: User
    namespace: str
    live: set[str] = field(default_factory=set)
    garbage: set[str] = field(default_factory=set)
    old_commit: str = ""

    def write(self) -> None:
        user = self.user
        user.set_rules(5)
        self.live.add(self.upload("base"))
        for number in range(4):
            self.garbage.add(self.upload(f"expired-{number}"))
        self.old_commit = user.commit("main", days=40)
        for number in range(4):
            user.delete("main", f"expired-{number}")
        user.commit("main", days=30)
        for number in range(4):
            self.garbage.add(self.upload(f"orphan-{number}"))
        user.reset("main")
        self.live.add(self.upload("staged"))
        self.live.add(self.upload("renamed"))
        user.copy("main", "renamed", "after")
        user.delete("main", "renamed")
        wait_until_old()

    def upload(self, path: str) -> str:
        return self.user.upload("main", path).removeprefix(f"{self.namespace}/")


@pytest.fixture(scope="module", params=["minio", "azurite"])
def place(request: pytest.FixtureRequest, minio: MinIOServer, azurite: AzuriteServer) -> Place:
    options = StorageOptions(
        s3_access_key_id=minio.access_key_id,
        s3_secret_access_key=minio.secret_access_key,
        s3_endpoint=minio.url,
        s3_region=minio.region,
        azure_account_key=azurite.account_key,
    )
    name = f"embedded-{uuid.uuid4().hex[:8]}"
    make = minio.make_bucket if request.param == "minio" else azurite.make_container
    return Place(make(name), options)


OpenRun = Callable[..., RunContext]


@dataclass
class Lake:
    """An embedded lake whose repositories lie in the place."""

    place: Place
    api: httpx.Client
    client: LakeFSClient

    def history(self) -> History:
        name = f"repo-{uuid.uuid4().hex[:8]}"
        namespace = f"{self.place.root}/{name}"
        history = History(User.create(self.api, name, namespace), namespace)
        history.write()
        return history

    def open_run(self, history: History, engine: Engine | None = None) -> RunContext:
        name = history.user.repository
        return open_repository(self.client, name, self.place.options, engine or InProcessEngine())


@pytest.fixture(scope="module")
def lake(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    with ExitStack() as stack:
        settings = LakeSettings(
            folder,
            storage=place.options,
            allow_namespaces=(place.root,),
            allow_imports=(place.root,),
        )
        server = stack.enter_context(LakeServer(folder, settings=settings))
        auth = (server.access_key_id, server.secret_access_key)
        api = stack.enter_context(httpx.Client(base_url=server.endpoint, auth=auth, timeout=60))
        client = stack.enter_context(LakeFSClient(server.endpoint, *auth))
        yield Lake(place, api, client)


def keys(context: RunContext) -> set[str]:
    return {key for batch in context.store.list("data/") for key in batch.column("key").to_pylist()}


def test_collection_deletes_the_garbage_and_nothing_else(lake: Lake) -> None:
    """Mark, sweep, and again: the second run, built on the first, finds nothing."""
    history = lake.history()
    context = lake.open_run(history)
    assert keys(context) == history.live | history.garbage
    record = run_gc(context, AT_ONCE, SweepRequest())
    assert record.status is RunStatus.SWEPT
    assert record.objects["expired"] == record.objects["unreferenced"] == 4
    assert_adds_up(record)
    assert keys(context) == history.live
    assert history.user.status(history.old_commit, "expired-0") == 410
    for path in ("base", "staged", "after"):
        assert history.user.status("main", path) == 200
    again = run_gc(lake.open_run(history), AT_ONCE, SweepRequest())
    assert again.objects["garbage"] == 0
    clean = run_mark(
        lake.open_run(history),
        MarkRequest(flow=Flow.CLEAN, min_age=timedelta(seconds=1), allow_lower_min_age=True),
    )
    assert clean.objects["garbage"] == 0
    assert clean.objects["live"] == len(history.live)


def test_odd_keys_beside_the_data_stop_nothing(
    lake: Lake, minio: MinIOServer, azurite: AzuriteServer
) -> None:
    """They come out as they are, protected and named, and the garbage beside them is deleted."""
    history = lake.history()
    context = lake.open_run(history)
    root = context.store.root
    some = next(iter(history.live)).rpartition("/")[0]
    odd = {f"{some}/a\tb"}
    if root.kind == "azure":  # MinIO takes no empty segment and no dot for one
        odd |= {f"{some}//x", f"{some}/./x", "data//x", "top//x"}
    for key in odd:
        whole = f"{root.key}/{key}"
        if root.kind == "azure":
            azurite.put_blob(root.container, whole, b"1")
        else:
            minio.client().put_object(Bucket=root.container, Key=whole, Body=b"1")
    wait_until_old()
    record = run_gc(context, AT_ONCE, SweepRequest())
    assert record.status is RunStatus.SWEPT
    assert record.objects["deleted"] == len(history.garbage)
    named = {name for names in record.protected.values() for name in names}
    assert {key for key in odd if not key.startswith("top")} <= named
    assert keys(context) == history.live | {key for key in odd if key.startswith("data")}


@pytest.mark.parametrize("where", ["same store", "local files"])
def test_backup_and_restore_bring_everything_back(lake: Lake, where: str, tmp_path: Path) -> None:
    """Copy, sweep, read 410; restore, read 200: server-side within one store, streamed to another."""
    history = lake.history()
    root = lake.place.root if where == "same store" else tmp_path.as_uri()
    outside = Target(
        Location.parse(f"{root}/backups/{history.user.repository}"), lake.place.options
    )
    marked = run_mark(lake.open_run(history), AT_ONCE)
    saved = run_backup(lake.open_run(history), marked.mark_id, outside)
    assert saved.objects["copied"] == len(history.garbage)
    swept = run_sweep(
        lake.open_run(history), marked.mark_id, SweepRequest(allow_lower_min_age=True)
    )
    assert swept.objects["deleted"] + swept.objects["already_gone"] == len(history.garbage)
    assert history.user.status(history.old_commit, "expired-1") == 410
    restored = run_restore(lake.open_run(history), marked.mark_id, outside)
    assert restored.objects["copied"] == len(history.garbage)
    assert history.user.status(history.old_commit, "expired-1") == 200
    assert keys(lake.open_run(history)) == history.live | history.garbage


def test_backup_on_the_way_and_resume(lake: Lake) -> None:
    """`--backup-to` within the store; resuming a finished run does nothing and says so."""
    history = lake.history()
    to = Location.parse(f"{lake.place.root}/on-the-way/{history.user.repository}")
    request = SweepRequest(backup_to=to, backup_storage=lake.place.options)
    record = run_gc(lake.open_run(history), AT_ONCE, request)
    assert record.status is RunStatus.SWEPT
    assert_adds_up(record)
    store = Target(to, lake.place.options).open()
    copies = {key for batch in store.list("") for key in batch.column("key").to_pylist()}
    assert copies == history.garbage
    again = run_resume(lake.open_run(history), record.run_id, SweepRequest())
    assert any("swept to its end" in note for note in again.notes)
