"""Online hard delete as users meet it: the switch, the refusal, what is told of a delete, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from lakesweep.domain.explanations import Said
from lakesweep.lake.values import LakeSettings
from lakesweep_testing.commands import Shell, lake_environment
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.user import RefusedError, User


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLake]:
    folder = tmp_path_factory.mktemp("lake")
    with EmbeddedLake(folder, LakeSettings(folder, undo_window=timedelta(hours=1))) as lake:
        yield lake


@pytest.fixture
def user(lake: EmbeddedLake, request: pytest.FixtureRequest) -> User:
    return lake.new_user(f"r{abs(hash(request.node.name)) % 10**9}")


@pytest.fixture
def shell(
    lake: EmbeddedLake,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Shell:
    monkeypatch.setenv("LAKECTL_CONFIG_FILE", str(tmp_path / "none.yaml"))
    for name, value in lake_environment(lake.server).items():
        monkeypatch.setenv(name, value)
    return Shell(capsys)


def _review(lake: EmbeddedLake) -> None:
    lake.clock.advance(timedelta(minutes=5))
    lake.server.lake.reviewer.run()


def test_the_way_of_an_object_from_its_drop_to_its_return(
    lake: EmbeddedLake, user: User, shell: Shell
) -> None:
    """Switched on for one repository; deleted, explained, counted and brought back."""
    name = user.repository
    assert "off, by the server's" in shell.run("hard-delete", "show", name)
    assert "on, by the repository's" in shell.run("hard-delete", "set", name, "on")
    address = user.upload("main", "a", "first")
    user.upload("main", "a", "second")
    _review(lake)
    assert not lake.file_of(address).exists()
    relative = address.split("/", 3)[3]
    [told] = lake.explain(name, relative).objects
    assert told.said is Said.DELETED
    assert "dropped from 'a' on main" in told.why
    assert "undo" in told.why
    shown = shell.json("hard-delete", "show", name)
    assert [one["address"] for one in shown["can_be_undone"]] == [relative]
    shell.run("hard-delete", "undo", name, relative, status=3)
    assert "exists on branch" in shell.err
    shell.run("hard-delete", "undo", name, relative, "--path", "back")
    assert user.address("main", "back") != address
    assert user.status("main", "back") == 200
    metrics = httpx.get(
        f"{lake.server.url}/metrics",
        auth=(lake.server.access_key_id, lake.server.secret_access_key),
    ).text
    assert "lakesweep_lake_hard_deleted_objects_total 1\n" in metrics
    assert "lakesweep_lake_hard_deleted_bytes_total 5\n" in metrics
    assert 'lakesweep_lake_hard_delete_seconds_bucket{le="+Inf"} 1\n' in metrics
    assert "on, by the repository's" not in shell.run("hard-delete", "set", name, "default")


def test_who_would_revive_a_condemned_object_is_refused(
    lake: EmbeddedLake, user: User, s3_client: Callable[[Any], Any]
) -> None:
    """With 409 over REST, and with S3's own word for it in the gateway."""
    address = user.upload("main", "a", "x").split("/", 3)[3]
    server = lake.server.lake
    with server.reviewer._turn:  # or the next review would find the entry, and lift
        server.reviewer._condemn(server.repositories.get(user.repository), [address], lake.clock())
        with pytest.raises(
            RefusedError, match=r" 409 .*being deleted for good.*nothing was staged"
        ):
            user.copy("main", "a", "b")
        with pytest.raises(ClientError) as refused:
            s3_client(lake.server).copy_object(
                Bucket=user.repository, Key="main/b", CopySource=f"{user.repository}/main/a"
            )
        assert refused.value.response["Error"]["Code"] == "OperationAborted"
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 409


def test_a_fence_is_begun_put_up_and_lifted(lake: EmbeddedLake, user: User) -> None:
    """A batch that nobody began can't be put up, and one that was put up takes no more addresses."""
    path = f"/repositories/{user.repository}/gc/fences"
    until = {"until_micros": 4_000_000_000_000_000}
    api = lake.api
    assert api.put(f"{path}/batch-01", json=until).status_code == 404
    some = {"addresses": ["data/a/b"]}
    assert api.put(f"{path}/bad!/addresses", json=some).status_code == 400
    assert api.put(f"{path}/batch-01/addresses", json=some).status_code == 204
    assert api.put(f"{path}/batch-01", json=until).status_code == 204
    assert api.put(f"{path}/batch-01/addresses", json=some).status_code == 400
    assert api.delete(f"{path}/batch-01").status_code == 204
    assert api.delete(f"{path}/batch-01").status_code == 204
