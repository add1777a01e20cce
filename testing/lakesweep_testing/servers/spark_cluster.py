"""Spark's servers from pip's pyspark, which has no start scripts: a standalone master, its workers, a Connect server."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakesweep.java import find_java_home
from lakesweep_testing.real_parts import PartMissingError
from lakesweep_testing.servers.process import ServerProcess, free_port

__all__ = ["SparkConnect", "SparkMaster", "SparkWorker"]


class _SparkDaemon(ServerProcess):
    """A JVM of Spark's, on loopback."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is what it and its executors find in theirs, on top of what all daemons have."""
        super().__init__()
        self._environment = dict(environment or {})

    def prepare(self) -> None:
        self.web_port = free_port()

    def environment(self) -> Mapping[str, str]:
        return {
            "JAVA_HOME": str(find_java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            # Executors start their Python workers with this one, which has our packages.
            "PYSPARK_PYTHON": sys.executable,
            **self._environment,
        }


class SparkMaster(_SparkDaemon):
    """The cluster's master."""

    name = "spark-master"

    def command(self) -> Sequence[str | Path]:
        return [
            *(
                _program("spark-class"),
                "org.apache.spark.deploy.master.Master",
                "--host",
                "127.0.0.1",
            ),
            *("--port", str(self.port), "--webui-port", str(self.web_port)),
        ]

    def is_ready(self) -> bool:
        return self.state().get("status") == "ALIVE"

    @property
    def master_url(self) -> str:
        """What a driver is told."""
        return f"spark://127.0.0.1:{self.port}"

    def state(self) -> dict[str, Any]:
        """What the master says of its workers and applications; nothing while it does not answer."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.web_port}/json/", timeout=2) as reply:
                state: dict[str, Any] = json.load(reply)
                return state
        except (OSError, ValueError):
            return {}

    def alive_workers(self) -> set[int]:
        """The ports of the workers that the master counts on."""
        return {w["port"] for w in self.state().get("workers", []) if w["state"] == "ALIVE"}

    def start_command(
        self, *words: str, environment: Mapping[str, str], conf: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command of lakesweep on this cluster; it prints JSON. `environment` comes on top of this process's."""
        settings = {
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            **(conf or {}),
        }
        flags = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "lakesweep", *words),
                *("--master", self.master_url, *flags, "--output", "json"),
            ],
            env={**os.environ, **environment, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


class SparkWorker(_SparkDaemon):
    """A worker with one core, joined to a master."""

    name = "spark-worker"

    def __init__(self, master: SparkMaster, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(environment)
        self._master = master

    def environment(self) -> Mapping[str, str]:
        # A worker that is told to go (SIGPWR, as by a node that is taken away) lets its executors end in order.
        leave = {"SPARK_WORKER_OPTS": "-Dspark.decommission.enabled=true"}
        return {**leave, **super().environment()}

    def decommission(self) -> None:
        """Tell it that its node is about to go."""
        os.kill(self.pid, signal.SIGPWR)

    def command(self) -> Sequence[str | Path]:
        return [
            *(
                _program("spark-class"),
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                "127.0.0.1",
            ),
            *("--port", str(self.port), "--webui-port", str(self.web_port)),
            *("--cores", "1", "--memory", "1g", "--work-dir", self.folder / "work"),
            self._master.master_url,
        ]

    def is_ready(self) -> bool:
        return self.port in self._master.alive_workers()


class SparkConnect(_SparkDaemon):
    """A Connect server that runs what it is sent on two threads of its own."""

    name = "spark-connect"

    def environment(self) -> Mapping[str, str]:
        # To spark-submit it is a daemon, and yet the driver of all that it is sent.
        return {**super().environment(), "SPARK_DAEMON_MEMORY": "1g"}

    def command(self) -> Sequence[str | Path]:
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.ui.enabled": "false",
        }
        return [
            *(_program("spark-submit"), "--master", "local[2]"),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *(word for pair in conf.items() for word in ("--conf", "=".join(pair))),
            "spark-internal",
        ]

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2):
                return True
        except OSError:
            return False

    @property
    def remote_url(self) -> str:
        """What a client is told."""
        return f"sc://127.0.0.1:{self.port}"


def _program(name: str) -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise PartMissingError(
            "Spark is missing. Install the extra that brings it: pip install 'lakesweep[spark]' -c constraints.txt"
        )
    return Path(found.submodule_search_locations[0]) / "bin" / name
