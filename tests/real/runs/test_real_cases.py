"""The worked cases and the known hazards, on a real lakeFS server and MinIO."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_sweep
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.request import MarkRequest, What
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.servers import MinIOServer, RealLakeFS
from lakesweep_testing.user import User

pytestmark = pytest.mark.real

OpenRun = Callable[..., RunContext]
NewUser = Callable[[], User]
AT_ONCE = MarkRequest(min_age=timedelta(seconds=1), allow_lower_min_age=True)


def wait_until_old() -> None:
    time.sleep(2.1)


def test_the_worked_table_of_ten_files(new_user: NewUser, open_run: OpenRun) -> None:
    """Upstream's own table: what each of ten files meets, with and without a branch, is what happens."""
    user = new_user()
    user.set_rules(7, main=10, dev=7)
    user.upload("main", "file_1")
    user.upload("main", "file_2")
    user.commit("main", days=14)
    user.branch("dev", "main~1")
    user.branch("dev2", "main~1")
    for branch, files in (("dev", ("file_5", "file_6")), ("dev2", ("file_8", "file_9"))):
        for path in files:
            user.upload(branch, path)
        user.commit(branch, days=14)
    for branch, path, days in (
        ("main", "file_2", 12),
        ("main", "file_1", 8),
        ("dev", "file_5", 8),
        ("dev", "file_6", 4),
        ("dev2", "file_9", 8),
        ("dev2", "file_8", 6),
    ):
        user.delete(branch, path)
        user.commit(branch, days=days)
    user.upload("main", "file_3")
    user.upload("main", "file_4")
    user.delete("main", "file_4")
    user.upload("dev", "file_7")
    user.reset("dev")
    user.upload("dev2", "file_10")
    addresses = {
        f"file_{n}": user.address(ref, f"file_{n}")
        for n, ref in (
            (1, "main~1"),
            (2, "main~2"),
            (3, "main"),
            (5, "dev~2"),
            (6, "dev~1"),
            (8, "dev2~1"),
            (9, "dev2~2"),
            (10, "dev2"),
        )
    }
    user.drop_branch("dev2")
    wait_until_old()

    context = open_run(user.repository)
    record = run_gc(context, AT_ONCE, SweepRequest())
    assert record.objects["expired"] == 3
    assert record.objects["unreferenced"] == 3
    left = {k for b in context.store.list("data/") for k in b.column("key").to_pylist()}
    kept = {name for name, address in addresses.items() if address.split("/", 4)[4] in left}
    assert kept == {"file_1", "file_3", "file_6", "file_8"}
    assert user.status("dev~2", "file_5") == 410
    assert user.status("main~1", "file_1") == 200


def test_commit_that_the_servers_shortcut_drops_is_retained(
    new_user: NewUser, open_run: OpenRun
) -> None:
    """Hazard 6.6-11: whichever way the ids sort, the commit that was a head an hour ago keeps its objects."""
    for _ in range(3):
        user = new_user()
        user.set_rules(10)
        user.upload("main", "x", uuid.uuid4().hex)
        before = user.commit("main", days=40)
        user.delete("main", "x")
        user.commit("main", days=35)
        user.upload("main", "y")
        user.commit("main", days=30)
        user.branch("fix", before)
        user.delete("fix", "x")
        user.commit("fix", days=1 / 24)
        wait_until_old()
        run_gc(open_run(user.repository), AT_ONCE, SweepRequest())
        assert user.status(before, "x") == 200


def test_every_page_counts_though_the_last_is_empty(
    minio: MinIOServer, minio_options: StorageOptions, lake_bucket: str
) -> None:
    """Mistake 6.5-2 of the original: staged objects on an early page, a last page without rows, nothing lost."""
    settings = {"LAKEFS_UGC_PREPARE_INTERVAL": "20ms"}
    with RealLakeFS(minio, env=settings) as server:
        auth = (server.access_key_id, server.secret_access_key)
        with (
            httpx.Client(base_url=server.api_url, auth=auth, timeout=60) as api,
            LakeFSClient(server.api_url, *auth) as client,
        ):
            name = f"pages-{uuid.uuid4().hex[:8]}"
            user = User.create(api, name, f"{lake_bucket}/{name}")
            user.branch("a", "main")
            for number in range(6):
                user.upload("a", f"staged-{number}")
            for number in range(150):
                user.branch(f"b{number:03d}", "main")
            user.upload("main", "gone")
            user.delete("main", "gone")
            wait_until_old()
            context = open_repository(client, name, minio_options, InProcessEngine())
            record = run_gc(context, AT_ONCE, SweepRequest())
            assert record.objects["deleted"] == 1
            assert [user.status("a", f"staged-{n}") for n in range(6)] == [200] * 6


def test_staged_reupload_of_identical_content_is_kept(new_user: NewUser, open_run: OpenRun) -> None:
    """Hazard 6.6-1: the server lists no row for it, and the branch reads it all the same."""
    user = new_user()
    user.upload("main", "same", "identical content")
    user.commit("main")
    user.upload("main", "same", "identical content")
    user.upload("main", "orphan", "another content!!")
    user.delete("main", "orphan")
    wait_until_old()
    record = run_gc(open_run(user.repository), AT_ONCE, SweepRequest())
    assert record.objects["deleted"] == 1
    assert user.status("main", "same") == 200


