"""Promises of commits: what they hold, how they are made from each other, and that they stay."""

from __future__ import annotations

import numpy as np

from lakesweep.catalogs.lakefs.graph import read_commit_graph
from lakesweep.catalogs.lakefs.ranges import committed_key, ranges_of_commits
from lakesweep.certify.promise import BrokenError, promise
from lakesweep.certify.throwaway import ThrowAway
from lakesweep.domain.commits import MetaRangeId
from lakesweep.formats.ranges import read_range_addresses

__all__ = ["PROMISES", "committed_addresses"]

_SUBJECT = "commits"


def committed_addresses(lake: ThrowAway) -> set[str]:
    """Addresses in all commits, dangling ones too, on a collector's road: refs, metaranges, ranges."""
    refs = read_commit_graph(lake.client, lake.store, lake.name)
    ids = np.unique(refs.graph.columns.meta_range_ids).tolist()
    metaranges = ranges_of_commits(lake.store, [MetaRangeId(raw.decode()) for raw in ids])
    counts = {committed_key(info.id): info.count for _, infos in metaranges for info in infos}
    return {
        address
        for key, data in lake.store.read_many(list(counts))
        for address in read_range_addresses(data, expected_count=counts[key])["address"].to_pylist()
    }


@promise(
    _SUBJECT,
    "a commit keeps the staged addresses",
    needed=True,
    without="Staged addresses are read before commits: an address that changes in between is in neither.",
)
def same_address(lake: ThrowAway) -> str:
    """Stage an object, commit it, and read its address by the commit and in the commit's range files."""
    branch = lake.branch("commit")
    staged = lake.upload(branch, "object")
    head = lake.commit(branch, "commit")
    if lake.address(head, "object") != staged:
        raise BrokenError("The committed entry has another address than the staged one had.")
    if staged not in committed_addresses(lake):
        raise BrokenError("The address is in no range file of any commit.")
    return "The entry has the address that was staged, and so has the range file."


@promise(
    _SUBJECT,
    "merges take addresses over",
    needed=True,
    without="Retention follows a merge's first parent: another order keeps and expires the wrong branch.",
)
def merges(lake: ThrowAway) -> str:
    """Merge a branch with one more object into another, and look at the merge's parents and at the object."""
    source, target = lake.branch("merge-from"), lake.branch("merge-to")
    address = lake.upload(source, "object")
    theirs = lake.commit(source, "source")
    ours = lake.commit(target, "target")
    lake.call("POST", "refs", source, "merge", target, body={})
    if list(lake.client.commit(lake.name, target).parents) != [ours, theirs]:
        raise BrokenError("The merge's parents are not the destination and then the source.")
    if lake.address(target, "object") != address:
        raise BrokenError("The merged entry has another address than its source.")
    return "Parents are destination, then source; the entry has its source's address."


@promise(
    _SUBJECT,
    "a revert brings old addresses back",
    needed=True,
    without="lakesweep reads commits again before it deletes, to see what came back: it must find the address there.",
)
def reverts(lake: ThrowAway) -> str:
    """Delete a committed object, commit, revert that commit, and read the object's address."""
    branch = lake.branch("revert")
    address = lake.upload(branch, "object")
    lake.commit(branch, "with the object")
    lake.delete(branch, "object")
    deleted = lake.commit(branch, "without it")
    body = {"ref": deleted, "parent_number": 0}
    lake.offered("POST", "branches", branch, "revert", body=body)
    if lake.address(branch, "object") != address:
        raise BrokenError("The entry that came back has another address, or none.")
    return "The entry is back with its old address."


@promise(
    _SUBJECT,
    "commits survive their branch",
    needed=True,
    without="A branch made from such a commit would lack objects that a collector had no reason to keep.",
)
def commits_survive(lake: ThrowAway) -> str:
    """Commit on a branch, delete the branch, dump the refs, and read the commit by its id and in the dump."""
    branch = lake.branch("short-lived")
    address = lake.upload(branch, "object")
    dangling = lake.commit(branch, "dangling")
    lake.drop_branch(branch)
    if lake.address(dangling, "object") != address:
        raise BrokenError("The commit does not read any more.")
    refs = read_commit_graph(lake.client, lake.store, lake.name)
    if dangling not in refs.graph:
        raise BrokenError("The commit is not in the dump of all refs.")
    return "The commit reads, and is in the dump of all refs."


@promise(
    _SUBJECT,
    "a dump has every branch and tag",
    needed=True,
    without="Retention is computed from the dump: what hangs on a branch or tag that it leaves out expires early.",
)
def whole_dump(lake: ThrowAway) -> str:
    """Make a branch, a hidden one and a tag, and compare the dump of all refs with the listings."""
    lake.branch("dumped")
    lake.branch("dumped-hidden", hidden=True)
    lake.call("POST", "tags", body={"id": "dumped-tag", "ref": "main"})
    refs = read_commit_graph(lake.client, lake.store, lake.name)
    if not {"main", "dumped", "dumped-hidden"} <= {head.id for head in refs.heads}:
        raise BrokenError("A branch is missing.")
    if "dumped-tag" not in {tag.id for tag in refs.tags}:
        raise BrokenError("A tag is missing.")
    return "Branches, the hidden one too, and the tag are in it."


PROMISES = (same_address, merges, reverts, commits_survive, whole_dump)
