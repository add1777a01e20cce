"""Keys of a lake that is being served: given, limited, rotated and revoked by the command, without a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lakesweep.errors import ConfigError
from lakesweep.lake.server import LakeServer
from lakesweep_testing.commands import Shell


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    with LakeServer(tmp_path_factory.mktemp("lake")) as server:
        with client(server, server.access_key_id, server.secret_access_key) as admin:
            for name in ("sales", "hr-data"):
                body = {"name": name, "storage_namespace": f"local://{name}"}
                admin.post("/repositories", json=body).raise_for_status()
                upload = f"/repositories/{name}/branches/main/objects?path=a"
                admin.post(upload, content=b"old").raise_for_status()
        yield server


@pytest.fixture
def keys(served: LakeServer, capsys: Any) -> Any:
    """Runs `lakesweep keys …` on the served lake and gives what it says as JSON."""
    shell = Shell(capsys)

    def run(*words: str, **how: Any) -> Any:
        data = str(served.lake.settings.data_dir)
        said = shell.run("keys", *words, "--data", data, "--output", "json", **how)
        return json.loads(said) if said else shell.err

    return run


def client(server: LakeServer, access_key_id: str, secret: str) -> httpx.Client:
    return httpx.Client(base_url=server.endpoint, auth=(access_key_id, secret))


def client_of(server: LakeServer, key: dict[str, str]) -> httpx.Client:
    return client(server, key["access_key_id"], key["secret_access_key"])


def s3_of(server: LakeServer, key: dict[str, str]) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=key["access_key_id"],
        aws_secret_access_key=key["secret_access_key"],
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
            proxies={},
        ),
    )


def test_a_commit_carries_the_name_of_the_key(served: LakeServer, keys: Any) -> None:
    """Whoever commits is its committer."""
    with client_of(served, keys("add", "ana")) as ana:
        assert ana.get("/user").json()["user"]["id"] == "ana"
        ana.post("/repositories/sales/branches/main/objects?path=b", content=b"x")
        made = ana.post("/repositories/sales/branches/main/commits", json={"message": "m"})
    assert made.json()["committer"] == "ana"


def test_limited_key_sees_and_reaches_its_repository_only(served: LakeServer, keys: Any) -> None:
    """Over REST and S3; a repository that it does not reach is refused like one that does not exist."""
    key = keys("add", "limited", "--repository", "sales")
    with client_of(served, key) as rest:
        assert [r["id"] for r in rest.get("/repositories").json()["results"]] == ["sales"]
        assert rest.get("/repositories/sales").status_code == 200
        refused = [rest.get(f"/repositories/{name}") for name in ("hr-data", "nowhere")]
        assert [reply.status_code for reply in refused] == [403, 403]
        body = {"name": "mine", "storage_namespace": "local://mine"}
        assert rest.post("/repositories", json=body).status_code == 403
    s3 = s3_of(served, key)
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["sales"]
    assert s3.get_object(Bucket="sales", Key="main/a")["Body"].read() == b"old"
    for refused_call, arguments in (
        (s3.get_object, {"Bucket": "hr-data", "Key": "main/a"}),
        (s3.put_object, {"Bucket": "hr-data", "Key": "main/a", "Body": b"new"}),
        (s3.copy_object, {"Bucket": "sales", "Key": "main/c", "CopySource": "hr-data/main/a"}),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            refused_call(**arguments)


def test_read_only_key_changes_nothing(served: LakeServer, keys: Any) -> None:
    """It reads what others wrote, and writes nothing, over REST and S3."""
    key = keys("add", "reader", "--read-only")
    with client_of(served, key) as rest:
        assert rest.get("/repositories/hr-data/refs/main/objects?path=a").content == b"old"
        upload = "/repositories/hr-data/branches/main/objects?path=a"
        assert rest.post(upload, content=b"new").status_code == 403
    s3 = s3_of(served, key)
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.put_object(Bucket="hr-data", Key="main/a", Body=b"new")
    assert s3.get_object(Bucket="hr-data", Key="main/a")["Body"].read() == b"old"


@pytest.mark.parametrize("command", ["revoke", "rotate"])
def test_key_ends_with_all_that_was_made_from_it(
    served: LakeServer, keys: Any, command: str
) -> None:
    """The next request with the key, its login token or a URL that it signed is refused."""
    key = keys("add", f"to-{command}")
    login = {name: key[name] for name in ("access_key_id", "secret_access_key")}
    token = httpx.post(f"{served.endpoint}/auth/login", json=login).json()["token"]
    signed = s3_of(served, key).generate_presigned_url(
        "get_object", Params={"Bucket": "sales", "Key": "main/a"}
    )

    def statuses() -> list[int]:
        bearer = {"Authorization": f"Bearer {token}"}
        with client_of(served, key) as rest:
            return [
                rest.get("/user").status_code,
                httpx.get(f"{served.endpoint}/user", headers=bearer).status_code,
                httpx.get(signed).status_code,
            ]

    assert statuses() == [200, 200, 200]
    changed = keys(command, f"to-{command}")
    assert statuses() == [401, 401, 403]
    if command == "rotate":
        with client_of(served, changed) as rest:
            assert rest.get("/user").json()["user"]["id"] == "to-rotate"


def test_list_shows_no_secret(served: LakeServer, keys: Any, capsys: Any) -> None:
    """Neither as JSON nor as a table."""
    secret = keys("add", "listed", "--read-only", "--repository", "sales")["secret_access_key"]
    (found,) = [key for key in keys("list") if key["name"] == "listed"]
    assert (found["read_only"], found["repositories"]) == (True, ["sales"])
    table = Shell(capsys).run("keys", "list", "--data", str(served.lake.settings.data_dir))
    assert secret not in table + json.dumps(keys("list"))
    (line,) = [line for line in table.splitlines() if line.startswith("listed")]
    assert line.split()[2:4] == ["read", "sales"]


def test_mistakes_are_told_in_words(keys: Any, capsys: Any, tmp_path: Path) -> None:
    """And nothing is made by them, least of all a new lake."""
    keys("add", "twice")
    assert "twice has a key already" in keys("add", "twice", status=3)
    assert "'nobody' has no key" in keys("revoke", "nobody", status=3)
    shell = Shell(capsys)
    shell.run("keys", "list", "--data", str(tmp_path / "typo"), status=2)
    assert "There is no lake in" in shell.err
    assert not (tmp_path / "typo").exists()


def test_other_keys_than_the_stored_ones_are_refused(tmp_path: Path) -> None:
    """A server that was given a key starts with that key or not at all; the refusal does not show the secret."""
    first = {"access_key_id": "AKIAFIRST", "secret_access_key": "first-secret"}
    with LakeServer(tmp_path, **first):
        pass
    for other in (
        {**first, "secret_access_key": "other-secret"},
        {"access_key_id": "AKIAOTHER", "secret_access_key": "other-secret"},
    ):
        with pytest.raises(ConfigError, match=other["access_key_id"]) as refused:
            LakeServer(tmp_path, **other)
        assert "other-secret" not in str(refused.value)
    with LakeServer(tmp_path, **first):
        pass


def test_lake_with_another_key_file_does_not_start(tmp_path: Path) -> None:
    """Rather than to refuse every user later."""
    first = {"access_key_id": "AKIAFIRST", "secret_access_key": "first-secret"}
    with LakeServer(tmp_path, **first):
        pass
    assert b"first-secret" not in (tmp_path / "refs.db").read_bytes()
    (tmp_path / "secrets.key").write_bytes(bytes(32))
    with pytest.raises(ConfigError, match="key file"):
        LakeServer(tmp_path, **first)
