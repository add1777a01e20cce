"""Jars come from the repository that the machine is set up for, whole or not at all."""

from __future__ import annotations

import hashlib
import importlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture
def maven(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("maven_artifacts")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A Maven repository's address, and the folder it serves."""
    folder = tmp_path / "repository"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    thread.join()
    server.server_close()


def put(folder: Path, artifact: object, data: bytes, digest: str | None = None) -> None:
    file = folder / artifact.path  # type: ignore[attr-defined]
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    told = digest or hashlib.sha1(data, usedforsecurity=False).hexdigest()
    file.with_name(f"{file.name}.sha1").write_text(told + "\n")


def test_coordinates_name_one_file(maven: ModuleType) -> None:
    """In the layout that every repository has."""
    artifact = maven.Artifact("org.a.b", "server", "1.2", "runner")
    assert artifact.path == "org/a/b/server/1.2/server-1.2-runner.jar"
    assert artifact.coordinates == "org.a.b:server:1.2:jar:runner"
    assert maven.Artifact("g", "n", "1").coordinates == "g:n:1"


def test_a_named_repository_is_asked(
    maven: ModuleType,
    repository: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MAVEN_REPOSITORY_URL goes before everything else."""
    address, folder = repository
    artifact = maven.Artifact("g", "n", "1")
    put(folder, artifact, b"jar" * 1000)
    monkeypatch.setenv("MAVEN_REPOSITORY_URL", address + "/")
    fetched = maven.fetch_artifact(artifact, tmp_path / "jars")
    assert fetched == tmp_path / "jars" / "n-1.jar"
    assert fetched.read_bytes() == b"jar" * 1000


def test_a_jar_that_changed_on_the_way_is_refused(
    maven: ModuleType, repository: tuple[str, Path], tmp_path: Path
) -> None:
    """And not left behind."""
    address, folder = repository
    artifact = maven.Artifact("g", "n", "1")
    put(folder, artifact, b"jar", digest="0" * 40)
    with pytest.raises(Exception, match="did not arrive"):
        maven.download_artifact(address, artifact, tmp_path)
    assert not (tmp_path / "n-1.jar").exists()


def test_a_jar_that_is_not_there_says_so(
    maven: ModuleType, repository: tuple[str, Path], tmp_path: Path
) -> None:
    """With its coordinates."""
    with pytest.raises(Exception, match="g:n:1 could not be fetched"):
        maven.download_artifact(repository[0], maven.Artifact("g", "n", "1"), tmp_path)


def test_settings_name_a_mirror(maven: ModuleType, tmp_path: Path) -> None:
    """Where there is no `mvn`, its settings may still say where to ask."""
    settings = tmp_path / "settings.xml"
    assert maven.repository_in_settings(settings) is None
    settings.write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors><mirror><id>m</id>'
        "<url> http://mirror.invalid/maven </url></mirror></mirrors></settings>"
    )
    assert maven.repository_in_settings(settings) == "http://mirror.invalid/maven"
    settings.write_text("<settings/>")
    assert maven.repository_in_settings(settings) is None


def test_no_repository_at_all_says_what_to_set(
    maven: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No address of ours stands in."""
    monkeypatch.delenv("MAVEN_REPOSITORY_URL", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Exception, match="MAVEN_REPOSITORY_URL"):
        maven.fetch_artifact(maven.Artifact("g", "n", "1"), tmp_path)
