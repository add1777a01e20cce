"""What a user does in one afternoon, command by command, on real Spark; each step proves one promise."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakesweep
from lakesweep_testing.commands import Repository, Shell

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

MakeRepository = Callable[[str], Repository]


def test_mark_backup_sweep_restore(
    shell: Shell, make_repository: MakeRepository, tmp_path: Path
) -> None:
    """The long way: look first, keep a copy, delete, bring back."""
    repo = make_repository("afternoon")
    assert "has no runs yet" in shell.run("runs", "list", "afternoon")

    marked = shell.json("mark", "lakefs://afternoon", "us-east-1", "--mark-id", "m1")
    assert marked["status"] == "marked"
    assert marked["objects"]["garbage"] == 2
    assert (marked["objects"]["expired"], marked["objects"]["unreferenced"]) == (1, 1)
    files = list((repo.folder / "_lakefs/retention/gc/addresses/mark_id=m1").glob("*.parquet"))
    rows = pa.concat_tables([pq.read_table(file) for file in files])
    assert set(rows.column("address").to_pylist()) == {repo.expired, repo.unreferenced}
    assert rows.column_names[:4] == ["address", "size_bytes", "last_modified", "reason"]

    refused = shell.json("mark", "afternoon", "--mark-id", "m1", status=2)
    assert refused["status"] == "refused"
    assert "in use" in refused["reason"]

    dry = shell.json("sweep", "afternoon", "--mark-id", "m1", "--dry-run")
    assert dry["objects"]["garbage"] == 2
    assert repo.has(repo.expired)
    assert any("would be deleted" in note for note in dry["notes"])

    backup = f"file://{tmp_path}/backup"
    inside = f"file://{repo.folder}/backup"
    shell.run("backup", "afternoon", "--mark-id", "m1", "--to", inside, status=2)
    assert "Choose a location outside it" in shell.err
    saved = shell.json("backup", "afternoon", "--mark-id", "m1", "--to", backup)
    assert (saved["status"], saved["objects"]["copied"]) == ("backed-up", 2)
    assert (tmp_path / "backup" / repo.expired).exists()

    wrong = shell.json("sweep", "afternoon", "--mark-id", "m1", "--confirm", "nonsense", status=2)
    assert wrong["status"] == "refused"
    swept = shell.json("sweep", "afternoon", "--mark-id", "m1")
    assert (swept["status"], swept["objects"]["deleted"]) == ("swept", 2)
    assert not repo.has(repo.expired)
    assert repo.user.status(repo.first_commit, "expired") == 410
    assert repo.user.status("main", "live") == 200
    again = shell.run("sweep", "afternoon", "--mark-id", "m1")
    assert "swept already" in again

    one = ("--address", repo.expired)
    restored = shell.json("restore", "afternoon", "--mark-id", "m1", "--from", backup, *one)
    assert (restored["status"], restored["objects"]["copied"]) == ("restored", 1)
    assert repo.user.status(repo.first_commit, "expired") == 200
    assert not repo.has(repo.unreferenced)

    committed = shell.json("mark", "afternoon", "--what", "committed")
    assert (committed["objects"]["garbage"], committed["objects"]["young"]) == (0, 1)
    repo.make_old()
    later = shell.json("mark", "afternoon", "--what", "committed", "--mark-id", "m2")
    assert later["objects"]["garbage"] == 1, "a restored object is seen again once it is old"

    listed = shell.json("runs", "list", "afternoon")
    assert listed["schema"] == "lakesweep.runs/1"
    assert {run["flow"] for run in listed["runs"]} >= {"clean", "backup", "restore"}
    assert swept["run_id"] in shell.run("runs", "list", "afternoon")
    assert shell.json("runs", "show", "afternoon", swept["run_id"])["status"] == "swept"
    done = shell.json("runs", "resume", "afternoon", swept["run_id"])
    assert any("nothing was left to do" in note for note in done["notes"])
    shell.run("runs", "resume", "afternoon", saved["run_id"], status=2)
    assert "give the same backup command again" in shell.err
    resumed = shell.json("runs", "resume", "afternoon", later["run_id"])
    assert resumed["objects"]["deleted"] == 1
    shell.run("runs", "forget", "afternoon", later["run_id"])
    assert not list((repo.folder / "_lakefs/retention/gc/addresses/mark_id=m2").glob("*"))
    shell.run("runs", "show", "afternoon", later["run_id"], status=2)
    would = shell.json("runs", "prune", "afternoon", "--keep-runs", "1", "--dry-run")
    assert would["dry_run"] is True
    assert shell.json("runs", "prune", "afternoon", "--keep-runs", "1")["runs"] == would["runs"]
    left = {run["run_id"] for run in shell.json("runs", "list", "afternoon")["runs"]}
    assert left
    assert not left & set(would["runs"])
    assert "0 runs" in shell.run("runs", "prune", "afternoon", "--keep-runs", "1")


def test_gc_in_one_go_with_a_backup(
    shell: Shell, make_repository: MakeRepository, tmp_path: Path
) -> None:
    """The short way; a second run finds nothing."""
    repo = make_repository("one-go")
    text = shell.run(
        "gc", "one-go", "--backup-to", f"file://{tmp_path}/copies", "--mark-id", "tonight"
    )
    assert "swept to the end" in text
    assert (tmp_path / "copies" / repo.expired).exists()
    assert not repo.has(repo.expired)
    assert repo.has(repo.live)
    found = shell.json("gc", "one-go")
    assert found["status"] == "nothing-to-do"


def test_do_mark_and_do_sweep_as_in_the_seeds(
    shell: Shell, make_repository: MakeRepository
) -> None:
    """Properties split `gc` into its stages."""
    repo = make_repository("stages")
    gc = "spark.hadoop.lakefs.gc."
    marked = shell.json(
        "gc", "stages", "--conf", f"{gc}do_sweep=false", "--conf", f"{gc}mark_id=mine"
    )
    assert (marked["status"], marked["mark_id"]) == ("marked", "mine")
    assert repo.has(repo.expired)
    swept = shell.json(
        "gc", "stages", "--conf", f"{gc}do_mark=false", "--conf", f"{gc}mark_id=mine"
    )
    assert swept["status"] == "swept"
    assert not repo.has(repo.expired)


def test_an_older_clients_mark_is_swept_by_its_path(
    shell: Shell, make_repository: MakeRepository
) -> None:
    """Every row is judged anew: what lives, lies elsewhere or is young stays, whatever the file says."""
    repo = make_repository("older")
    young = repo.user.upload("main", "young", "a").removeprefix("local://older/")
    repo.user.upload("main", "young", "b")
    folder = repo.folder / "_lakefs/retention/gc/addresses/run_id=abc"
    folder.mkdir(parents=True)
    named = [repo.expired, repo.live, young, "_lakefs/dummy", "../elsewhere"]
    pq.write_table(pa.table({"address": named}), folder / "part-0.snappy.parquet")

    path = "_lakefs/retention/gc/addresses/run_id=abc/"
    swept = shell.json("sweep", "older", "--mark-id", path)
    assert swept["flow"] == "adopted"
    assert swept["objects"]["deleted"] == 1
    assert swept["revived"] == [repo.live]
    assert not repo.has(repo.expired)
    assert repo.has(repo.live)
    assert repo.has(young)
    assert (repo.folder / "_lakefs/dummy").exists()
    again = shell.json("sweep", "older", "--mark-id", f"file://{repo.folder}/{path}")
    assert any("swept already" in note for note in again["notes"])


def test_a_young_repository_is_left_alone(shell: Shell, make_repository: MakeRepository) -> None:
    """A lower minimum age needs the repository's name."""
    repo = make_repository("young")
    for file in (repo.folder / "data").rglob("*"):
        file.touch()
    assert shell.json("gc", "young")["objects"]["young"] == 2
    low = ("--min-age", "0s")
    shell.run("gc", "young", *low, status=2)
    shell.run("gc", "young", *low, "--unsafe-min-age", "younger", status=2)
    unsafe = ("--unsafe-min-age", "young")
    marked = shell.json("mark", "young", *low, *unsafe, "--run", "clean")
    assert marked["min_age_lowered"] is True
    shell.run("sweep", "young", "--mark-id", marked["mark_id"], status=2)
    shell.run("runs", "resume", "young", marked["run_id"], status=2)
    other = ("--unsafe-min-age", "younger")
    shell.run("sweep", "young", "--mark-id", marked["mark_id"], *other, status=2)
    swept = shell.json("runs", "resume", "young", marked["run_id"], *unsafe)
    assert swept["objects"]["deleted"] == 2


