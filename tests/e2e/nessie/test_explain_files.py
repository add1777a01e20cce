"""What `explain` says of every kind of file of a Nessie catalog, and that it writes nothing to find out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.domain.explanations import Said
from lakesweep.domain.nessie_explanations import FileExplanation
from lakesweep.errors import ConfigError, UnsafeToSweepError
from lakesweep.report.file_explanations import file_explanations_text
from lakesweep_testing.nessie_scene import NessieScene

DAY = timedelta(days=1)
MOMENT = timedelta(microseconds=1)


@pytest.fixture
def scene(scene: NessieScene) -> NessieScene:
    """A catalog whose commits and files are as old as each other."""
    scene.written_at = scene.nessie.now = datetime.now(UTC) - 60 * DAY
    return scene


def later(scene: NessieScene, by: timedelta) -> datetime:
    scene.written_at += by
    scene.nessie.now = scene.written_at
    return scene.written_at


def one(scene: NessieScene, uri: str, **rules: object) -> FileExplanation:
    (found,) = scene.explain(uri, **rules).files  # type: ignore[arg-type]
    return found


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_every_live_file_is_told_what_it_is_and_who_holds_it(scene: NessieScene) -> None:
    """Metadata, manifest list, manifest, data, delete and statistics files, by table, reference, commit and snapshot."""
    orders = scene.table("orders", format_version=2)
    orders.append("a.parquet")
    orders.commit(orders.iceberg.delete_rows("d.parquet"))
    state = orders.commit(orders.iceberg.add_statistics("s.puffin"))
    before = tree(scene.lake.parent)
    found = {e.asked: e for e in scene.explain(*scene.files()).files}
    assert tree(scene.lake.parent) == before
    assert scene.live_sets.all() == []
    roles = {uri: {h.role for h in e.holders} for uri, e in found.items() if e.holders}
    data = scene.uri("orders/data")
    assert roles[f"{data}/a.parquet"] == {"data"}
    assert roles[f"{data}/d.parquet"] == {"delete"}
    assert set.union(*roles.values()) == {
        *("metadata", "manifest list", "manifest", "data", "delete", "statistics"),
    }
    assert {e.said for e in found.values()} == {Said.LIVE}
    (held,) = found[state.metadata_location].holders
    assert (held.content_key, held.reference, held.policy) == ("orders", "BRANCH main", "NONE")
    assert held.commit == scene.nessie.heads()["main"]
    assert held.snapshot_id == state.snapshot_id
    assert found[state.metadata_location].stays


def test_the_day_follows_the_cut_off_of_the_reference_that_keeps_longest(
    scene: NessieScene,
) -> None:
    """A file of a superseded state goes when the longest policy lets its newest commit go, and not a moment sooner."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    removed_at = later(scene, DAY)
    orders.remove(scene.uri("orders/data/a.parquet"))
    scene.nessie.create_branch("dev", "main")
    replaced_at = later(scene, DAY)
    orders.append("b.parquet")
    now = later(scene, DAY)
    rules = {"default": "P4D", "cutoffs": {"main": "P5D"}, "grace": DAY}
    found = one(scene, scene.uri("orders/data/a.parquet"), at=now, **rules)
    first = removed_at - DAY
    assert {h.reference: h.until for h in found.holders} == {
        "BRANCH main": first + 5 * DAY + MOMENT,
        "BRANCH dev": first + 4 * DAY + MOMENT,
    }
    assert found.goes_at == first + 5 * DAY + MOMENT
    assert "branch main" in found.why
    assert replaced_at < now


def test_a_state_is_live_while_the_newest_commit_that_has_it_is(scene: NessieScene) -> None:
    """What a commit put stays live with the commits after it, until one of them replaces it."""
    orders, other = scene.table("orders"), scene.table("other")
    orders.append("a.parquet")
    newest_at = later(scene, DAY)
    other.append("o.parquet")
    newest = scene.nessie.heads()["main"]
    later(scene, DAY)
    orders.remove(scene.uri("orders/data/a.parquet"))
    later(scene, DAY)
    other.append("p.parquet")
    found = one(
        scene, scene.uri("orders/data/a.parquet"), default="P4D", at=scene.written_at, grace=DAY
    )
    (held,) = found.holders
    assert (held.commit, held.until) == (newest, newest_at + 4 * DAY + MOMENT)
    assert found.goes_at == held.until
    swept = []
    for at in (found.goes_at - MOMENT, found.goes_at):
        marked = scene.mark("P4D", at=at)
        scene.defer(marked, grace=DAY)
        swept.append(found.asked in scene.deferred(marked))
    assert swept == [False, True]


