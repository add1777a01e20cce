"""Every command on every page is run, on an embedded lake and a fake Nessie, in the order of its page.

Names of an example's servers and buckets are replaced by those of this stage. What is not run here is named with the reason.
No real server is needed; it stands beside the tutorial, as it takes long.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.cli.main import run
from lakesweep.lake.server import LakeServer
from lakesweep_testing.commands import Repository, lake_environment, new_repository
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_scene import NessieScene

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.real

# The tutorial starts a server: tests/real/commands/test_tutorial.py runs it as a script.
PAGES = sorted({ROOT / "README.md", *ROOT.glob("docs/**/*.md")} - {ROOT / "docs" / "tutorial.md"})
PAGES = [page for page in PAGES if "```sh\n" in page.read_text("utf-8")]

NOT_RUN = {  # how a command begins → who runs it
    "make ": "CI",
    "pip install": "the test of the wheel",
    ".venv/bin/lakesweep": "the set-up of a checkout; the same command is run without the folder",
    "spark-submit": "tests/real/commands/test_spark_submit.py",
    "PYSPARK_DRIVER_PYTHON=": "tests/real/runs/test_packed_environment.py",
    "python -m lakesweep.engine.rehearsal": "make setup",
    "systemctl": "a program of others; tests/unit/test_monitoring_examples.py reads the units",
    "OTEL_EXPORTER_OTLP_ENDPOINT=": "tests/unit/metrics, with a receiver",
    "lakesweep serve": "tests/e2e/lake/test_server_process.py",
    "lakesweep certify": "tests/unit/certify and tests/real/commands/test_real_certify.py",
    "lakesweep web": "tests/real/web, in a browser",
    "lakesweep keys": "tests/e2e/lake",
    "lakesweep lake": "tests/e2e/lake",
}
STATUSES = {  # commands that are meant to end otherwise on a small stage
    "--confirm": {0, 2},  # the plan has been swept by then
    "runs resume": {0, 2},
}


def commands_of(page: Path) -> list[str]:
    """The lines of a page's shell blocks, continued ones joined, comments away."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", page.read_text("utf-8"), re.M | re.S)
    joined = re.sub(r"(\\|\|)\n\s*", lambda m: " " if m[1] == "\\" else "| ", "".join(blocks))
    lines = (re.sub(r"\s+#.*", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@dataclass
class Stage:
    """A lake, a catalog and a folder, and what the names on the pages stand for."""

    folder: Path
    repository: Repository
    nessie: NessieScene
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    done: list[str] = field(default_factory=list)

    def words(self, line: str) -> list[str]:
        for pattern, text in (
            (r"s3://backups\S*", f"file://{self.folder}/backups"),
            (r"s3://gc-work\S*", f"file://{self.folder}/work"),
            (r"s3://inventories\S*", f"file://{self.folder}/inventory"),
            (
                r"jdbc:postgresql://\S+|sqlite:////tmp/live-sets.db",
                f"sqlite:///{self.folder}/sets.db",
            ),
            (r"https?://(nessie|localhost)\S+/api/v2", self.nessie.nessie.uri),
            (r"s3://lake/db/orders/data/a.parquet", self.nessie.uri("orders/data/kept.parquet")),
            (r"/var/lib/node_exporter/textfile", str(self.folder)),
            (r"\bshop\b", "example-repo"),
            (r"\bprices\.csv\b", "live"),
            (r"\bdata/[0-9a-v]{20}/[0-9a-v]{20}\b", self.repository.expired),
            (r"--(iceberg|jdbc-user|jdbc-password|remote|master) \S+", ""),
            (r"\bRUN_ID\b", self.last("run_id") if "RUN_ID" in line else ""),
            (r"0123456789abcdef", self.last("plan_id") if "--confirm" in line else ""),
        ):
            line = re.sub(pattern, text, line)
        return shlex.split(line)

    def last(self, name: str) -> str:
        assert run(["runs", "list", "example-repo", "--output", "json"]) == 0
        runs = json.loads(self.capsys.readouterr().out)["runs"]
        return next(r[name] for r in runs if r.get(name) and r["flow"] not in ("backup", "restore"))

    def prepare(self, line: str) -> None:
        """What the reader of the page has done before."""
        name = re.search(r"--mark(?:-id)? (may|second-look|trial)\b", line)
        made = f"mark example-repo --mark-id {name[1]}" if name else ""
        if name and "lakesweep mark" not in line and made not in self.done:
            self.run(f"lakesweep {made}")
        if "--inventory" in line:
            self._take_inventory()
        if "run_id=abc" in line:
            old = self.repository.folder / "_lakefs/retention/gc/addresses/run_id=abc"
            old.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"address": [self.repository.expired]}), old / "part-0.parquet")
        if "lakesweep nessie" in line and not any("create-sql" in d for d in [line, *self.done]):
            self.run(
                f"lakesweep nessie create-sql-schema --jdbc-url sqlite:///{self.folder}/sets.db"
            )

        marks = [d.split()[1] for d in self.done if d.startswith(("nessie mark", "nessie expire"))]
        if "nessie expire" in line and marks[-1:] == ["expire"]:  # a set is expired once
            self.run(
                f"lakesweep nessie mark-live --jdbc --uri {self.nessie.nessie.uri} --default-cutoff P30D "
                "--write-live-set-id-to live-set.txt"
            )

    def _take_inventory(self) -> None:
        """A list of the repository's files, as Parquet."""
        files = [path for path in self.repository.folder.rglob("*") if path.is_file()]
        times = [datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in files]
        (self.folder / "inventory").mkdir(exist_ok=True)
        rows = {
            "key": [str(path).lstrip("/") for path in files],
            "size": [path.stat().st_size for path in files],
            "last_modified": pa.array(times, pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(rows), self.folder / "inventory" / "list.parquet")

    def run(self, line: str) -> None:
        """Run one line of a page: a command, or what a shell would do itself."""
        if any(line.startswith(words) for words in NOT_RUN):
            return
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            if name == "NESSIE_GC_JDBC_URL":
                self.monkeypatch.setenv(name, self.words(value)[0])
            return
        before, _, command = line.rpartition("| ")
        self.prepare(command)
        words = self.words(command)
        assert words[0] == "lakesweep", f"{line}: neither run here nor named as run elsewhere"
        if before:
            self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_echoed(before))))
        status = run(words[1:])
        out, err = self.capsys.readouterr()
        allowed = next((ends for text, ends in STATUSES.items() if text in line), {0})
        assert status in allowed, f"{line}\nexited with {status}\n{out}\n{err}"
        self.done.append(" ".join(words[1:]))


