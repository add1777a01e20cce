"""What collectors ask besides the uncommitted list: rules, retained commits, dumps; and imports."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.domain.commits import BranchId
from lakesweep.domain.rules import RetentionRules
from lakesweep.formats.commits_csv import read_commits_csv
from lakesweep.formats.refs_dump import RefsManifest
from lakesweep.formats.rules import decode_rules
from lakesweep.lake.errors import (
    ConflictError,
    DirtyBranchError,
    InvalidRequestError,
    MissingError,
)
from lakesweep.lake.values import ImportSource, ImportStatus
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo().create()


class TestRules:
    def test_rules_are_kept_as_lakefs_keeps_them(self, repo: LakeRepo) -> None:
        """Protobuf in the namespace, empty when deleted."""
        key = "_lakefs/retention/gc/rules/config.json"
        with pytest.raises(MissingError):
            repo.lake.rules.get(repo.record)
        rules = RetentionRules(7, {BranchId("main"): 0, BranchId("dev"): 30})
        repo.lake.rules.set(repo.record, rules)
        assert repo.lake.rules.get(repo.record) == decode_rules(repo.store.read(key)) == rules
        repo.lake.rules.delete(repo.record)
        assert repo.store.read(key) == b""
        with pytest.raises(MissingError):
            repo.lake.rules.get(repo.record)

    @pytest.mark.parametrize(
        "rules",
        [
            RetentionRules(-1),
            RetentionRules(1, {BranchId("main"): -1}),
            RetentionRules(2**31),
            RetentionRules(1, {BranchId("no such/name"): 1}),
        ],
    )
    def test_nonsense_is_refused(self, repo: LakeRepo, rules: RetentionRules) -> None:
        """Negative days would expire the future."""
        with pytest.raises(InvalidRequestError):
            repo.lake.rules.set(repo.record, rules)


class TestRetainedCommits:
    def _retained(self, repo: LakeRepo) -> set[str]:
        prepared = repo.lake.retained_commits.prepare(repo.record)
        key = repo.relative(prepared.commits_location)
        assert prepared.addresses_location == f"{repo.namespace}/_lakefs/retention/gc/addresses/"
        rows = read_commits_csv(repo.store.read(key))
        assert not any(row.is_expired for row in rows)
        return {row.commit_id for row in rows}

    def test_commits_superseded_in_the_window_are_retained(self, repo: LakeRepo) -> None:
        """All in the window and the one before it."""
        ids = []
        for days in (40, 30, 20, 5):
            repo.put("a", b"%d" % days)
            ids.append(repo.commit(date=repo.clock.now - timedelta(days=days)))
        repo.lake.rules.set(repo.record, RetentionRules(10))
        assert self._retained(repo) == {ids[2], ids[3]}

    def test_order_of_ids_does_not_matter(self, repo: LakeRepo) -> None:
        """The history on which the real server's shortcut drops a commit that the rule retains."""
        for attempt in range(6):
            now = repo.clock.now
            path = f"x{attempt}"
            fix = f"fix{attempt}"
            repo.put(path)
            p = repo.commit(date=now - timedelta(days=40))
            repo.lake.objects.delete(repo.record, "main", path)
            repo.commit(date=now - timedelta(days=35))
            repo.put(f"other{attempt}")
            repo.commit(date=now - timedelta(days=30))
            repo.lake.refs.create_branch(repo.record, fix, p)
            repo.lake.objects.delete(repo.record, fix, path)
            repo.commit(fix, date=now - timedelta(hours=1))
            repo.lake.rules.set(repo.record, RetentionRules(10))
            assert p in self._retained(repo)

    def test_deleted_branch_counts_as_the_head_it_was(self, repo: LakeRepo) -> None:
        """From the day of its deletion, by its own rule."""
        repo.lake.refs.create_branch(repo.record, "dev", "main")
        repo.put("a", branch="dev")
        head = repo.commit("dev", date=repo.clock.now - timedelta(days=100))
        repo.lake.rules.set(repo.record, RetentionRules(1, {BranchId("dev"): 7}))
        repo.lake.branches.delete(repo.record, "dev")
        repo.clock.advance(days=6)
        assert head in self._retained(repo)
        repo.clock.advance(days=2)
        assert head not in self._retained(repo)

    def test_no_rules_no_list(self, repo: LakeRepo) -> None:
        """At once, or in the task's status."""
        with pytest.raises(MissingError):
            repo.lake.retained_commits.prepare(repo.record)
        task = repo.lake.retained_commits.start(repo.record)
        status = _finished(lambda: repo.lake.retained_commits.status(repo.record, task))
        assert status.error is not None
        assert "not found" in status.error

    def test_background_task_gives_the_same(self, repo: LakeRepo) -> None:
        """Its id begins as lakeFS's; another server can read its status; unknown ids are missing."""
        repo.put("a")
        commit = repo.commit()
        repo.lake.rules.set(repo.record, RetentionRules(1))
        task = repo.lake.retained_commits.start(repo.record)
        assert task.startswith("GCPC")
        other = repo.server()
        status = _finished(lambda: other.retained_commits.status(repo.record, task))
        assert status.result is not None
        key = repo.relative(status.result.commits_location)
        assert [row.commit_id for row in read_commits_csv(repo.store.read(key))] == [commit]
        with pytest.raises(MissingError):
            repo.lake.retained_commits.status(repo.record, "GCPCunknown")

    def test_task_of_a_dead_server_has_failed(self, repo: LakeRepo) -> None:
        """Silence is told as such, after a while; old tasks are forgotten."""
        started = repo.lake.tasks
        started._pool.shutdown()
        with pytest.raises(RuntimeError):
            repo.lake.retained_commits.start(repo.record)
        ((key, _),) = repo.kv.page(f"{repo.id}-{_uid(repo)}", prefix=b"tasks/")
        task = key.decode().removeprefix("tasks/")
        assert not repo.server().retained_commits.status(repo.record, task).completed
        repo.clock.advance(minutes=5)
        status = repo.server().retained_commits.status(repo.record, task)
        assert status.completed
        assert status.error is not None
        repo.clock.advance(days=8)
        repo.lake.housekeeping.run()
        with pytest.raises(MissingError):
            repo.lake.retained_commits.status(repo.record, task)


