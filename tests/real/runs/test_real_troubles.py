"""Real servers that stop in mid-run or whose disk is full, a network that delays, cuts and corrupts, and credentials that run out.

Each run ends right, or with a clear error and nothing live lost; when the trouble is over, the work is finished.
"""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.collect import run_gc, run_resume
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.paths import OWN
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import LakesweepError, UnexpectedError
from lakesweep.storage import StorageOptions
from lakesweep_testing.dying import FAILED
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.kill_search.collectors import go_on
from lakesweep_testing.killed_lake import KilledLake
from lakesweep_testing.servers import MinIOServer, PostgresServer, RealLakeFS
from lakesweep_testing.servers.process import ServerProcess
from lakesweep_testing.small_disk import SmallDisk
from lakesweep_testing.tcp_proxy import (
    SERVER_SPOILS,
    Spoil,
    TcpProxy,
    corrupted,
    cut,
    delayed,
    refused,
)
from lakesweep_testing.trouble import at_first, through_store
from lakesweep_testing.user import User

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

AT_ONCE = MarkRequest(min_age=timedelta(seconds=1), allow_lower_min_age=True, flow=Flow.CLEAN)
GARBAGE = 4


@dataclass
class Lake:
    """lakeFS with its refs in PostgreSQL and its data on MinIO, all its own, so that they may be stopped.

    PostgreSQL and MinIO have a small disk each, which may be filled.
    """

    minio: MinIOServer
    postgres: PostgresServer
    lakefs: RealLakeFS
    disks: dict[str, SmallDisk]
    stack: ExitStack
    bucket: str

    def __post_init__(self) -> None:
        self._auth = (self.lakefs.access_key_id, self.lakefs.secret_access_key)
        self.api = self.stack.enter_context(
            httpx.Client(base_url=self.lakefs.api_url, auth=self._auth, timeout=60)
        )
        self.client = self.client_at(self.lakefs.port)

    def client_at(self, port: int) -> LakeFSClient:
        """A client of lakeFS, or of a proxy before it."""
        url = f"http://127.0.0.1:{port}/api/v1"
        client = LakeFSClient(url, *self._auth, sleep=lambda s: time.sleep(min(s, 0.2)))
        return self.stack.enter_context(client)

    def make_users(self, count: int) -> None:
        """So many repositories with something live and something that is garbage, and old by now."""
        self._users = [self._user() for _ in range(count)]
        time.sleep(2.1)

    def new_user(self) -> User:
        """A user of one of those repositories."""
        return self._users.pop()

    def _user(self) -> User:
        name = f"repo-{uuid.uuid4().hex[:10]}"
        user = User.create(self.api, name, f"{self.bucket}/{name}")
        user.upload("main", "committed")
        user.commit("main")
        for number in range(GARBAGE):
            user.upload("main", f"gone-{number}")
            user.delete("main", f"gone-{number}")
        user.upload("main", "staged")
        return user

    def options(self, port: int | None = None) -> StorageOptions:
        minio = self.minio
        return StorageOptions(
            s3_access_key_id=minio.access_key_id,
            s3_secret_access_key=minio.secret_access_key,
            s3_endpoint=f"http://127.0.0.1:{port or minio.port}",
            s3_region=minio.region,
            first_pause_seconds=0.05,
            transient_retries=3,
            throttle_patience_seconds=2.0,
            connect_timeout_seconds=5.0,
            request_timeout_seconds=10.0,
        )

    def context(
        self, user: User, port: int | None = None, client: LakeFSClient | None = None
    ) -> RunContext:
        """A run, with a proxy before MinIO if its port is given, and by another client than our own."""
        return open_repository(
            client or self.client, user.repository, self.options(port), InProcessEngine()
        )


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with ExitStack() as stack:
        disks = {name: stack.enter_context(SmallDisk(128)) for name in FILLED}
        minio = stack.enter_context(MinIOServer(within=disks["minio"].folder))
        postgres = stack.enter_context(PostgresServer(within=disks["postgres"].folder))
        lakefs = stack.enter_context(RealLakeFS(minio, database=postgres))
        lake = Lake(minio, postgres, lakefs, disks, stack, minio.make_bucket("troubles"))
        each_moment = len(WHICH) + len(FILLED) + 1
        lake.make_users(each_moment * len(MOMENTS) + 1 + len(SPOILS) + len(SERVER_SPOILS))
        yield lake