def test_reuploads_in_a_crowd_of_one_size_are_found_by_pages(
    new_user: NewUser, open_run: OpenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of the branch's listing, staged entries in between, and names whose order depends on how they are encoded."""
    # It is not canaries who should find them.
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 2)
    user = new_user()
    letters = ("a", "z", "é", "\uff5e", "\U0001f600")
    paths = [f"{letter}/{number:03d} %2f+?" for letter in letters for number in range(12)]
    for path in paths:
        user.upload("main", path, "of one size")
    user.commit("main")
    user.branch("dev", "main")
    again = [("main", paths[0]), ("main", paths[-1]), ("dev", paths[30]), ("dev", paths[47])]
    for branch, path in again:
        user.upload(branch, path, "of one size")
    for letter in letters:
        user.upload("dev", f"{letter}/005 staged", "of one size")
    for number in range(5):
        user.upload("main", f"orphan-{number}", "of one size")
        user.delete("main", f"orphan-{number}")
    wait_until_old()
    context = open_run(user.repository)
    record = run_gc(context, AT_ONCE, SweepRequest())
    assert record.objects["deleted"] == 5
    assert [user.status(branch, path) for branch, path in again] == [200] * 4
    assert [user.status("dev", f"{letter}/005 staged") for letter in letters] == [200] * 5


@pytest.mark.parametrize("e_tag", ["0" * 32, "of-my-own"])
def test_reuploads_are_found_whatever_made_their_e_tags(
    new_user: NewUser, open_run: OpenRun, monkeypatch: pytest.MonkeyPatch, e_tag: str
) -> None:
    """A server hides a link that has the e_tag committed at its path, though its bytes have another MD5."""
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    user = new_user()
    context = open_run(user.repository)

    def link(path: str) -> None:
        address = user.issue_address("main", path)
        context.store.write(address.split(f"{user.repository}/", 1)[1], b"linked, by a client")
        user.link("main", path, address, 19, checksum=e_tag)

    link("zz/linked")
    user.upload("main", "zz/uploaded", "linked, by a client")
    user.commit("main")
    link("zz/linked")
    user.upload("main", "zz/uploaded", "linked, by a client")
    user.upload("main", "orphan", "of as many letters.")
    user.delete("main", "orphan")
    wait_until_old()
    record = run_gc(open_run(user.repository), AT_ONCE, SweepRequest())
    assert record.objects["deleted"] == 1
    assert user.status("main", "zz/linked") == 200
    assert user.status("main", "zz/uploaded") == 200


def test_without_rules_nothing_expires_and_uncommitted_garbage_goes(
    new_user: NewUser, open_run: OpenRun
) -> None:
    """Mistake 6.5-1: no rules means that every commit counts."""
    user = new_user()
    user.upload("main", "old")
    first = user.commit("main", days=400)
    user.delete("main", "old")
    user.commit("main", days=300)
    user.upload("main", "lost")
    user.reset("main")
    wait_until_old()
    record = run_gc(open_run(user.repository), AT_ONCE, SweepRequest())
    assert record.objects["deleted"] == record.objects["unreferenced"] == 1
    assert user.status(first, "old") == 200


def test_uncommitted_is_refused_on_a_real_server_with_local_files() -> None:
    """Hazard 6.6-8: there the server lists no linked objects, so they would look like garbage."""
    with RealLakeFS() as server:
        auth = (server.access_key_id, server.secret_access_key)
        with (
            httpx.Client(base_url=server.api_url, auth=auth, timeout=60) as api,
            LakeFSClient(server.api_url, *auth) as client,
        ):
            user = User.create(api, "local-repo", "local://local-repo")
            user.set_rules(5)
            user.upload("main", "a")
            first = user.commit("main", days=30)
            user.delete("main", "a")
            user.upload("main", "b")
            user.commit("main", days=20)
            context = open_repository(
                client,
                "local-repo",
                StorageOptions(),
                InProcessEngine(),
                namespace_root=str(server.namespace_root),
            )
            for what in (What.ALL, What.UNCOMMITTED):
                with pytest.raises(UnsafeToSweepError, match="linked objects"):
                    run_mark(context, MarkRequest(what))
            record = run_gc(
                context,
                MarkRequest(What.COMMITTED, min_age=timedelta(0), allow_lower_min_age=True),
                SweepRequest(),
            )
            assert record.objects["deleted"] == 1
            assert user.status(first, "a") == 410
            assert user.status("main", "b") == 200


REVIVALS: dict[str, Callable[[User, str], None]] = {
    "revert": lambda u, old: u.revert("main", "main"),
    "branch from an old commit": lambda u, old: u.branch("old", old),
    "longer retention": lambda u, old: u.set_rules(365),
    "new branch with a longer rule": lambda u, old: (
        u.set_rules(5, longer=365),
        u.branch("longer", "main"),
    )[0],
    "cherry-pick": lambda u, old: u.cherry_pick("side", old),
    "merge": lambda u, old: (u.branch("from-old", old), u.merge("from-old", "side"))[0],
}


@pytest.mark.parametrize("how", list(REVIVALS))
def test_what_came_back_to_life_between_mark_and_sweep_is_kept(
    how: str, new_user: NewUser, open_run: OpenRun
) -> None:
    """Marks are hints: mark, revive, sweep, and the object still reads."""
    user = new_user()
    user.set_rules(5)
    user.upload("main", "base")
    user.commit("main", days=41)
    user.branch("side", "main")
    address = user.upload("main", "back", "comes back")
    old = user.commit("main", days=40)
    user.delete("main", "back")
    user.commit("main", days=30)
    user.upload("main", "unrelated")
    user.reset("main")
    wait_until_old()
    record = run_mark(open_run(user.repository), AT_ONCE)
    assert record.objects["garbage"] == 2
    REVIVALS[how](user, old)
    swept = run_sweep(
        open_run(user.repository), record.mark_id, SweepRequest(allow_lower_min_age=True)
    )
    assert swept.status is RunStatus.SWEPT
    assert swept.objects["revived"] == 1
    assert [address.endswith(name) for name in swept.revived] == [True]
    assert user.status(old, "back") == 200
