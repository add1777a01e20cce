"""The commands of nessie-gc, run as a script that called the jar runs them now: exit codes, lines, files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakesweep_testing.commands import Shell
from lakesweep_testing.nessie_scene import NessieScene

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def shell(
    scene: NessieScene,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    """A database with the tables in it, named by the environment, as a script's is."""
    for name in list(os.environ):
        is_ours = name.startswith(("LAKESWEEP_", "NESSIE_", "AWS_"))
        if is_ours and name != "LAKESWEEP_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("NESSIE_GC_JDBC_URL", f"sqlite:///{tmp_path}/live-sets.db")
    made = Shell(capsys)
    made.run("nessie", "create-sql-schema", "--jdbc")
    return made


def process(*words: str, **environment: str) -> str:
    """stdout of a command that runs as a process of its own, and ends well."""
    done = subprocess.run(
        [sys.executable, "-m", "lakesweep", "nessie", *words],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.search
@pytest.mark.usefixtures("spark")
def test_the_seeds_commands_one_after_another(
    scene: NessieScene, shell: Shell, tmp_path: Path
) -> None:
    """Mark, look, expire with deferred deletes, look again, delete, and delete again.

    The mark runs in Tokyo and the sweep in Los Angeles; the original then lists files that are too young.
    """
    for branch in ("dev", "rel-1"):
        scene.nessie.create_branch(branch)  # empty: a policy must name what exists
    orders = scene.table("orders")
    first = orders.append("a.parquet", "b.parquet")
    second = orders.remove("a.parquet")
    orphan = orders.iceberg.write_orphan("never-committed.parquet")
    dead = orders.live_files(first) - orders.live_files(second) | {orphan}
    heads, before = scene.nessie.heads(), scene.files()

    uri, id_file = ("-u", scene.nessie.uri), ("--jdbc", "-L", "id.txt")
    marked = process(
        *("mark-live", "--jdbc", *uri, "--cutoff", "main=1,dev=P10D", "--cutoff", "rel.*=NONE"),
        *("--write-live-set-id-to", "id.txt"),
        TZ="Asia/Tokyo",
    )
    live_set = (tmp_path / "id.txt").read_text()
    assert re.search(
        rf"^Finished Nessie-GC identify phase finished with status IDENTIFY_SUCCESS after PT[\d.]+S, "
        rf"live-content-set ID is {live_set}\.$",
        marked,
        re.M,
    )
    listed = shell.run("nessie", "list", "--jdbc").splitlines()
    assert listed[2].partition(" ")[0] == live_set
    contents = shell.run("nessie", "show", "--jdbc", "-l", live_set, "--with-content-references")
    assert second.metadata_location in contents
    assert first.metadata_location not in contents
    shell.run("nessie", "list-deferred", *id_file, status=2)
    shell.run("nessie", "deferred-deletes", *id_file, status=2)

    swept = process("expire", *id_file, "--defer-deletes", TZ="America/Los_Angeles")
    assert swept.splitlines()[-1].startswith(
        f"Nessie-GC sweep phase for live-content-set {live_set} finished with status EXPIRY_SUCCESS after PT"
    )
    assert f"deleted {len(dead)} files, 0 files could not be deleted." in swept
    assert "nothing was deleted" in swept
    assert scene.files() == before

    recorded = shell.json("nessie", "list-deferred", *id_file)["deferred_deletes"]
    assert {file["uri"] for file in recorded} == dead
    shown = shell.run("nessie", "show", *id_file, "-D", "-B")
    assert shown.count("End of listing.") == 2
    assert f"    Base location: {scene.uri('orders')}" in shown

    deleted = shell.run("nessie", "deferred-deletes", *id_file, *uri)
    assert deleted.splitlines()[-1] == (
        f"Deferred deletion finished: {len(dead)} files deleted, 0 delete failures."
    )
    assert before - scene.files() == dead
    again = shell.run("nessie", "deferred-deletes", *id_file)
    assert "0 files deleted, 0 delete failures." in again
    assert re.search(rf"already gone +{len(dead)} ", again)

    shell.run("nessie", "sweep", *id_file, status=2)
    shell.run("nessie", "delete", *id_file)
    assert len(shell.run("nessie", "list", "--jdbc").splitlines()) == 2
    assert scene.nessie.heads() == heads
    assert scene.files() == before - dead


@pytest.mark.search
def test_gc_in_memory_prints_its_record_and_nothing_else(
    scene: NessieScene, shell: Shell, tmp_path: Path
) -> None:
    """One process, no database; our own files go with it."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orphan = orders.iceberg.write_orphan("never-committed.parquet")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = ["gc", "--inmemory", "-u", scene.nessie.uri, "--output", "json", "--master", "local[2]"]
    record = json.loads(process(*words, TMPDIR=str(temporary)))
    assert record["status"] == "swept"
    assert record["objects"]["deleted"] == 1
    assert orphan not in scene.files()
    assert orders.live_files() <= scene.files()
    assert not list(temporary.glob("lakesweep-nessie-*"))
    assert not (tmp_path / "state").exists()


@pytest.mark.search
@pytest.mark.usefixtures("spark")
def test_a_missing_manifest_exits_4_and_giving_up_goes_on(scene: NessieScene, shell: Shell) -> None:
    """Nothing is deleted, the file is named, the set says why; without the content the others are swept."""
    broken, sound = scene.table("broken"), scene.table("sound")
    state = broken.append("a.parquet")
    sound.append("b.parquet")
    lost = state.manifests[0].path
    orphans = {t.iceberg.write_orphan("never-committed.parquet") for t in (broken, sound)}
    Path(lost.removeprefix("file://")).unlink()
    before = scene.files()

    words = ["-u", scene.nessie.uri, "--write-live-set-id-to", "id.txt"]
    shell.run("nessie", "mark-live", "--jdbc", *words)
    record = shell.json("nessie", "expire", "--jdbc", "-L", "id.txt", status=4)
    assert record["status"] == "refused"
    assert lost in record["reason"]
    assert record["kind"] == "unreadable"
    assert "EXPIRY_FAILED" in shell.run("nessie", "list", "--jdbc")
    assert scene.files() == before
    given_up = ("--give-up", broken.content_id)
    shell.run("nessie", "expire", "--jdbc", "-L", "id.txt", *given_up)
    assert before - scene.files() == {orphan for orphan in orphans if "/sound/" in orphan}


@pytest.mark.usefixtures("spark")
def test_what_became_live_since_the_mark_is_kept(scene: NessieScene, shell: Shell) -> None:
    """A branch made on an old commit between mark and sweep; with --no-reverify the record says that nobody looked."""
    orders = scene.table("orders")
    first = orders.append("a.parquet")
    old_head = scene.nessie.head()
    second = orders.remove("a.parquet")
    dead = orders.live_files(first) - orders.live_files(second)
    words = ["-u", scene.nessie.uri, "-c", "1", "--write-live-set-id-to", "id.txt"]
    shell.run("nessie", "mark-live", "--jdbc", *words)
    scene.nessie.create_branch("rescue", hash=old_head)

    expire = ("nessie", "expire", "--jdbc", "-L", "id.txt")
    record = shell.json(*expire)
    assert record["objects"]["revived"] == len(dead)
    assert record["objects"]["deleted"] == 0
    assert dead <= scene.files()

    shell.run("nessie", "mark-live", "--jdbc", *words)
    blind = shell.json(*expire, "--no-reverify")
    assert [note for note in blind["notes"] if note.startswith("not re-verified")]