def objects_left(context: RunContext) -> int:
    return len(list(context.store.keys("data/")))


def recorded_deletions(context: RunContext) -> set[str]:
    """Every address that the events of all runs name as deleted."""
    keys = [key for key in context.store.keys(f"{OWN}events/") if "-gone-" in key]
    tables = [pq.read_table(io.BytesIO(context.store.read(key))) for key in keys]
    return {address for table in tables for address in table["address"].to_pylist()}


def assert_live(user: User) -> None:
    assert user.status("main", "committed") == 200
    assert user.status("main", "staged") == 200


def collect(open_run: Callable[[], RunContext]) -> LakesweepError | None:
    """None when the run went through: then it did what it says."""
    try:
        record = run_gc(open_run(), AT_ONCE, SweepRequest())
    except UnexpectedError:
        raise
    except LakesweepError as error:
        return error
    assert record.status is RunStatus.SWEPT
    assert record.objects["deleted"] + record.objects["already_gone"] == GARBAGE
    return None


def assert_finished(lake: Lake, user: User) -> None:
    """With the trouble over, what was begun is resumed and the rest collected."""
    assert_live(user)
    context = lake.context(user)
    for key in list(context.store.keys("_lakefs/retention/gc/lakesweep/lease/")):
        context.store.delete_many([key])  # its owner could not give it back, and is this process
    for run in list_runs(context.store):
        if isinstance(run, RunRecord) and run.status is RunStatus.PARTLY_SWEPT:
            resumed = run_resume(context, run.run_id, SweepRequest(allow_lower_min_age=True))
            assert resumed.status is RunStatus.SWEPT
    run_gc(context, AT_ONCE, SweepRequest())
    assert objects_left(context) == 2
    assert_live(user)
    assert len(recorded_deletions(context)) == GARBAGE


WHICH = ("minio", "postgres", "lakefs")
MOMENTS = {"while it lists": ("list", "data/"), "before it deletes": ("delete", "data/")}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("which", WHICH)
def test_a_server_that_stops_in_mid_run_loses_nothing(lake: Lake, which: str, moment: str) -> None:
    """Killed without a word; the run ends while it is away, and after it is back the work is finished."""
    user = lake.new_user()
    server: ServerProcess = getattr(lake, which)
    context = through_store(lake.context(user), at_first(*MOMENTS[moment], server.kill))
    error = collect(lambda: context)
    server.start(port=server.port)
    if which == "minio":
        assert error is not None
        assert error.exit_status in (3, 5)
    wait_until_it_answers(lake)
    assert_finished(lake, user)


FILLED = ("minio", "postgres")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("which", FILLED)
def test_a_server_whose_disk_is_full_loses_nothing(lake: Lake, which: str, moment: str) -> None:
    """MinIO takes no write, PostgreSQL goes down. The run says so, or is done without; with room again it is finished."""
    disk, user = lake.disks[which], lake.new_user()
    disk.skip_if_not_mounted()

    def fill() -> None:
        disk.fill()
        if which == "postgres":
            lake.postgres.write_until_it_stops()

    context = through_store(lake.context(user), at_first(*MOMENTS[moment], fill))
    error = collect(lambda: context)
    disk.empty()
    if which == "postgres":
        lake.postgres.kill()
        lake.postgres.start(port=lake.postgres.port)
    is_begun = moment == "before it deletes"
    if which == "minio":
        assert error is not None
        assert "StorageFull" in error.message
        assert error.exit_status == (5 if is_begun else 3)
        assert is_begun or objects_left(lake.context(user)) == GARBAGE + 2
    elif error is not None:
        assert error.exit_status == (5 if is_begun else 3)
    wait_until_it_answers(lake)
    assert_finished(lake, user)


