"""Tables written by Spark with Iceberg's and Nessie's own extensions, in an environment apart from ours."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakesweep_testing.real_parts import JAVA_17, SPARK_WRITER
from lakesweep_testing.servers.minio import MinIOServer
from lakesweep_testing.servers.process import ServerError, clean_environment

__all__ = ["SparkIcebergWriter"]

CATALOG = "nessie"

# Runs in the writer's own Python environment: one JVM for all statements, a line of JSON for each.
_PROGRAM = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever the JVM prints is talk
from pyspark.sql import SparkSession
builder = SparkSession.builder
for name, value in json.loads(sys.stdin.readline()).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

def answer(**fields):
    print(json.dumps(fields, default=str), file=answers, flush=True)

answer(rows=[])
for line in sys.stdin:
    try:
        found = spark.sql(json.loads(line)["sql"])
        answer(rows=[row.asDict(recursive=True) for row in found.collect()])
    except Exception as error:
        answer(error=f"{type(error).__name__}: {error}")
spark.stop()
"""

_START_SECONDS = 120.0


class SparkIcebergWriter:
    """Runs SQL on the catalog `nessie`; `warehouse` is a folder's URI, or an `s3://` one with its MinIO server.

    with SparkIcebergWriter(server.uri, folder.as_uri()) as spark:
        spark.sql("CREATE TABLE nessie.db.t (id INT) USING iceberg")
    """

    def __init__(
        self,
        nessie_uri: str,
        warehouse: str,
        s3: MinIOServer | None = None,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = _spark_settings(nessie_uri, warehouse, s3) | dict(settings or {})
        self._folder = Path()
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="lakesweep-spark-writer-"))
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def sql(self, *statements: str, timeout: float = 120.0) -> list[dict[str, Any]]:
        """Run statements one after the other; returns the last one's rows.

        Raises:
            ServerError: Spark refused one, or took longer than `timeout` seconds for it.
        """
        rows: list[dict[str, Any]] = []
        for statement in statements:
            self._send({"sql": statement})
            rows = self._receive(statement, timeout)
        return rows

    def close(self) -> None:
        """End Spark; it ends when its input does."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            try:
                process.stdin.close()
                process.wait(30)
            except (OSError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        SPARK_WRITER.file()
        java = JAVA_17.file()
        environment = {
            **clean_environment(self._folder),
            "PYTHONPATH": str(SPARK_WRITER.folder / "site"),
            "JAVA_HOME": str(java.parent.parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._folder),
        }
        environment.pop("SPARK_HOME", None)
        with (self._folder / "spark.log").open("ab") as log:
            self._process = subprocess.Popen(
                # -S: no package of our own environment, whose pyspark is another.
                [sys.executable, "-S", "-c", _PROGRAM],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        threading.Thread(target=_pump, args=(self._process, self._answers), daemon=True).start()
        self._send(self._settings)
        self._receive("its start", _START_SECONDS)

    def _send(self, message: Mapping[str, str]) -> None:
        if self._process is None or self._process.stdin is None:
            raise ServerError("the Spark writer is not running")
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _receive(self, what: str, timeout: float) -> list[dict[str, Any]]:
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise ServerError(f"Spark gave no answer to {what!r} in {timeout:.0f} s") from None
        if line is None:
            log = (self._folder / "spark.log").read_text("utf-8", "replace").splitlines()
            raise ServerError(f"Spark ended during {what!r}; it logged:\n" + "\n".join(log[-30:]))
        answer = json.loads(line)
        if "error" in answer:
            raise ServerError(f"Spark refused {what!r}: {answer['error']}")
        rows: list[dict[str, Any]] = answer["rows"]
        return rows


def _pump(process: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            answers.put(line)
    answers.put(None)


def _spark_settings(nessie_uri: str, warehouse: str, s3: MinIOServer | None) -> dict[str, str]:
    jars = [str(SPARK_WRITER.folder / file) for file in SPARK_WRITER.files if file.endswith(".jar")]
    catalog = f"spark.sql.catalog.{CATALOG}"
    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        # Quick to start, and small: statements here are short.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.extraClassPath": os.pathsep.join(jars),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "org.projectnessie.spark.extensions.NessieSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.catalog-impl": "org.apache.iceberg.nessie.NessieCatalog",
        f"{catalog}.uri": nessie_uri,
        f"{catalog}.client-api-version": "2",
        f"{catalog}.ref": "main",
        f"{catalog}.authentication.type": "NONE",
        f"{catalog}.warehouse": warehouse,
        # Others commit to the same tables.
        f"{catalog}.cache-enabled": "false",
    }
    if s3 is not None:
        settings |= {
            f"{catalog}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            f"{catalog}.s3.endpoint": s3.url,
            f"{catalog}.s3.path-style-access": "true",
            f"{catalog}.s3.access-key-id": s3.access_key_id,
            f"{catalog}.s3.secret-access-key": s3.secret_access_key,
            f"{catalog}.client.region": s3.region,
        }
    return settings
