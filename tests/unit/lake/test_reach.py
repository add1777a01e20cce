"""The server goes with its credentials where its operator lets it, and nowhere that a user names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lakesweep.cli.main import app
from lakesweep.errors import ConfigError
from lakesweep.lake.addresses.reach import Reach
from lakesweep.lake.errors import ForbiddenError, LakeError
from lakesweep.lake.values import ImportSource
from lakesweep_testing.asgi import AsgiLake
from lakesweep_testing.lakes import LakeRepo

ACCOUNT = "https://account.blob.core.windows.net"
EMULATOR = "http://127.0.0.1:10000/devstore"
LISTED = ("s3://bucket", "s3://shared/team", "gs://Lake/x", f"{ACCOUNT}/lakes", f"{EMULATOR}/c")


def _reach(folder: Path, *listed: str) -> Reach:
    return Reach(folder, listed, listed)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/ns",
        "s3a://bucket/ns",
        "S3://bucket/ns",
        "s3://shared/team",
        "s3://shared/team/ns",
        "gs://Lake/x/y",
        f"{ACCOUNT}/lakes/ns",
        "https://ACCOUNT.Blob.core.windows.net/lakes/ns",
        "abfss://lakes@account.dfs.core.windows.net/ns",
        f"{EMULATOR}/c/ns",
        "local://name",
    ],
)
def test_listed_places_are_reached(tmp_path: Path, uri: str) -> None:
    """A prefix lets in itself and all below it, in any spelling that means the same place."""
    assert _reach(tmp_path, *LISTED).check_namespace(uri)
    if not uri.startswith("local:"):
        _reach(tmp_path, *LISTED).check_import(uri + "/key")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket-evil/ns",
        "s3://Bucket/ns",
        "s3://bucket/../other/ns",
        "s3://bucket/%2e%2e/other/ns",
        "s3://bucket/%252e%252e/other/ns",
        "s3://bucket\\..\\other/ns",
        "s3://bucket%2F..%2Fother/ns",
        "s3://other%2F../bucket/ns",
        "s3://other/../bucket/ns",
        "s3://user@bucket/ns",
        "s3://bucket@evil.example/ns",
        "s3://bucket:80/ns",
        "s3://bucket?x=/ns",
        "s3://bucket#/ns",
        "s3://shared/team-evil/ns",
        "s3://shared/team/../other",
        "s3://shared/TEAM/ns",
        "s3://shared",
        "gs://bucket/ns",
        "gs://lake/x",
        "https://other.blob.core.windows.net/lakes/ns",
        f"{ACCOUNT}/lakes-evil/ns",
        f"{ACCOUNT}@evil.example/lakes/ns",
        "https://user:word@account.blob.core.windows.net/lakes/ns",
        "https://account.blob.core.windows.net.evil.example/lakes/ns",
        "https://account.blob.core.windows.net:8443/lakes/ns",
        "http://account.blob.core.windows.net@evil.example:80/lakes/ns",
        "http://127.0.0.1:10001/devstore/c/ns",
        "http://localhost:10000/devstore/c/ns",
        "http://2130706433:10000/devstore/c/ns",
        "http://0x7f000001:10000/devstore/c/ns",
        "http://127.1:10000/devstore/c/ns",
        "http://[::1]:10000/devstore/c/ns",
        "http://169.254.169.254/latest/meta-data/iam",
        "http://169.254.169.254:80/latest/meta-data/iam",
        "http://10.0.0.1:80/a/b/c",
        "http://evil.example:80/a/b/c",
        "mem://x/ns",
        "file:///etc",
        "local:///etc",
        "local://../other",
        "local://name/../../other",
    ],
)
def test_everything_else_is_not(tmp_path: Path, uri: str) -> None:
    """Neighbours by name, other spellings of elsewhere, the metadata service, loopback and private addresses."""
    reach = _reach(tmp_path, *LISTED)
    with pytest.raises(LakeError):
        reach.check_namespace(uri)
    with pytest.raises(ForbiddenError):
        reach.check_import(uri)


def test_local_namespaces_lie_in_the_servers_folder_but_not_on_its_files(tmp_path: Path) -> None:
    """Not the folder itself, not a link out of it, nothing that the ref store needs."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "server.key").write_bytes(b"")
    os.symlink(tmp_path, data / "out")
    reach = _reach(data, f"file://{tmp_path}/second")
    for uri in (
        "local://refs.db",
        "local://refs.db-journal/x",
        "local://REFS.DB-wal",
        "local://server.key/x",
        "local://out/x",
        f"file://{data}",
        f"file://{tmp_path}/second-evil",
    ):
        with pytest.raises(ForbiddenError):
            reach.check_namespace(uri)
    assert reach.check_namespace("local://name/below")
    assert reach.check_namespace(f"file://{tmp_path}/second/ns")


