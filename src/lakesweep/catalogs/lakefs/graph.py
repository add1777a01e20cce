"""The whole commit graph of a repository, with its branches and tags.

One refs dump gives every commit, dangling ones included, which no other call does. A user without the right to dump
gets the commits that branches and tags reach; what else was ever committed must then be taken from the range files.

There may be a million commits: collections get them in columns (`History`). Explanations of a few objects get them as objects.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.history import History
from lakesweep.domain.commits import (
    BranchHead,
    Commit,
    CommitGraph,
    CommitId,
    HeadMove,
    MetaRangeId,
    Tag,
)
from lakesweep.errors import (
    CatalogDeniedError,
    CatalogNotFoundError,
    FormatError,
    ObjectNotFoundError,
    UnsafeToSweepError,
)
from lakesweep.formats.commit_columns import texts
from lakesweep.formats.damage import named_damage
from lakesweep.formats.refs_dump import MANIFEST_KEY, RefsManifest, commit_files, read_dumped_refs
from lakesweep.storage import ObjectStore

__all__ = ["GraphSource", "RepositoryRefs", "read_commit_graph", "read_refs_without_dump"]

logger = logging.getLogger(__name__)

# Commits made while the dump was written are read one by one; more than this is no longer "a few".
_MOST_COMMITS_AFTER_DUMP = 10_000


class GraphSource(StrEnum):
    """Where a graph came from."""

    DUMP = "refs-dump"
    LIST = "commit-list"
    LOGS = "logs"


_Graph = TypeVar("_Graph", History, CommitGraph)


@dataclass(frozen=True, slots=True)
class RepositoryRefs(Generic[_Graph]):
    """Commits, branches and tags of a repository, and the head moves where the server logs them.

    When `complete` is false, dangling commits are missing: every range file under `_lakefs/` must count as committed.
    """

    graph: _Graph
    heads: tuple[BranchHead, ...]
    tags: tuple[Tag, ...]
    source: GraphSource
    head_moves: tuple[HeadMove, ...] = ()
    dump_files: tuple[
        str, ...
    ] = ()  # of the dump made for this reading, and of no dump of a user's

    @property
    def complete(self) -> bool:
        """Whether the graph holds the dangling commits too."""
        return self.source is not GraphSource.LOGS


def read_commit_graph(
    client: LakeFSClient, store: ObjectStore, repository: str, *, with_head_moves: bool = False
) -> RepositoryRefs[History]:
    """Read all refs. `with_head_moves` asks for the log of head moves too, which the embedded lake keeps.

    Raises:
        UnsafeToSweepError: a file of the dump is missing or damaged, or commits could not be completed.
    """
    try:
        refs = _read_by_dump(client, store, repository)
    except CatalogDeniedError as denied:
        logger.warning(
            "repo#%s no right to dump refs (%s); reading branch logs, and every range file will count as committed",
            repository,
            denied.message,
        )
        heads, tags, commits = _read_logs(client, repository)
        refs = RepositoryRefs(History.of(commits), heads, tags, GraphSource.LOGS)
    # Moves after branches: a branch that goes in between is in the branches read, or in the moves, or in both.
    moves = tuple(client.head_moves(repository)) if with_head_moves else ()
    named = [head.commit_id for head in refs.heads]
    named += [tag.commit_id for tag in refs.tags] + [move.commit_id for move in moves]
    graph = _with_commits_made_since(client, repository, refs.graph, named)
    logger.info(
        "repo#%s refs read from %s; commits: %d, branches: %d, tags: %d, moves of heads: %d",
        repository,
        refs.source,
        len(graph),
        len(refs.heads),
        len(refs.tags),
        len(moves),
    )
    return replace(refs, graph=graph, head_moves=moves)


def read_refs_without_dump(
    client: LakeFSClient,
    repository: str,
    *,
    lists_commits: bool,
    further: Sequence[CommitId] = (),
) -> RepositoryRefs[CommitGraph]:
    """Read all refs with questions alone, so that the server writes nothing.

    The embedded lake lists its commits (`lists_commits`) and logs its head moves. Of any other server the logs of its
    branches and tags are read, and of `further` commits; what none of those reaches stays unknown.
    """
    if not lists_commits:
        heads, tags, commits = _read_logs(client, repository, further)
        return RepositoryRefs(CommitGraph(commits), heads, tags, GraphSource.LOGS)
    heads, tags = tuple(client.branches(repository)), tuple(client.tags(repository))
    moves = tuple(client.head_moves(repository))
    # Commits last: they only become more, so every commit that was named above is among them.
    graph = CommitGraph(client.all_commits(repository))
    return RepositoryRefs(graph, heads, tags, GraphSource.LIST, moves)


def _read_by_dump(
    client: LakeFSClient, store: ObjectStore, repository: str
) -> RepositoryRefs[History]:
    earlier_manifest = _read_if_there(store, MANIFEST_KEY)
    answer = client.dump_refs(repository)
    dump = RefsManifest(
        MetaRangeId(answer.commits_meta_range_id),
        MetaRangeId(answer.tags_meta_range_id),
        MetaRangeId(answer.branches_meta_range_id),
    )
    # The dump replaces the manifest, and a user may want to restore from the one that was there.
    is_last_dump = _put_back(store, earlier_manifest, dump)
    keys: list[str] = []

    def read_file(key: str) -> bytes:
        keys.append(key)
        return store.read(key)

    try:
        with named_damage(f"the refs dump of {repository}"):
            read = read_dumped_refs(read_file, dump)
    except ObjectNotFoundError as missing:
        raise UnsafeToSweepError(
            f"The refs dump of {repository} is not whole: {missing.message} Nothing was deleted. Check that the "
            "storage namespace and its credentials are those of the server.",
            kind="refs-dump-incomplete",
        ) from missing
    return RepositoryRefs(
        History(read.commits),
        tuple(read.branches),
        tuple(read.tags),
        GraphSource.DUMP,
        dump_files=_files_of_ours(store, keys, dump, earlier_manifest) if is_last_dump else (),
    )


def _files_of_ours(
    store: ObjectStore, keys: list[str], dump: RefsManifest, earlier_manifest: bytes | None
) -> tuple[str, ...]:
    """The files of the dump that no dump of a user's can have: files are named by what they hold.

    Without an earlier manifest nobody has dumped. Else commits only become more, so that a file of commits which the
    user's last dump does not have is in none of theirs. Branches and tags may be again what they once were.
    """
    if earlier_manifest is None:
        return tuple(keys)
    try:
        theirs = set(commit_files(store.read, RefsManifest.decode(earlier_manifest)))
        return tuple(key for key in commit_files(store.read, dump) if key not in theirs)
    except (FormatError, ObjectNotFoundError) as error:
        logger.info("files of the refs dump stay, as the user's own can't be read: %s", error)
        return ()


def _put_back(store: ObjectStore, earlier_manifest: bytes | None, dump: RefsManifest) -> bool:
    """Leave the manifest as it was; false where somebody dumped after us, whose manifest stays."""
    now_there = _read_if_there(store, MANIFEST_KEY)
    if now_there is None or not _names_dump(now_there, dump):
        return False
    if earlier_manifest is not None:
        store.write(MANIFEST_KEY, earlier_manifest)
    else:
        store.delete_many([MANIFEST_KEY])
    return True


def _names_dump(manifest: bytes, dump: RefsManifest) -> bool:
    try:
        return RefsManifest.decode(manifest) == dump
    except FormatError:
        return False


def _read_if_there(store: ObjectStore, key: str) -> bytes | None:
    try:
        return store.read(key)
    except ObjectNotFoundError:
        return None


def _read_logs(
    client: LakeFSClient, repository: str, further: Sequence[CommitId] = ()
) -> tuple[tuple[BranchHead, ...], tuple[Tag, ...], Iterator[Commit]]:
    """Branches, tags, and the commits that they and `further` lead to, each once."""
    heads, tags = tuple(client.branches(repository)), tuple(client.tags(repository))
    tips = [head.commit_id for head in heads] + [tag.commit_id for tag in tags]
    known: set[CommitId] = set()
    distinct = dict.fromkeys([*tips, *further])
    return heads, tags, (c for tip in distinct for c in _ancestors(client, repository, tip, known))


def _ancestors(
    client: LakeFSClient, repository: str, tip: CommitId, known: set[CommitId]
) -> Iterator[Commit]:
    """A commit and what it descends from, without those that are known; `known` has the parents of all it has, before and after."""
    if tip in known:
        return
    missing = {tip}
    for commit in client.log(repository, tip):
        missing.discard(commit.id)
        if commit.id not in known:
            known.add(commit.id)
            yield commit
        missing.update(parent for parent in commit.parents if parent not in known)
        if not missing:
            return  # branches share most of their history: read only what is new
    raise UnsafeToSweepError(
        f"The log of {tip} in {repository} ended before its parents {sorted(missing)[:3]} came. Nothing was deleted. "
        "Run again; if it stays so, the server has lost commits.",
        kind="commit-graph-incomplete",
    )


def _with_commits_made_since(
    client: LakeFSClient, repository: str, graph: History, named: Iterable[CommitId]
) -> History:
    """The graph with the commits that branches got while it was being read, and their parents."""
    distinct = list(dict.fromkeys(named))
    is_known = (graph.rows_of(texts(distinct)) >= 0).tolist()
    wanted = [commit_id for commit_id, known in zip(distinct, is_known, strict=True) if not known]
    if not wanted:
        return graph
    added: dict[CommitId, Commit] = {}
    while wanted:
        commit_id = wanted.pop()
        if commit_id in graph or commit_id in added:
            continue
        if len(added) == _MOST_COMMITS_AFTER_DUMP:
            raise UnsafeToSweepError(
                f"More than {_MOST_COMMITS_AFTER_DUMP} commits of {repository} are not in its refs dump. Nothing was "
                "deleted. Run again.",
                kind="commit-graph-incomplete",
            )
        try:
            added[commit_id] = client.commit(repository, commit_id)
        except CatalogNotFoundError as missing:
            raise UnsafeToSweepError(
                f"Commit {commit_id} of {repository} is named, but the server does not have it. Nothing was deleted.",
                kind="commit-graph-incomplete",
            ) from missing
        wanted.extend(added[commit_id].parents)
    return graph.with_commits(added.values())
