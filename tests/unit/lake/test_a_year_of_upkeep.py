"""A year of use: what has had its time goes, a little at a time, and nothing that anyone may need goes with it."""

from __future__ import annotations

import itertools
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.domain.commits import BranchId, CommitGraph
from lakesweep.domain.retention import retained_commits
from lakesweep.domain.rules import RetentionRules
from lakesweep.lake.collection import uncommitted_list
from lakesweep.lake.context import LakeContext
from lakesweep.lake.kv.interface import Row, scan
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep_testing.lakes import LakeRepo
from lakesweep_testing.memory_kv import MemoryKeyValueStore

YEAR = 365


class CountingStore(MemoryKeyValueStore):
    """Counts the rows that pages hold."""

    def __init__(self) -> None:
        super().__init__()
        self.rows_read = 0

    def page(self, partition: str, **how: Any) -> list[Row]:
        rows = super().page(partition, **how)
        self.rows_read += len(rows)
        return rows


def _copies(repo: LakeRepo) -> TrackedCopies:
    return TrackedCopies(LakeContext(repo.kv, repo.settings, repo.clock))


def _staged_value(repo: LakeRepo, path: str) -> bytes:
    head = repo.lake.branches.head(repo.record, "main")
    value = repo.kv.get(head.staging_token, path.encode())
    assert value is not None
    return value


def _keys(repo: LakeRepo, prefix: str) -> list[str]:
    return [key for batch in repo.store.list(prefix) for key in batch.column("key").to_pylist()]


def test_half_written_files_of_killed_uploads_go(tmp_path: Path) -> None:
    """Two days after nobody wrote to them; objects, foreign files and links stay."""
    repo = LakeRepo(namespace="local://ns", data_dir=tmp_path).create()
    address = repo.put("a", b"kept")
    folder = (tmp_path / "ns" / address).parent
    foreign = folder / ".lakesweep-tmp-of-a-user"
    foreign.write_bytes(b"x")
    outside = tmp_path / "outside"
    outside.mkdir()
    beyond = outside / f".lakesweep-tmp-{0:016x}"
    beyond.write_bytes(b"x")
    (folder / "link").symlink_to(outside)
    for path in (foreign, beyond):
        os.utime(path, (0, 0))
    for day in range(YEAR):
        left = folder / f".lakesweep-tmp-{day:016x}"
        left.write_bytes(b"x")
        os.utime(left, (repo.clock.now.timestamp(),) * 2)
        for _ in range(2):
            repo.clock.advance(hours=12)
            repo.lake.housekeeping.run()
    names = {path.name for path in folder.iterdir()}
    under_way = {f".lakesweep-tmp-{day:016x}" for day in range(YEAR - 2, YEAR)}
    assert under_way <= names
    assert len(names - {foreign.name, "link", Path(address).name}) <= 4
    assert foreign.exists()
    assert beyond.exists()
    assert repo.read("a") == b"kept"


