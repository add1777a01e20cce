"""Backup of a real lakeFS repository from any store to any store, and revivals that only a real server allows."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.collector.lakefs.backup_restore import run_backup, run_restore
from lakesweep.collector.lakefs.collect import run_mark, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.storage import StorageOptions
from lakesweep_testing.scene import assert_adds_up
from lakesweep_testing.servers import AzuriteServer
from lakesweep_testing.user import User

pytestmark = pytest.mark.real

OpenRun = Callable[..., RunContext]
NewUser = Callable[[], User]
AT_ONCE = MarkRequest(min_age=timedelta(seconds=1), allow_lower_min_age=True)


@pytest.fixture(params=["local files", "azurite", "the same store"])
def outside(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    azurite: AzuriteServer,
    minio_options: StorageOptions,
    lake_bucket: str,
) -> Target:
    """Where backups go."""
    options = replace(minio_options, azure_account_key=azurite.account_key)
    name = f"backup-{uuid.uuid4().hex[:8]}"
    roots: dict[str, Callable[[], str]] = {
        "local files": lambda: f"{tmp_path.as_uri()}/{name}",
        "azurite": lambda: f"{azurite.make_container(name)}/deep/er",
        "the same store": lambda: f"{lake_bucket}/{name}",
    }
    return Target(Location.parse(roots[request.param]()), options)


def test_what_is_backed_up_is_restored_and_reads_again(
    new_user: NewUser, open_run: OpenRun, outside: Target
) -> None:
    """MinIO to any store and back: the same bytes under the same address, through the real server."""
    user = new_user()
    user.set_rules(5)
    contents = {f"file-{n}": (f"{n} " * (n * 1000 + 1)).encode() for n in range(5)}
    contents["empty"] = b""
    contents["large"] = bytes(range(256)) * 40_000  # ten megabytes: more than one part
    for path, data in contents.items():
        user.upload("main", path, data)
    old = user.commit("main", days=40)
    for path in contents:
        user.delete("main", path)
    user.upload("main", "stays")
    user.commit("main", days=30)
    time.sleep(2.1)
    marked = run_mark(open_run(user.repository), AT_ONCE)
    assert marked.objects["garbage"] == len(contents)
    saved = run_backup(open_run(user.repository), marked.mark_id, outside)
    assert saved.objects["copied"] == len(contents)
    swept = run_sweep(
        open_run(user.repository), marked.mark_id, SweepRequest(allow_lower_min_age=True)
    )
    assert swept.status is RunStatus.SWEPT
    assert_adds_up(swept)
    assert [user.status(old, path) for path in contents if path != "empty"] == [410] * 6
    again = run_backup(open_run(user.repository), marked.mark_id, outside)
    assert again.objects["already_gone"] == len(contents), (
        "nothing is left to copy, and no copy is touched"
    )
    restored = run_restore(open_run(user.repository), marked.mark_id, outside)
    assert restored.status is RunStatus.RESTORED
    for path, data in contents.items():
        answer = user.api.get(
            f"/repositories/{user.repository}/refs/{old}/objects", params={"path": path}
        )
        assert answer.status_code == 200
        assert answer.content == data


def test_upload_linked_between_mark_and_sweep_is_kept(new_user: NewUser, open_run: OpenRun) -> None:
    """A real server tells of no pending uploads: only the re-read at the sweep sees the link."""
    user = new_user()
    context = open_run(user.repository)
    address = user.issue_address("main", "linked")
    key = address.split(f"{user.repository}/", 1)[1]
    context.store.write(key, b"uploaded by the client")
    user.upload("main", "orphan")
    user.reset("main")
    time.sleep(2.1)
    marked = run_mark(context, AT_ONCE)
    assert marked.objects["garbage"] == 2
    user.link("main", "linked", address, 22, checksum="0" * 32)
    swept = run_sweep(
        open_run(user.repository), marked.mark_id, SweepRequest(allow_lower_min_age=True)
    )
    assert swept.revived == (key,)
    assert swept.objects["deleted"] == 1
    assert user.status("main", "linked") == 200


def test_tag_set_between_mark_and_sweep_keeps_when_tags_are_kept(
    new_user: NewUser, open_run: OpenRun
) -> None:
    """`--keep-tags` of the mark holds for its sweep, for tags that came later, too."""
    user = new_user()
    user.set_rules(5)
    user.upload("main", "old")
    old = user.commit("main", days=40)
    user.delete("main", "old")
    user.upload("main", "new")
    user.commit("main", days=30)
    time.sleep(2.1)
    marked = run_mark(open_run(user.repository), replace(AT_ONCE, keep_tags=True))
    assert marked.objects["garbage"] == 1
    user.tag("v1", old)
    swept = run_sweep(
        open_run(user.repository), marked.mark_id, SweepRequest(allow_lower_min_age=True)
    )
    assert swept.objects["revived"] == 1
    assert user.status("v1", "old") == 200


def test_reuploaded_and_full_addresses_of_a_real_server_are_live(
    new_user: NewUser, open_run: OpenRun
) -> None:
    """A real server stages addresses inside the namespace in every spelling, and reads them."""
    user = new_user()
    base = user.upload("main", "base", "twice")
    user.commit("main")
    other = user.upload("main", "other")
    bucket, key = other.removeprefix("s3://").split("/", 1)
    for number, spelled in enumerate((other, f"s3://{bucket}//{key}", f"s3a://{bucket}/{key}")):
        answer = user.api.put(
            f"/repositories/{user.repository}/branches/main/objects",
            params={"path": f"staged-{number}"},
            json={"physical_address": spelled, "checksum": "c", "size_bytes": 5},
        )
        assert answer.status_code in (201, 400), answer.text
    user.delete("main", "other")
    user.upload("main", "base", "twice")
    time.sleep(2.1)
    context = open_run(user.repository)
    record = run_mark(context, AT_ONCE)
    swept = run_sweep(
        open_run(user.repository), record.mark_id, SweepRequest(allow_lower_min_age=True)
    )
    left = {k for b in context.store.list("data/") for k in b.column("key").to_pylist()}
    assert other.split(f"{user.repository}/", 1)[1] in left
    assert base.split(f"{user.repository}/", 1)[1] in left
    assert swept.objects["failed"] == 0
    assert user.status("main", "base") == 200
    assert user.status("main", "staged-0") == 200