class TestDump:
    def test_dump_is_restored_into_a_bare_repository(self, repo: LakeRepo) -> None:
        """Commits, branches and tags; staged data is no part of it."""
        repo.put("a", b"1")
        repo.commit()
        repo.lake.refs.create_branch(repo.record, "dev", "main", is_hidden=True)
        repo.put("b", b"2", "dev")
        repo.commit("dev")
        repo.lake.refs.create_tag(repo.record, "v1", "dev")
        repo.put("staged")
        manifest = repo.lake.dumping.dump(repo.record)
        assert repo.store.read("_lakefs/refs_manifest.json")

        copy = LakeRepo(namespace=repo.namespace, clock=repo.clock)
        copy.lake.repositories.create(copy.id, copy.namespace, is_bare=True)
        copy.lake.dumping.restore(copy.lake.writable(copy.id), manifest)
        copy.lake.dumping.restore(copy.lake.writable(copy.id), manifest)
        assert copy.contents() == {"a": b"1"}
        assert copy.contents("v1") == {"a": b"1", "b": b"2"}
        assert [
            commit.id
            for commit in copy.lake.log.page(copy.lake.repositories.get(copy.id), "dev").results
        ] == [commit.id for commit in repo.lake.log.page(repo.record, "dev").results]
        assert copy.lake.branches.head(copy.lake.repositories.get(copy.id), "dev").hidden
        tokens = {r.lake.branches.head(r.record, "main").staging_token for r in (repo, copy)}
        assert len(tokens) == 2

    def test_restore_wants_a_bare_repository_and_a_dump(self, repo: LakeRepo) -> None:
        """Branches of its own, ids that are none, files that are not there."""
        repo.put("a")
        manifest = repo.lake.dumping.dump(repo.record)
        repo.commit()
        with pytest.raises(InvalidRequestError):
            repo.lake.dumping.restore(repo.record, manifest)
        bare = LakeRepo()
        bare.lake.repositories.create(bare.id, bare.namespace, is_bare=True)
        for wrong in ("../../secret", "0" * 64):
            with pytest.raises(InvalidRequestError):
                bare.lake.dumping.restore(
                    bare.lake.writable(bare.id), RefsManifest(wrong, wrong, wrong)
                )

    def test_metadata_files_are_read_by_id(self, repo: LakeRepo) -> None:
        """Only what has the shape of an id, only what is there."""
        repo.put("a")
        metarange = repo.lake.refs.commit(repo.record, repo.commit()).meta_range_id
        assert repo.lake.dumping.metadata_location(metarange) == f"_lakefs/{metarange}"
        assert repo.lake.dumping.read_metadata_object(repo.record, metarange)
        with pytest.raises(MissingError):
            repo.lake.dumping.read_metadata_object(repo.record, "0" * 64)
        for wrong in ("", "dummy", "../x", "retention/gc/rules/config.json"):
            with pytest.raises(InvalidRequestError):
                repo.lake.dumping.read_metadata_object(repo.record, wrong)


