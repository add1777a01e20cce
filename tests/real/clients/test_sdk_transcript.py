"""Repositories, objects, commits, branches and tags through lakeFS's generated Python SDK, on both lakes."""

from __future__ import annotations

from typing import Any

import lakefs_sdk as sdk
import pytest

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    # The SDK warns of the calls that lakeFS would rather not see used; they are part of the scope all the same.
    pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning"),
]

REPO = "sdk-repo"


def _repositories(run: Any) -> None:
    api, see = run.client.repositories_api, run.see
    namespace = f"s3://{run.target.bucket}/{REPO}"
    create = sdk.RepositoryCreation(name=REPO, storage_namespace=namespace)
    see("create repository", lambda: api.create_repository(create))
    see("create it again", lambda: api.create_repository(create))
    taken = sdk.RepositoryCreation(name=f"{REPO}-2", storage_namespace=namespace)
    see("create in a namespace in use", lambda: api.create_repository(taken))
    see("get repository", lambda: api.get_repository(REPO))
    see("get no repository", lambda: api.get_repository("nothing"))
    see("list repositories", lambda: api.list_repositories(prefix=REPO))
    see("repository metadata", lambda: api.get_repository_metadata(REPO))
    see("health", lambda: run.client.health_check_api.health_check())
    see("grace period", lambda: run.client.internal_api.get_garbage_collection_config())
    see("who am i", lambda: run.client.auth_api.get_current_user().user.id)


def _objects(run: Any) -> None:
    api, see = run.client.objects_api, run.see
    see("upload", lambda: run.upload("a/b.txt", b"hello world"))
    see("upload another", lambda: run.upload("a/c.txt", b"other"))
    see("upload at the root", lambda: run.upload("root.bin", b"\x00\x01\x02"))
    see("upload strange names", lambda: run.upload("ü/ space/+%&=?#.txt", b"strange"))
    see("upload to no branch", lambda: run.upload("x", b"x", "nope"))
    see(
        "upload if absent, present",
        lambda: api.upload_object(REPO, "main", "a/b.txt", if_none_match="*", content=b"no"),
    )
    see("stat", lambda: api.stat_object(REPO, "main", "a/b.txt"))
    see("stat nothing", lambda: api.stat_object(REPO, "main", "nope"))
    see("get", lambda: api.get_object(REPO, "main", "a/b.txt"))
    see("get a range", lambda: api.get_object(REPO, "main", "a/b.txt", range="bytes=6-8"))
    see("get the end", lambda: api.get_object(REPO, "main", "a/b.txt", range="bytes=-3"))
    see("get beyond", lambda: api.get_object(REPO, "main", "a/b.txt", range="bytes=50-60"))
    see("get nothing", lambda: api.get_object(REPO, "main", "nope"))
    see("get on no branch", lambda: api.get_object(REPO, "nope", "a/b.txt"))
    see("head", lambda: api.head_object(REPO, "main", "a/b.txt"))
    see("head nothing", lambda: api.head_object(REPO, "main", "nope"))
    see("list", lambda: api.list_objects(REPO, "main"))
    see("list folded", lambda: api.list_objects(REPO, "main", delimiter="/"))
    see("list a prefix", lambda: api.list_objects(REPO, "main", prefix="a/", delimiter="/"))
    see("list one", lambda: api.list_objects(REPO, "main", amount=1))
    see("list after", lambda: api.list_objects(REPO, "main", after="a/b.txt", amount=2))
    metadata = sdk.UpdateObjectUserMetadata(set={"k": "v"})
    see(
        "set metadata",
        lambda: run.client.experimental_api.update_object_user_metadata(
            REPO, "main", "a/b.txt", metadata
        ),
    )
    see("stat with metadata", lambda: api.stat_object(REPO, "main", "a/b.txt"))
    see("properties", lambda: api.get_underlying_properties(REPO, "main", "a/b.txt"))
    see("uncommitted", lambda: run.client.branches_api.diff_branch(REPO, "main"))
    see(
        "uncommitted, folded",
        lambda: run.client.branches_api.diff_branch(REPO, "main", delimiter="/"),
    )