def _echoed(line: str) -> bytes:
    words = shlex.split(line)
    assert words[0] == "echo", line
    return " ".join(words[1:]).encode()


@pytest.fixture
def stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Stage]:
    for name in list(os.environ):
        is_ours = name.startswith(
            ("LAKESWEEP_", "LAKECTL_", "NESSIE_", "AWS_", "AZURE_", "GOOGLE_")
        )
        if is_ours and name != "LAKESWEEP_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LAKECTL_CONFIG_FILE", str(tmp_path / "none.yaml"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lakesweep.cli.running.start_engine", lambda *_: InProcessEngine())
    monkeypatch.setattr("lakesweep.cli.doctor.start_engine", lambda *_: InProcessEngine())
    monkeypatch.setattr("lakesweep.cli.running.jvm_started", lambda _: contextlib.nullcontext())
    with (
        LakeServer(tmp_path / "lake") as server,
        NessieScene(tmp_path / "tables") as nessie,
        httpx.Client(
            base_url=server.endpoint,
            auth=(server.access_key_id, server.secret_access_key),
            timeout=60,
        ) as api,
    ):
        for name, value in lake_environment(server).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("NESSIE_GC_JDBC_URL", f"sqlite:///{tmp_path}/sets.db")
        orders = nessie.table("orders")
        orders.append("kept.parquet")
        nessie.nessie.create_branch("release-1")
        rules = {"default_retention_days": 21, "branches": []}
        for name in ("rules.json", "short.json", "long-main.json"):
            (tmp_path / name).write_text(json.dumps(rules), "utf-8")
        repository = new_repository(server, api, "example-repo")
        yield Stage(tmp_path, repository, nessie, monkeypatch, capsys)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_work(page: Path, stage: Stage) -> None:
    """In the order of the page, as its reader would type them."""
    for line in commands_of(page):
        stage.run(line)
    shutil.rmtree(stage.folder / "backups", ignore_errors=True)