@pytest.mark.usefixtures("environment")
def test_the_python_functions_do_the_same(
    spark: SparkSession, make_repository: MakeRepository, tmp_path: Path
) -> None:
    """Same values, same records; errors are ours."""
    repo = make_repository("notebook")
    with pytest.raises(lakesweep.LakesweepError, match="below the safe"):
        lakesweep.collect(spark, "notebook", min_age="1h")
    marked = lakesweep.mark(spark, "notebook", "us-east-1", mark_id="nb", keep_ref=["main"])
    assert marked.status is lakesweep.RunStatus.MARKED
    other = {"a year": '{"default_retention_days": 365}'}
    asked = lakesweep.what_if(spark, "notebook", other, price=0.023)
    present, a_year = asked.rules
    assert (present.freed + asked.unreferenced).objects == marked.objects["garbage"] == 2
    assert a_year.freed.objects == 0
    to = f"file://{tmp_path}/copies"
    assert lakesweep.backup(spark, "notebook", "nb", to).objects["copied"] == 2
    swept = lakesweep.sweep(
        spark, "notebook", "nb", guards=lakesweep.LoweredGuards(max_delete_share=80)
    )
    assert swept.objects["deleted"] == 2
    assert lakesweep.resume(spark, "notebook", swept.run_id).status is lakesweep.RunStatus.SWEPT
    back = lakesweep.restore(spark, "notebook", "nb", to, [repo.expired])
    assert back.objects["copied"] == 1
    assert repo.user.status(repo.first_commit, "expired") == 200
    assert lakesweep.collect(spark, "notebook", run="clean").objects["garbage"] == 0