def wait_until_it_answers(lake: Lake) -> None:
    """A server whose database went away finds it again after a moment; MinIO looks now and then whether there is room."""
    for _ in range(100):
        with suppress(ClientError):
            lake.minio.client().put_object(Bucket="troubles", Key="room", Body=b"")
            if lake.api.get("/repositories").status_code == 200:
                return
        time.sleep(0.2)


def test_a_store_that_is_back_in_time_is_waited_for(lake: Lake) -> None:
    """A restart between two requests is nothing that a user hears of."""
    user = lake.new_user()
    wrap = at_first("list", "data/", lake.minio.restart)
    assert collect(lambda: through_store(lake.context(user), wrap)) is None
    assert_finished(lake, user)


SPOILS: dict[str, Callable[[], Spoil]] = {
    "delays": lambda: delayed(0.02),
    "cuts": lambda: cut(every=7),
    "corrupts metadata": lambda: corrupted("/_lakefs/"),
    "corrupts all lists": lambda: corrupted("list-type=2"),
    "lets credentials run out": lambda: refused("ExpiredToken", after=60),
    "refuses from the start": lambda: refused("InvalidAccessKeyId", after=0),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_network_that_spoils_answers_loses_nothing(lake: Lake, spoil: str) -> None:
    """Bytes that are late, missing or wrong end in the right result, or in a clear error."""
    user = lake.new_user()
    with TcpProxy(lake.minio.port, SPOILS[spoil]()) as proxy:
        error = collect(lambda: lake.context(user, proxy.port))
        if spoil == "delays":
            assert error is None
        else:
            assert proxy.spoiled
        if spoil.startswith(("corrupts", "refuses", "lets")):
            assert error is not None
            assert error.kind in ("storage-denied", "format", "storage", "storage-unreachable"), (
                error.kind
            )
    assert_finished(lake, user)


@pytest.mark.parametrize("spoil", SERVER_SPOILS)
def test_a_network_that_spoils_answers_of_lakefs_loses_nothing(lake: Lake, spoil: str) -> None:
    """What lakeFS says comes late, not at all, wrong, or is a refusal."""
    user = lake.new_user()
    with TcpProxy(lake.lakefs.port, SERVER_SPOILS[spoil]()) as proxy:
        client = lake.client_at(proxy.port)
        error = collect(lambda: lake.context(user, client=client))
        if spoil == "delays":
            assert error is None
        else:
            assert proxy.spoiled
        if spoil.startswith(("lets", "refuses")):
            assert error is not None
            assert (error.exit_status, error.kind) == (3, "catalog-denied")
        if error is not None:
            assert error.exit_status in (3, 4, 5)
    assert_finished(lake, user)


@pytest.mark.parametrize("moment", MOMENTS)
def test_temporary_keys_that_end_in_mid_run_lose_nothing(lake: Lake, moment: str) -> None:
    """MinIO itself takes the key no more; with a new one the work is finished."""
    user = lake.new_user()
    ends_at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=4)
    key = lake.minio.temporary_key(ends_at)
    temporary = replace(
        lake.options(),
        s3_access_key_id=key["AccessKeyId"],
        s3_secret_access_key=key["SecretAccessKey"],
        s3_session_token=key["SessionToken"],
    )

    def wait() -> None:
        while datetime.now(UTC) < ends_at + timedelta(seconds=1):
            time.sleep(0.1)

    plain = open_repository(lake.client, user.repository, temporary, InProcessEngine())
    context = through_store(plain, at_first(*MOMENTS[moment], wait))
    error = collect(lambda: context)
    assert error is not None
    assert "AccessDenied" in error.message
    assert objects_left(lake.context(user)) == GARBAGE + 2
    assert_finished(lake, user)


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    """Files of more than so many bytes can't be written: the run says so, and a later one finishes."""
    with ExitStack() as stack:
        lake = KilledLake(tmp_path, stack)
        for limit in (64, 700, 3000):
            lake.rewind()
            assert lake.collector.run({**lake.order("gc"), "file_limit": limit}).status == FAILED
            lake.assert_live()
            go_on(lake)