def _commits(run: Any) -> None:
    api, see = run.client.commits_api, run.see
    first = see("commit", lambda: run.commit("first", metadata={"key": "value"}))
    see("commit nothing", lambda: run.commit("empty"))
    see("commit nothing on purpose", lambda: run.commit("empty", allow_empty=True))
    see("commit on no branch", lambda: run.commit("x", "nope"))
    see("get commit", lambda: api.get_commit(REPO, first.id))
    see("get by prefix", lambda: api.get_commit(REPO, first.id[:10]))
    see("get by expression", lambda: api.get_commit(REPO, "main~1"))
    see("get by second parent", lambda: api.get_commit(REPO, "main^2"))
    see("get no commit", lambda: api.get_commit(REPO, "nothing"))
    refs = run.client.refs_api
    see("log", lambda: refs.log_commits(REPO, "main"))
    see("log, one", lambda: refs.log_commits(REPO, "main", amount=1))
    see("log, limited", lambda: refs.log_commits(REPO, "main", amount=1, limit=True))
    see("log, first parents", lambda: refs.log_commits(REPO, "main", first_parent=True))
    see("log of an object", lambda: refs.log_commits(REPO, "main", objects=["a/b.txt"]))
    see("log of a prefix", lambda: refs.log_commits(REPO, "main", prefixes=["ü/"]))
    see("log to a stop", lambda: refs.log_commits(REPO, "main", stop_at=first.id))
    see("log of nothing", lambda: refs.log_commits(REPO, "nothing"))
    where = run.client.metadata_api.get_meta_range
    see("where is the metarange", lambda: where(REPO, first.meta_range_id))


def _changes(run: Any) -> None:
    api, see = run.client.objects_api, run.see
    see("delete", lambda: api.delete_object(REPO, "main", "a/c.txt"))
    see("delete nothing", lambda: api.delete_object(REPO, "main", "nope"))
    run.upload("new", b"staged")
    see("list after changes", lambda: api.list_objects(REPO, "main"))
    see("list the head", lambda: api.list_objects(REPO, "main@"))
    see("diff after changes", lambda: run.client.branches_api.diff_branch(REPO, "main"))
    see(
        "delete many",
        lambda: api.delete_objects(REPO, "main", sdk.PathList(paths=["new", "root.bin", "nope"])),
    )
    see("diff after deletes", lambda: run.client.branches_api.diff_branch(REPO, "main"))
    reset = run.client.branches_api.reset_branch
    see(
        "reset an object",
        lambda: reset(REPO, "main", sdk.ResetCreation(type="object", path="root.bin")),
    )
    see(
        "reset what is not staged",
        lambda: reset(REPO, "main", sdk.ResetCreation(type="object", path="never")),
    )
    see("diff after a reset", lambda: run.client.branches_api.diff_branch(REPO, "main"))
    see(
        "reset a prefix",
        lambda: reset(REPO, "main", sdk.ResetCreation(type="common_prefix", path="a/")),
    )
    see("reset", lambda: reset(REPO, "main", sdk.ResetCreation(type="reset")))
    see("diff after all resets", lambda: run.client.branches_api.diff_branch(REPO, "main"))

    def copy(dest: str, **source: Any) -> Any:
        made = api.copy_object(REPO, "main", dest, sdk.ObjectCopyCreation(**source))
        return {"path": made.path, "checksum": made.checksum, "size": made.size_bytes}

    see("copy a committed object", lambda: copy("copied", src_path="root.bin"))
    see("copy from a commit", lambda: copy("copied-2", src_path="root.bin", src_ref="main~1"))
    see("copy nothing", lambda: copy("copied-3", src_path="nope"))
    see("copy shallow", lambda: copy("copied-4", src_path="root.bin", shallow=True))
    see("read the copy", lambda: api.get_object(REPO, "main", "copied"))
    see("commit the copies", lambda: run.commit("copies"))