@pytest.mark.parametrize("drop", [False, True])
def test_what_is_left_of_a_dropped_table_stays_and_says_so(scene: NessieScene, drop: bool) -> None:
    """Once its table is dropped, a file is nobody's to collect: the day of its last state is no day on which it goes."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    other = scene.table("other")
    other.append("o.parquet")
    later(scene, DAY)
    if drop:
        orders.drop()
    else:
        orders.commit(orders.iceberg.overwrite("b.parquet"))
    later(scene, DAY)
    other.append("p.parquet")  # a cut-off keeps the state before a reference's last commit
    now = scene.written_at
    found = one(scene, scene.uri("orders/data/a.parquet"), default="P3D", at=now, grace=DAY)
    assert found.said is Said.LIVE
    assert (found.goes_at is None) == drop
    if drop:
        assert found.stays
        assert found.then == "of a dropped table"
        later_on = now + 10 * DAY
        dropped = one(scene, found.asked, default="P3D", at=later_on, grace=DAY)
        assert dropped.said is Said.PROTECTED
        assert "--collect-dropped" in dropped.notes[0]
        collected = one(scene, found.asked, default="P3D", at=now, grace=DAY, dropped_grace=2 * DAY)
        assert collected.goes_at is not None
        swept = {}
        for at in (collected.goes_at - MOMENT, collected.goes_at):
            marked = scene.mark("P3D", at=at, dropped_grace=2 * DAY)
            scene.defer(marked, grace=DAY)
            swept[at] = found.asked in scene.deferred(marked)
        assert list(swept.values()) == [False, True]


def test_garbage_says_what_it_was(scene: NessieScene) -> None:
    """A file of a commit that is cut off names it, and since when nothing holds it; an orphan was never in one."""
    now = datetime.now(UTC)
    scene.written_at = now - timedelta(days=60)
    scene.nessie.now = now - timedelta(days=30)
    orders = scene.table("orders")
    old = orders.append("a.parquet")
    scene.nessie.now = now - timedelta(days=20)
    orders.commit(orders.iceberg.overwrite("b.parquet"))
    (file,) = (uri for uri in orders.live_files(old) if uri.endswith("a.parquet"))
    orphan = orders.iceberg.write_orphan("x.parquet")
    was, never = scene.explain(file, orphan, default="P10D", at=now).files
    assert (was.said, never.said) == (Said.GARBAGE, Said.GARBAGE)
    assert was.was is not None
    assert (was.was.content_key, was.was.role, was.was.reference) == (
        "orders",
        "data",
        "BRANCH main",
    )
    assert was.was.made_at == now - timedelta(days=30)
    assert was.since is not None
    assert abs(was.since - (now - timedelta(days=20))) < timedelta(seconds=1)
    assert "it was a data file of orders in commit" in was.why
    assert (never.was, never.since) == (None, None)
    assert "no commit that a reference reaches has it" in never.why
    Path(old.metadata_location.removeprefix("file://")).unlink()
    (unknown,) = scene.explain(file, default="P10D", at=now).files
    assert (unknown.said, unknown.was) == (Said.GARBAGE, None)
    assert old.metadata_location in unknown.unread[0]
    assert "no live content holds it" in unknown.why


def test_young_foreign_outside_and_unknown_files(scene: NessieScene) -> None:
    """What no live content holds is young, protected or garbage as a sweep says; what is not there is not known."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orphan = orders.iceberg.write_orphan("orphan.parquet")
    now = later(scene, DAY)
    young = orders.iceberg.write_orphan("young.parquet")
    outside = scene.uri("elsewhere/x.parquet")
    delta = scene.uri("orders/delta/part-0.parquet")
    for uri in (outside, delta, scene.uri("orders/delta/_delta_log/0.json")):
        scene.write(uri, b"foreign")
    missing = scene.uri("orders/data/never.parquet")
    at = now + timedelta(hours=2)
    files = scene.explain(orphan, young, outside, delta, missing, at=at, grace=DAY).files
    assert [e.said for e in files] == [
        *(Said.GARBAGE, Said.YOUNG, Said.PROTECTED, Said.PROTECTED, Said.UNKNOWN),
    ]
    assert files[1].goes_at == files[1].last_modified + DAY  # type: ignore[operator]
    assert files[2].protection == "outside base locations"
    assert files[3].protection == "of a Delta table"
    assert "not in the store" in files[4].why


def test_deleted_and_recorded_files_name_their_live_sets(scene: NessieScene) -> None:
    """Which sweep deleted a file, and which list of recorded files has it."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orphan = orders.iceberg.write_orphan("orphan.parquet")
    deferred = scene.mark()
    scene.defer(deferred)
    recorded = one(scene, orphan)
    assert recorded.said is Said.GARBAGE
    assert recorded.deferred_in == (deferred.live_set_id,)
    marked = scene.mark()
    scene.expire(marked)
    gone = one(scene, orphan)
    assert gone.said is Said.DELETED
    assert gone.deletion is not None
    assert gone.deletion.run_id == marked.live_set_id
    assert marked.live_set_id in gone.why


def test_what_a_sweep_refuses_is_not_explained(scene: NessieScene) -> None:
    """A live file that can't be read leaves open what is live, so no file is called anything."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orphan = orders.iceberg.write_orphan("orphan.parquet")
    manifest = next(p for p in scene.lake.rglob("*-m0.avro"))
    manifest.write_bytes(b"damaged")
    with pytest.raises(UnsafeToSweepError, match="can't be read"):
        scene.explain(orphan)
    with pytest.raises(ConfigError, match="Which file"):
        scene.explain()


def test_text_and_json_say_the_same(scene: NessieScene) -> None:
    """One value, two renderings; the JSON has a schema name."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    found = scene.explain(scene.uri("orders/data/a.parquet"))
    document = json.loads(json.dumps(found.to_json()))
    assert document["schema"] == "lakesweep.explain/1"
    assert document["files"][0]["holders"][0]["content_key"] == "orders"
    text = file_explanations_text(found)
    assert "orders/data/a.parquet: LIVE" in text
    assert "held      as data by orders on branch main" in text
