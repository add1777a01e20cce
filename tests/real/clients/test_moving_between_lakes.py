"""A repository made in one lake, dumped and restored into the other on the same bucket, reads the same there."""

from __future__ import annotations

from typing import Any

import lakefs_sdk as sdk
import pytest

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def _make_history(run: Any) -> None:
    namespace = f"s3://{run.target.bucket}/{run.repo}"
    creation = sdk.RepositoryCreation(name=run.repo, storage_namespace=namespace)
    run.client.repositories_api.create_repository(creation)
    for number in range(30):
        run.upload(f"dir-{number % 3}/ü {number}", f"first {number}".encode())
    run.commit("thirty objects", metadata={"k": "v"})
    run.client.branches_api.create_branch(run.repo, sdk.BranchCreation(name="dev", source="main"))
    for number in range(0, 30, 4):
        run.upload(f"dir-{number % 3}/ü {number}", f"second {number}".encode(), "dev")
    run.commit("changes on dev", "dev")
    run.client.objects_api.delete_object(run.repo, "main", "dir-1/ü 1")
    run.upload("root", b"")
    run.commit("one gone, one empty")
    run.client.refs_api.merge_into_branch(run.repo, "dev", "main")
    run.client.tags_api.create_tag(run.repo, sdk.TagCreation(id="v1", ref="main~1"))
    paths = sdk.PathList(paths=[entry.path for entry in _entries(run, "main")])
    run.client.objects_api.delete_objects(run.repo, "main", paths)
    run.commit("nothing left")


def _entries(run: Any, ref: str) -> Any:
    return run.client.objects_api.list_objects(run.repo, ref, amount=1000).results


def _everything(run: Any) -> dict[str, Any]:
    """Every ref, every commit, and every object at every commit, with its bytes."""
    client = run.client
    log = {
        commit.id: commit.to_dict()
        for branch in ("main", "dev")
        for commit in client.refs_api.log_commits(run.repo, branch, amount=100).results
    }
    objects = {
        commit_id: [
            (entry.to_dict(), bytes(client.objects_api.get_object(run.repo, commit_id, entry.path)))
            for entry in _entries(run, commit_id)
        ]
        for commit_id in log
    }
    return {
        "branches": client.branches_api.list_branches(run.repo).to_dict(),
        "tags": client.tags_api.list_tags(run.repo).to_dict(),
        "commits": log,
        "objects": objects,
    }


def _restore(run: Any, namespace: str, dump: Any) -> None:
    bare = sdk.RepositoryCreation(name=run.repo, storage_namespace=namespace)
    run.client.repositories_api.create_repository(bare, bare=True)
    run.client.internal_api.restore_refs(run.repo, sdk.RefsRestore(**dump.to_dict()))


@pytest.mark.parametrize("is_embedded_first", [True, False], ids=["to lakeFS", "from lakeFS"])
def test_restored_repository_reads_the_same(
    real_target: Any, embedded_target: Any, open_session: Any, is_embedded_first: bool
) -> None:
    """Refs, commits, ranges and objects of either lake are the other's."""
    targets = (
        [embedded_target, real_target] if is_embedded_first else [real_target, embedded_target]
    )
    # A name for each direction: lakeFS does not let go of a deleted repository's name at once.
    name = "moving-out" if is_embedded_first else "moving-in"
    old, new = (open_session(target, name) for target in targets)
    _make_history(old)
    before = _everything(old)
    dump = old.client.internal_api.dump_refs(name)
    _restore(new, f"s3://{old.target.bucket}/{name}", dump)
    try:
        after = _everything(new)
    finally:
        for run in (old, new):
            run.client.repositories_api.delete_repository(name)
    assert sum(len(entries) for entries in before["objects"].values()) > 100
    assert after == before
