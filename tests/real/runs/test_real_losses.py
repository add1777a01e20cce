"""Ways in which live or young data was lost on a real lakeFS server and MinIO, one test each."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.request import MarkRequest, What
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import StorageOptions
from lakesweep.storage.s3.client import s3_client
from lakesweep_testing.servers import MinIOServer
from lakesweep_testing.user import User

pytestmark = pytest.mark.real

OpenRun = Callable[..., RunContext]
NewUser = Callable[[], User]
AT_ONCE = MarkRequest(min_age=timedelta(seconds=1), allow_lower_min_age=True)


def wait_until_old() -> None:
    time.sleep(2.1)


def test_two_repositories_on_one_namespace_are_not_collected(
    api: httpx.Client, new_user: NewUser, open_run: OpenRun
) -> None:
    """The server makes a bare repository in a namespace that is in use; a mark made before it came is not swept either."""
    user = new_user()
    user.upload("main", "orphan")
    user.delete("main", "orphan")
    wait_until_old()
    marked = run_mark(open_run(user.repository), AT_ONCE)
    namespace = api.get(f"/repositories/{user.repository}").json()["storage_namespace"]
    other = f"bare-{uuid.uuid4().hex[:10]}"
    made = api.post(
        "/repositories",
        params={"bare": "true"},
        json={"name": other, "storage_namespace": namespace},
    )
    assert made.status_code == 201, made.text
    with pytest.raises(UnsafeToSweepError, match="shared with"):
        run_mark(open_run(user.repository), AT_ONCE)
    sweeping = SweepRequest(allow_lower_min_age=True)
    with pytest.raises(UnsafeToSweepError, match="shared with"):
        run_sweep(open_run(user.repository), marked.mark_id, sweeping)


def test_a_foreign_file_named_by_an_md5_stays(new_user: NewUser, open_run: OpenRun) -> None:
    """It lies at the root of the namespace, where old servers put data; no commit here holds such an address."""
    user = new_user()
    user.upload("main", "orphan")
    user.delete("main", "orphan")
    context = open_run(user.repository)
    foreign = uuid.uuid4().hex
    context.store.write(foreign, b"of another tool")
    wait_until_old()
    record = run_gc(context, AT_ONCE, SweepRequest())
    assert record.objects["deleted"] == 1
    assert context.store.read(foreign) == b"of another tool"
    assert any(foreign in names for names in record.protected.values())


def test_committed_data_of_today_stays(new_user: NewUser, open_run: OpenRun) -> None:
    """A commit may be dated back by months; what its objects' age is, the store says."""
    user = new_user()
    user.set_rules(1)
    user.upload("main", "x")
    first = user.commit("main", days=40)
    user.delete("main", "x")
    user.commit("main", days=30)
    record = run_gc(open_run(user.repository), MarkRequest(what=What.COMMITTED), SweepRequest())
    assert (record.objects["garbage"], record.objects["young"]) == (0, 1)
    assert user.status(first, "x") == 200


def test_a_versioned_bucket_frees_nothing(
    api: httpx.Client, minio: MinIOServer, minio_options: StorageOptions, open_run: OpenRun
) -> None:
    """Deleted objects stay as old versions there, and the record says so."""
    bucket = f"versioned-{uuid.uuid4().hex[:8]}"
    uri = minio.make_bucket(bucket)
    s3_client(bucket, minio_options).request(
        "PUT",
        "switching versioning on",
        query={"versioning": ""},
        body=b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    )
    user = User.create(api, bucket, f"{uri}/ns")
    user.upload("main", "orphan")
    user.delete("main", "orphan")
    wait_until_old()
    record = run_gc(open_run(bucket), AT_ONCE, SweepRequest())
    assert record.status is RunStatus.SWEPT
    assert (record.objects["deleted"], record.bytes["freed"]) == (1, 0)
    assert record.finality["kept"] == "kept"