def _branches(run: Any) -> None:
    api, refs, see = run.client.branches_api, run.client.refs_api, run.see

    def create(name: str, source: str = "main") -> Any:
        return api.create_branch(REPO, sdk.BranchCreation(name=name, source=source))

    see("create branch", lambda: create("dev"))
    see("create it twice", lambda: create("dev"))
    see("create a bad name", lambda: create("d/ev"))
    see("create from nothing", lambda: create("dev2", "nothing"))
    see("create from an expression", lambda: create("old", "main~2"))
    see("get branch", lambda: api.get_branch(REPO, "dev"))
    see("get no branch", lambda: api.get_branch(REPO, "nope"))
    see("list branches", lambda: api.list_branches(REPO))
    see("list a page of branches", lambda: api.list_branches(REPO, amount=1, after="dev"))
    run.upload("only-dev", b"dev", "dev")
    run.upload("both", b"dev's", "dev")
    run.commit("on dev", "dev")
    see("diff refs", lambda: refs.diff_refs(REPO, "main", "dev"))
    see("diff refs, two dots", lambda: refs.diff_refs(REPO, "dev", "main", type="two_dot"))
    see("merge base", lambda: refs.find_merge_base(REPO, "dev", "main"))
    run.upload("dirt", b"dirt")
    see("merge into dirt", lambda: refs.merge_into_branch(REPO, "dev", "main"))
    api.reset_branch(REPO, "main", sdk.ResetCreation(type="reset"))
    see("merge", lambda: refs.merge_into_branch(REPO, "dev", "main"))
    see("merge again", lambda: refs.merge_into_branch(REPO, "dev", "main"))
    see("merged commit", lambda: run.client.commits_api.get_commit(REPO, "main"))
    run.upload("both", b"main's")
    run.commit("main changes both")
    run.upload("both", b"dev's second", "dev")
    run.commit("dev changes both", "dev")
    see("diff with a conflict", lambda: refs.diff_refs(REPO, "main", "dev"))
    see("merge a conflict", lambda: refs.merge_into_branch(REPO, "dev", "main"))
    wins = sdk.Merge(strategy="source-wins", message="theirs", metadata={"who": "dev"})
    see("merge with a strategy", lambda: refs.merge_into_branch(REPO, "dev", "main", merge=wins))
    see("who won", lambda: run.client.objects_api.get_object(REPO, "main", "both"))
    see("the winning commit", lambda: run.client.commits_api.get_commit(REPO, "main"))
    coin = sdk.Merge(strategy="coin")
    see("merge by chance", lambda: refs.merge_into_branch(REPO, "dev", "main", merge=coin))


def _taking_back(run: Any) -> None:
    api, see = run.client.branches_api, run.see

    def revert(ref: str, parent: int) -> Any:
        return api.revert_branch(REPO, "main", sdk.RevertCreation(ref=ref, parent_number=parent))

    see("revert a merge without a parent", lambda: revert("main", 0))
    see("revert a parent it has not", lambda: revert("main", 5))
    see("revert a merge", lambda: revert("main", 1))
    see("who is back", lambda: run.client.objects_api.get_object(REPO, "main", "both"))
    see("the reverting commit", lambda: run.client.commits_api.get_commit(REPO, "main"))
    see("revert nothing", lambda: revert("nothing", 0))
    run.upload("cherry", b"red", "dev")
    picked = run.commit("grow a cherry", "dev")

    def pick(ref: str) -> Any:
        return api.cherry_pick(REPO, "main", sdk.CherryPickCreation(ref=ref))

    see("cherry-pick", lambda: pick(picked.id))
    see("cherry-pick what is there", lambda: pick(picked.id))
    see("cherry-pick nothing", lambda: pick("nothing"))
    hard_reset = run.client.experimental_api.hard_reset_branch
    see("hard reset", lambda: hard_reset(REPO, "dev", "main~1"))
    see("hard reset to nothing", lambda: hard_reset(REPO, "dev", "nothing"))
    see("where dev is", lambda: api.get_branch(REPO, "dev"))
    see("delete branch", lambda: api.delete_branch(REPO, "old"))
    see("delete it twice", lambda: api.delete_branch(REPO, "old"))
    see("delete the default branch", lambda: api.delete_branch(REPO, "main"))
    tags = run.client.tags_api

    def tag(name: str, ref: str = "main") -> Any:
        return tags.create_tag(REPO, sdk.TagCreation(id=name, ref=ref))

    see("tag", lambda: tag("v1"))
    see("tag twice", lambda: tag("v1"))
    see("tag badly", lambda: tag("v 1"))
    see("tag nothing", lambda: tag("v2", "nothing"))
    see("get tag", lambda: tags.get_tag(REPO, "v1"))
    see("read at a tag", lambda: run.client.objects_api.get_object(REPO, "v1", "cherry"))
    see("list tags", lambda: tags.list_tags(REPO))
    see("delete tag", lambda: tags.delete_tag(REPO, "v1"))
    see("get no tag", lambda: tags.get_tag(REPO, "v1"))


DIFFERENCES = {
    "get by second parent": (
        "error 500",
        "error 404",
        "A parent that a commit does not have (`main^2`)",
    ),
    "merge base": (
        '{"base_commit_id": "<id 5>", "destination_commit_id": "<id 7>", "source_commit_id": "<id 5>"}',
        '{"base_commit_id": "<id 5>", "destination_commit_id": "<id 5>", "source_commit_id": "<id 7>"}',
        "Merge base: which commit is the source",
    ),
}


def test_transcripts_agree(compare_lakes: Any, open_session: Any) -> None:
    """The official SDK can't tell the embedded lake from lakeFS but by the listed differences."""

    def script(target: Any) -> Any:
        run = open_session(target, REPO)
        for chapter in (_repositories, _objects, _commits, _changes, _branches, _taking_back):
            chapter(run)
        return run.transcript

    compare_lakes(script, DIFFERENCES)