def test_the_servers_own_folder_is_never_imported_from(tmp_path: Path) -> None:
    """Its ref store holds secrets; a prefix around the folder, or a link into it, does not open it."""
    data = tmp_path / "data"
    data.mkdir()
    os.symlink(data, tmp_path / "link")
    reach = _reach(data, f"file://{tmp_path}", "file:///")
    reach.check_import(f"file://{tmp_path}/else/file")
    for uri in (f"file://{data}/refs.db", f"local://{tmp_path}/link/refs.db", "local://refs.db"):
        with pytest.raises(ForbiddenError):
            reach.check_import(uri)


def test_a_prefix_that_is_not_plain_is_no_prefix(tmp_path: Path) -> None:
    """Said when the lake is opened, not when somebody is refused."""
    for prefix in ("s3://bucket/../x", "s3://a%2Fb", "bucket", "https://", "http://host/x", "s3:"):
        with pytest.raises(ConfigError):
            _reach(tmp_path, prefix)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[AsgiLake]:
    """A server with default settings, which may open no store at all."""

    def refuse(location: object, _options: object) -> None:
        raise AssertionError(f"{location} was opened")

    monkeypatch.setattr("lakesweep.lake.context.open_store", refuse)
    with AsgiLake(allow_namespaces=(), allow_imports=()) as lake:
        yield lake


@pytest.mark.parametrize(
    "namespace", ["http://evil.example:80/acct/c/ns", "s3://bucket/ns", "mem://m/ns", "gs://b/x"]
)
@pytest.mark.parametrize("bare", ["true", "false"])
def test_a_user_sends_the_servers_credentials_nowhere(
    closed: AsgiLake, namespace: str, bare: str
) -> None:
    """Creating a repository there is refused before anything is opened."""
    body = {"name": "repo", "storage_namespace": namespace}
    reply = closed.send("POST", f"/repositories?bare={bare}", json=body)
    assert reply.status_code == 403, reply.text
    assert "--allow-namespace" in reply.json()["message"]
    assert closed.send("GET", "/repositories").json()["results"] == []


def test_nothing_is_staged_imported_or_read_from_elsewhere() -> None:
    """Over every road that names an address, and for entries that are there already."""
    repo = LakeRepo(allow_imports=("s3://listed/x",)).create()
    stage = {"checksum": "c", "size_bytes": 1}
    repo.lake.linking.stage_outside(repo.record, "main", "ok", "s3://listed/x/key", **stage)
    with pytest.raises(ForbiddenError):
        repo.lake.linking.stage_outside(repo.record, "main", "p", "s3://listed/other", **stage)
    repo.commit()
    for kind in ("object", "common_prefix"):
        sources = [ImportSource(kind, "s3://listed/other", "p")]
        with pytest.raises(ForbiddenError):
            repo.lake.importing.start(repo.record, "main", sources, committer="me", message="m")
    later = LakeRepo(
        kv=repo.kv, clock=repo.clock, namespace=repo.namespace, allow_imports=("s3://listed/y",)
    )
    with pytest.raises(ForbiddenError):
        later.read("ok")
    with pytest.raises(ForbiddenError):
        later.lake.copying.copy(repo.record, "main", "q", "ok")


def test_a_namespace_that_is_no_longer_listed_is_not_opened() -> None:
    """The list counts at each start, not only when the repository was created."""
    repo = LakeRepo().create()
    repo.put("a")
    later = LakeRepo(kv=repo.kv, clock=repo.clock, namespace=repo.namespace, allow_namespaces=())
    with pytest.raises(ForbiddenError):
        later.read("a")


def test_serve_takes_the_lists_and_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What outlives the process can't refer to what does not."""
    # Without the refusal it would serve until somebody stops it.
    monkeypatch.setattr("lakesweep.lake.server.serve_lake", lambda *_, **__: None)
    words = [
        "serve",
        "--data",
        str(tmp_path / "lake"),
        "--port",
        "0",
        "--allow-namespace",
        "mem://x",
    ]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, ConfigError)
    assert not (tmp_path / "lake").exists()
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    names = {name for parameter in serve.params for name in parameter.opts}
    assert {"--allow-namespace", "--allow-import"} <= names