def test_rules_are_shown_set_and_cleared(
    shell: Shell, make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By file and by stdin; wrong ones change nothing."""
    make_repository("ruled")
    rules = {
        "default_retention_days": 21,
        "branches": [{"branch_id": "main", "retention_days": 28}],
    }
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(rules))
    shell.run("rules", "set", "ruled", str(file))
    assert shell.json("rules", "show", "ruled") == rules
    monkeypatch.setattr("sys.stdin", io.StringIO('{"default_retention_days": -1, "branches": []}'))
    shell.run("rules", "set", "ruled", "-", status=2)
    assert "negative" in shell.err
    assert "branch   main: 28 days" in shell.run("rules", "show", "ruled")
    shell.run("rules", "clear", "ruled")
    assert "nothing expires" in shell.run("rules", "show", "ruled")
    assert shell.json("rules", "show", "ruled") is None


def test_doctor_finds_a_healthy_lake(shell: Shell, make_repository: MakeRepository) -> None:
    """And says so check by check."""
    make_repository("healthy")
    report = shell.json("doctor", "healthy")
    assert report["fit"] is True
    assert {c["verdict"] for c in report["checks"]} == {"ok"}
    assert "ok    server" in shell.run("doctor", "healthy")


def test_a_large_plan_stops_until_it_is_confirmed(
    shell: Shell, make_repository: MakeRepository
) -> None:
    """Exit status 4, with the plan's id in the record; confirmed by exactly that id, it goes on."""
    repo = make_repository("large")
    slice_folder = (repo.folder / repo.expired).parent
    for number in range(1001):
        (slice_folder / f"c{number:018d}0").write_bytes(b"x")
    repo.make_old()
    stopped = shell.json("gc", "large", "--mark-id", "big", status=4)
    assert stopped["status"] == "refused"
    assert stopped["plan_id"] in stopped["reason"]
    assert repo.has(repo.expired)
    shell.run("sweep", "large", "--mark-id", "big", "--confirm", "0" * 16, status=2)
    shell.run("sweep", "large", "--mark-id", "big", "--max-delete-share", "60", status=4)
    swept = shell.json("sweep", "large", "--mark-id", "big", "--confirm", stopped["plan_id"])
    assert swept["objects"]["deleted"] == 1003
