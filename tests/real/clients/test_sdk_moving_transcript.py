"""Staging, import, collection, loss and moving through lakeFS's generated Python SDK, on both lakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import lakefs_sdk as sdk
import pytest

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    # The SDK warns of the calls that lakeFS would rather not see used; they are part of the scope all the same.
    pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning"),
]

REPO = "sdk-moving-repo"
START = 1_600_000_000

Wait = Callable[[Callable[[], Any]], Any]


def _beginnings(run: Any) -> None:
    namespace = f"s3://{run.target.bucket}/{REPO}"
    creation = sdk.RepositoryCreation(name=REPO, storage_namespace=namespace)
    run.client.repositories_api.create_repository(creation)
    run.upload("cherry", b"red")
    run.see("commit", lambda: run.commit("cherry"))
    branch = sdk.BranchCreation(name="dev", source="main")
    run.see("branch", lambda: run.client.branches_api.create_branch(REPO, branch))


def _staging(run: Any) -> None:
    api, see = run.client.staging_api, run.see
    issued = see("issue an address", lambda: api.get_physical_address(REPO, "main", "linked"))
    run.target.write(issued.physical_address, b"straight")

    def link(path: str, checksum: str = '"c0ffee"', **more: Any) -> Any:
        metadata = sdk.StagingMetadata(staging=issued, checksum=checksum, size_bytes=8, **more)
        return api.link_physical_address(REPO, "main", path, metadata)

    see("link to another path", lambda: link("elsewhere"))
    see("link without a checksum", lambda: link("linked", ""))
    see("link", lambda: link("linked", user_metadata={"by": "hand"}, content_type="text/plain"))
    see("link twice", lambda: link("linked"))
    see("read what was linked", lambda: run.client.objects_api.get_object(REPO, "main", "linked"))
    unused = see("issue one more", lambda: api.get_physical_address(REPO, "main", "never"))
    empty = sdk.StagingMetadata(staging=unused, checksum="c", size_bytes=8)
    see(
        "link what was not uploaded",
        lambda: api.link_physical_address(REPO, "main", "never", empty),
    )

    def stage(address: str) -> Any:
        creation = sdk.ObjectStageCreation(
            physical_address=address, checksum="c", size_bytes=7, mtime=START
        )
        return run.client.internal_api.stage_object(REPO, "main", "staged", creation)

    outside = f"s3://{run.target.bucket}/outside/file"
    run.target.write(outside, b"outside")
    see("stage from outside", lambda: stage(outside))
    see("read from outside", lambda: run.client.objects_api.get_object(REPO, "main", "staged"))
    see("stage from inside", lambda: stage(issued.physical_address))
    see("stage from another store", lambda: stage("gs://bucket/key"))
    see(
        "reset after staging",
        lambda: run.client.branches_api.reset_branch(REPO, "main", sdk.ResetCreation(type="reset")),
    )


def _imports(run: Any, wait: Wait) -> None:
    api, see = run.client.import_api, run.see
    for name in ("one", "deep/two"):
        run.target.write(f"s3://{run.target.bucket}/import/{name}", name.encode())

    def start(path: str) -> Any:
        source = sdk.ImportLocation(type="common_prefix", path=path, destination="imported/")
        commit = sdk.CommitCreation(message="import", metadata={"a": "b"})
        return api.import_start(REPO, "main", sdk.ImportCreation(paths=[source], commit=commit))

    started = start(f"s3://{run.target.bucket}/import/")
    status = wait(lambda: api.import_status(REPO, "main", started.id))
    see(
        "import",
        lambda: {
            "objects": status.ingested_objects,
            "message": status.commit.message,
            "error": status.error,
        },
    )
    see("cancel what has ended", lambda: api.import_cancel(REPO, "main", started.id))
    see(
        "read the import",
        lambda: run.client.objects_api.get_object(REPO, "main", "imported/deep/two"),
    )
    see(
        "list the import",
        lambda: [
            e.path
            for e in run.client.objects_api.list_objects(REPO, "main", prefix="imported/").results
        ],
    )
    see("import its own namespace", lambda: start(f"s3://{run.target.bucket}/{REPO}/data/"))
    see("no such import", lambda: api.import_status(REPO, "main", "nothing"))


def _collection(run: Any, wait: Wait) -> None:
    api, inner, see = run.client.repositories_api, run.client.internal_api, run.see

    def rules(days: int, **branches: int) -> Any:
        return sdk.GarbageCollectionRules(
            default_retention_days=days,
            branches=[
                sdk.GarbageCollectionRule(branch_id=b, retention_days=d)
                for b, d in branches.items()
            ],
        )

    see("no rules", lambda: api.get_gc_rules(REPO))
    see("prepare without rules", lambda: inner.prepare_garbage_collection_commits(REPO))
    failing = inner.prepare_garbage_collection_commits_async(REPO)
    failed = wait(lambda: inner.prepare_garbage_collection_commits_status(REPO, failing.id))
    see("prepare without rules, as a task", lambda: "not found" in failed.error.message)
    see("set negative rules", lambda: api.set_gc_rules(REPO, rules(-1)))
    see("set rules", lambda: api.set_gc_rules(REPO, rules(7, dev=3)))
    see("get rules", lambda: api.get_gc_rules(REPO))
    see(
        "set rules, older way",
        lambda: inner.internal_set_garbage_collection_rules(REPO, rules(8, dev=4)),
    )
    see("get rules, older way", lambda: inner.internal_get_garbage_collection_rules(REPO))
    see("may i set rules", lambda: inner.set_garbage_collection_rules_preflight(REPO))
    task = inner.prepare_garbage_collection_commits_async(REPO)
    done = wait(lambda: inner.prepare_garbage_collection_commits_status(REPO, task.id))
    see(
        "prepare commits",
        lambda: [done.result.gc_commits_location, done.result.gc_addresses_location, done.error],
    )
    see("no such task", lambda: inner.prepare_garbage_collection_commits_status(REPO, "nothing"))
    run.upload("pending", b"staged")
    page = inner.prepare_garbage_collection_uncommitted(REPO)
    see("prepare uncommitted", lambda: [page.gc_uncommitted_location, page.continuation_token])
    bad = sdk.PrepareGCUncommittedRequest(continuation_token="zz")
    see(
        "prepare with a bad token",
        lambda: inner.prepare_garbage_collection_uncommitted(
            REPO, prepare_gc_uncommitted_request=bad
        ),
    )
    see("delete rules", lambda: api.delete_gc_rules(REPO))
    see("rules are gone", lambda: api.get_gc_rules(REPO))


def _gone(run: Any) -> None:
    api, see = run.client.objects_api, run.see
    run.upload("doomed", b"doomed")
    run.commit("doomed")
    run.target.remove(api.stat_object(REPO, "main", "doomed").physical_address)
    see("read what is gone", lambda: api.get_object(REPO, "main", "doomed"))
    see("head of what is gone", lambda: api.head_object(REPO, "main", "doomed"))
    see("stat of what is gone", lambda: api.stat_object(REPO, "main", "doomed").size_bytes)
    run.upload("after", b"after")
    see("commit after a loss", lambda: run.commit("life goes on").message)


def _moving(run: Any) -> None:
    repositories, inner, see = run.client.repositories_api, run.client.internal_api, run.see
    dump = see("dump refs", lambda: inner.dump_refs(REPO))
    restore = sdk.RefsRestore(**dump.to_dict())
    see("restore over a full repository", lambda: inner.restore_refs(REPO, restore))
    before = run.client.objects_api.list_objects(REPO, "main").results
    heads = run.client.branches_api.list_branches(REPO).results
    see("delete repository", lambda: repositories.delete_repository(REPO))
    see("delete it again", lambda: repositories.delete_repository(REPO))
    namespace = f"s3://{run.target.bucket}/{REPO}"
    # Under another name: lakeFS does not make a bare repository with the name of a deleted one.
    other = f"{REPO}-restored"
    bare = sdk.RepositoryCreation(name=other, storage_namespace=namespace)
    see("create bare", lambda: repositories.create_repository(bare, bare=True))
    see("restore refs", lambda: inner.restore_refs(other, restore))
    see("same heads", lambda: run.client.branches_api.list_branches(other).results == heads)
    after = run.client.objects_api.list_objects(other, "main").results
    see("same objects", lambda: after == before)
    see("read after restoring", lambda: run.client.objects_api.get_object(other, "main", "cherry"))


def _linked(address: int, path: str, **more: Any) -> str:
    stats = {
        "content_type": "application/octet-stream",
        "path": path,
        "path_type": "object",
        "physical_address": f"<address {address}>",
    }
    return json.dumps(stats | more, sort_keys=True).replace('"<now>"', "<now>")


DIFFERENCES = {
    "link twice": (
        _linked(1, "linked", checksum="c0ffee", metadata={}, mtime="<now>", size_bytes=8),
        "error 400",
        "A second link with one issued address",
    ),
    "link what was not uploaded": (
        _linked(2, "never", checksum="c", metadata={}, mtime="<now>", size_bytes=8),
        "error 400",
        "Link of an address that nothing was uploaded to",
    ),
    "stage from inside": (
        _linked(1, "staged", checksum="c", mtime=START, size_bytes=7),
        "error 400",
        "StageObject of an address inside the namespace",
    ),
    "stage from another store": (
        "error 400",
        "error 403",
        "StageObject of an address in another kind of store",
    ),
    "set negative rules": ("null", "error 400", "Negative retention days"),
    "restore over a full repository": (
        "error 400",
        "null",
        "Restoring the very refs that a repository has",
    ),
}


def test_transcripts_agree(
    compare_lakes: Any, open_session: Any, wait_until_completed: Wait
) -> None:
    """The official SDK can't tell the embedded lake from lakeFS but by the listed differences."""

    def script(target: Any) -> Any:
        run = open_session(target, REPO)
        _beginnings(run)
        _staging(run)
        _imports(run, wait_until_completed)
        _collection(run, wait_until_completed)
        _gone(run)
        _moving(run)
        return run.transcript

    compare_lakes(script, DIFFERENCES)