class TestImport:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        folder = tmp_path / "source"
        for name in ("one", "two", "sub/three"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(name.encode())
        return folder

    @pytest.fixture
    def importer(self, source: Path) -> LakeRepo:
        return LakeRepo(allow_imports=(f"file://{source}",)).create()

    def _import(self, repo: LakeRepo, *sources: ImportSource) -> ImportStatus:
        started = repo.lake.importing.start(
            repo.record, "main", sources, committer="me", message="import", metadata={"k": "v"}
        )
        return _finished(lambda: repo.lake.importing.status(repo.record, "main", started))

    def test_prefix_is_replaced_as_a_whole(self, importer: LakeRepo, source: Path) -> None:
        """Objects keep their full address; what lay below the destination goes, all else stays."""
        importer.put("to/old", b"old")
        importer.put("other", b"stays")
        importer.commit()
        status = self._import(importer, ImportSource("common_prefix", f"file://{source}/", "to/"))
        assert status.error is None
        assert status.ingested_objects == 3
        assert importer.contents() == {
            "other": b"stays",
            "to/one": b"one",
            "to/sub/three": b"sub/three",
            "to/two": b"two",
        }
        entry = importer.lake.objects.stat(
            importer.lake.repositories.get(importer.id), "main", "to/one"
        )
        assert entry.physical_address == f"file://{source}/one"
        assert status.commit == importer.lake.refs.commit(
            importer.lake.repositories.get(importer.id), "main"
        )
        assert status.commit.metadata == {"k": "v"}
        assert importer.committed() >= {f"file://{source}/one"}

    def test_single_objects_and_overlaps(self, importer: LakeRepo, source: Path) -> None:
        """One object to one path; of two sources for a path the later counts."""
        status = self._import(
            importer,
            ImportSource("common_prefix", f"file://{source}", ""),
            ImportSource("object", f"file://{source}/two", "one"),
        )
        assert status.error is None
        assert importer.read("one") == b"two"
        assert importer.read("two") == b"two"

    def test_failed_import_changes_nothing(self, importer: LakeRepo, source: Path) -> None:
        """A missing object is told in the status."""
        head = importer.lake.branches.head(importer.lake.repositories.get(importer.id), "main")
        status = self._import(importer, ImportSource("object", f"file://{source}/no", "x"))
        assert status.error is not None
        assert (
            importer.lake.branches.head(importer.lake.repositories.get(importer.id), "main") == head
        )

    def test_import_wants_a_clean_branch_and_sources(
        self, importer: LakeRepo, source: Path
    ) -> None:
        """Staged changes would be mixed up with it."""
        with pytest.raises(InvalidRequestError):
            self._import(importer)
        importer.put("a")
        with pytest.raises(DirtyBranchError):
            self._import(importer, ImportSource("common_prefix", f"file://{source}/", "to/"))

    def test_cancelled_import_commits_nothing(
        self, importer: LakeRepo, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Stopped before the head moves; a finished one can't be."""
        importing = importer.lake.importing
        ids: list[str] = []
        make = importing._commits.make

        def cancel_first(*arguments: object, **how: object) -> object:
            importer.lake.importing.cancel(
                importer.lake.repositories.get(importer.id), "main", ids[0]
            )
            return make(*arguments, **how)

        run = importing._write_imported

        def wait_for_id(*arguments: object) -> object:
            while not ids:
                time.sleep(0.01)
            return run(*arguments)

        monkeypatch.setattr(importing._commits, "make", cancel_first)
        monkeypatch.setattr(importing, "_write_imported", wait_for_id)
        ids.append(
            importer.lake.importing.start(
                importer.lake.writable(importer.id),
                "main",
                [ImportSource("common_prefix", f"file://{source}/", "to/")],
                committer="me",
                message="m",
            )
        )
        status = _finished(
            lambda: importer.lake.importing.status(
                importer.lake.repositories.get(importer.id), "main", ids[0]
            )
        )
        assert status.error is not None
        assert "cancelled" in status.error
        assert importer.paths() == []
        with pytest.raises(ConflictError):
            importer.lake.importing.cancel(
                importer.lake.repositories.get(importer.id), "main", ids[0]
            )


def _uid(repo: LakeRepo) -> str:
    return repo.record.instance_uid


def _finished(status: Callable[[], object]) -> object:
    for _ in range(10_000):
        found = status()
        if found.completed:  # type: ignore[attr-defined]
            return found
        time.sleep(0.01)
    raise AssertionError("the task did not end")