def test_walk_over_files_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round looks at a bounded number of files, and all are looked at in the end."""
    monkeypatch.setattr("lakesweep.lake.housekeeping._MOST_FILES", 10)
    repo = LakeRepo(namespace="local://ns", data_dir=tmp_path).create()
    folder = tmp_path / "ns" / "data" / "slice"
    folder.mkdir(parents=True)
    for number in range(50):
        (folder / f"{number}").write_bytes(b"")
        left = folder / f".lakesweep-tmp-{number:016x}"
        left.write_bytes(b"")
        os.utime(left, (0, 0))
    counts = []
    for _ in range(15):
        repo.clock.advance(hours=1)
        repo.lake.housekeeping.run()
        counts.append(len(list(folder.iterdir())))
    assert counts[-1] == 50
    assert all(before - after <= 10 for before, after in itertools.pairwise(counts))


def test_a_head_that_was_left_today_stays_noted_though_its_commit_is_old() -> None:
    """The rules count from when it was left."""
    repo = LakeRepo().create()
    repo.lake.rules.set(repo.record, RetentionRules(7))
    repo.put("a")
    repo.commit()
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    repo.clock.advance(days=100)
    repo.lake.branches.delete(repo.record, "dev")
    repo.lake.housekeeping.run()
    assert len(list(repo.lake.head_moves.all(repo.record))) == 1
    repo.clock.advance(days=40)
    repo.lake.housekeeping.run()
    assert not list(repo.lake.head_moves.all(repo.record))


@pytest.mark.slow
def test_head_moves_past_every_rule_go() -> None:
    """And what is retained is the same with them and without them, every day."""
    repo = LakeRepo().create()
    rules = RetentionRules(7, {BranchId("main"): 20})
    repo.lake.rules.set(repo.record, rules)
    repo.put("first")
    repo.commit()
    all_moves = []
    for day in range(YEAR):
        name = f"b{day}"
        repo.lake.branches.create(
            repo.record, name, repo.lake.branches.head(repo.record, "main").commit_id
        )
        repo.put("x", b"%d" % day, name)
        repo.commit(name)
        repo.lake.branches.delete(repo.record, name)
        all_moves.append(list(repo.lake.head_moves.all(repo.record))[-1])
        repo.clock.advance(days=1)
        repo.lake.housekeeping.run()
        if day % 73 == 0 or day == YEAR - 1:
            graph = CommitGraph(repo.lake.commits.all(repo.record))
            heads = [record.head for record in repo.lake.branches.all(repo.record)]
            kept = list(repo.lake.head_moves.all(repo.record))
            with_all = retained_commits(graph, heads, rules, repo.clock.now, all_moves)
            assert retained_commits(graph, heads, rules, repo.clock.now, kept).ids == with_all.ids
    assert 20 <= len(kept) <= 52


def test_head_moves_stay_without_rules_and_when_dated_later() -> None:
    """Rules may come and reach back; a commit that claims to be young is judged by its claim."""
    repo = LakeRepo().create()
    for name, date in (("plain", None), ("later", repo.clock.now + timedelta(days=YEAR))):
        repo.lake.branches.create(
            repo.record, name, repo.lake.branches.head(repo.record, "main").commit_id
        )
        repo.put("x", b"1", name)
        repo.commit(name, date=date)
        repo.lake.branches.delete(repo.record, name)
    repo.clock.advance(days=YEAR)
    repo.lake.housekeeping.run()
    assert len(list(repo.lake.head_moves.all(repo.record))) == 2
    repo.lake.rules.set(repo.record, RetentionRules(7))
    repo.clock.advance(hours=2)
    repo.lake.housekeeping.run()
    assert [move.branch_id for move in repo.lake.head_moves.all(repo.record)] == ["later"]


@pytest.mark.slow
def test_lists_that_no_collection_can_want_go() -> None:
    """Those of the last four weeks stay, and so does what a collector put beside them."""
    repo = LakeRepo().create()
    repo.lake.rules.set(repo.record, RetentionRules(7))
    repo.put("a")
    repo.commit()
    repo.put("b")
    base = "_lakefs/retention/gc/"
    runs = []
    for _ in range(YEAR // 3):
        repo.lake.retained_commits.prepare(repo.record)
        page = repo.lake.uncommitted_list.prepare(repo.record, None)
        repo.store.write(f"{base}uncommitted/{page.run_id}/summary.json", b"{}")
        runs.append(page.run_id)
        repo.clock.advance(days=1)
        repo.lake.housekeeping.run()
    repo.lake.housekeeping.run(repo.clock.now + timedelta(hours=1))
    commits = _keys(repo, f"{base}commits/")
    lists = [key for key in _keys(repo, f"{base}uncommitted/") if "/uncommitted/" in key[30:]]
    assert 27 <= len(commits) <= 80
    for run_id in runs[-27:]:
        assert any(run_id in key for key in lists)
    assert len(lists) <= 80
    assert len(_keys(repo, f"{base}uncommitted/")) - len(lists) == YEAR // 3


def test_old_copies_go_a_few_at_a_time() -> None:
    """A round reads a page at most, whatever there is; copies that a collection may need stay."""
    kv = CountingStore()
    repo = LakeRepo(kv=kv).create()
    repo.put("a")
    value = _staged_value(repo, "a")
    copies = _copies(repo)
    copies.track(repo.record, [value] * 5_000)
    for _ in range(YEAR):
        copies.track(repo.record, [value] * 10)
        repo.clock.advance(days=1)
        before = kv.rows_read
        repo.lake.housekeeping.run()
        assert kv.rows_read - before <= 2_100
    partition = f"{repo.record.id}-{repo.record.instance_uid}"
    assert len(list(scan(kv, partition, prefix=b"copies/"))) in (140, 150)


def test_list_of_uncommitted_objects_is_cut_among_the_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every copy is in one of the pages, and the pages say how many rows they are."""
    monkeypatch.setattr(uncommitted_list, "_SCAN_ROWS", 10)
    repo = LakeRepo(prepare_max_file_bytes=0).create()
    repo.put("a")
    copies = _copies(repo)
    expected = {repo.address("a")}
    for number in range(35):
        address = repo.put(f"gone{number}")
        copies.track(repo.record, [_staged_value(repo, f"gone{number}")])
        repo.lake.objects.delete(repo.record, "main", f"gone{number}", no_tombstone=True)
        expected.add(address)
    pages = [repo.lake.uncommitted_list.prepare(repo.record, None)]
    while token := pages[-1].continuation_token:
        pages.append(repo.lake.uncommitted_list.prepare(repo.record, token))
    assert sum(page.rows_written for page in pages) == pages[-1].total_rows == 36
    assert max(page.rows_written for page in pages) <= 10
    assert len(pages) >= 4


def test_stores_of_imported_folders_are_not_kept_for_ever(tmp_path: Path) -> None:
    """Those used last are."""
    repo = LakeRepo(data_dir=tmp_path).create()
    context = LakeContext(repo.kv, repo.settings, repo.clock)
    stores = [context.open(context.locate(f"mem://m/{number}")) for number in range(1_000)]
    assert len(context._stores) == 256
    assert context.open(context.locate("mem://m/999")) is stores[-1]
