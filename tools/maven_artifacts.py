"""Single files from a Maven repository, by their coordinates and without what they depend on.

The repository is the machine's own choice, never ours: `MAVEN_REPOSITORY_URL`, else what `mvn` is set up for,
else the mirror in ~/.m2/settings.xml. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from installing import CannotInstallError, run

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Artifact:
    """A jar's coordinates."""

    group: str
    name: str
    version: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        tail = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{tail}.jar"

    @property
    def path(self) -> str:
        """Where every Maven repository keeps it."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file_name}"

    @property
    def coordinates(self) -> str:
        tail = f":jar:{self.classifier}" if self.classifier else ""
        return f"{self.group}:{self.name}:{self.version}{tail}"


def fetch_artifact(artifact: Artifact, folder: Path) -> Path:
    """Put the jar into a folder, by its own name, checked against the repository's digest."""
    folder.mkdir(parents=True, exist_ok=True)
    repository = os.environ.get("MAVEN_REPOSITORY_URL")
    if not repository:
        if maven := shutil.which("mvn"):
            _copy_with_maven(maven, artifact, folder)
            return folder / artifact.file_name
        repository = repository_in_settings(Path.home() / ".m2" / "settings.xml")
    if not repository:
        raise CannotInstallError(
            f"{artifact.coordinates} comes from a Maven repository, and none is set up. Put `mvn` on the PATH "
            "(Debian: maven), or set MAVEN_REPOSITORY_URL to a repository's address."
        )
    return download_artifact(repository, artifact, folder)


def _copy_with_maven(maven: str, artifact: Artifact, folder: Path) -> None:
    # A repository of its own, so that no second copy of a large jar stays behind.
    with tempfile.TemporaryDirectory(prefix="lakesweep-maven-", dir=folder) as scratch:
        words = [
            maven,
            "--batch-mode",
            "--quiet",
            "-Dstyle.color=never",
            f"-Dmaven.repo.local={scratch}",
            _PLUGIN,
        ]
        target = [f"-Dartifact={artifact.coordinates}", f"-DoutputDirectory={folder}"]
        run([*words, *target], cwd=Path(scratch))


def repository_in_settings(settings: Path) -> str | None:
    """The address of the first mirror that settings.xml names, if there is one."""
    try:
        root = ET.parse(settings).getroot()
    except (OSError, ET.ParseError):
        return None
    for element in root.iter():
        if element.tag.rpartition("}")[2] == "mirror":
            for field in element:
                if field.tag.rpartition("}")[2] == "url" and field.text:
                    return field.text.strip()
    return None


def download_artifact(repository: str, artifact: Artifact, folder: Path) -> Path:
    """Plain download, for a machine without `mvn`."""
    address = f"{repository.rstrip('/')}/{artifact.path}"
    target = folder / artifact.file_name
    digest = hashlib.sha1(usedforsecurity=False)  # the one digest that every repository has
    try:
        with urllib.request.urlopen(f"{address}.sha1", timeout=60) as reply:
            expected = reply.read().decode("ascii").split()[0].lower()
        with urllib.request.urlopen(address, timeout=60) as reply, target.open("wb") as out:
            while chunk := reply.read(_CHUNK_BYTES):
                digest.update(chunk)
                out.write(chunk)
    except (OSError, ValueError, IndexError) as error:
        raise CannotInstallError(f"{artifact.coordinates} could not be fetched: {error}") from error
    if digest.hexdigest() != expected:
        target.unlink()
        raise CannotInstallError(
            f"{artifact.coordinates} did not arrive as the repository has it. Run it again."
        )
    return target
