"""A small collection that calls the real pieces in the real order (DESIGN rule 4).

The whole collector is a job of an engine with thousands of accesses; what matters for races are its reads of the
repository, in their order, and its deletes. So: the cut-off is fixed, the objects are listed, the lake's own `prepare`
calls give what is not committed and which commits are retained, `domain/verdicts.py` judges each object, and the
ledger's own code deletes. A sweep that renews its look, with the real lease and a deadline, is in `sweeping.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

import pyarrow as pa

from lakesweep.collector.lakefs.deletion import ObjectDeletion
from lakesweep.collector.ledger.deleting import Chunk, LedgerFolders, delete_chunk
from lakesweep.domain.verdicts import Facts, Source, Verdict, verdict
from lakesweep.formats.commits_csv import read_commits_csv
from lakesweep.formats.tables import MARK_SCHEMA, read_uncommitted, write_mark
from lakesweep_testing.schedules.invariants import Watch
from lakesweep_testing.schedules.ledger_watch import DELETED, LEDGER
from lakesweep_testing.schedules.references import References, address_in
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.world import World

_GARBAGE = (Verdict.EXPIRED, Verdict.UNREFERENCED)
_PARTS = "_lakefs/retention/gc/uncommitted/parts/"
_FOLDERS = LedgerFolders(LEDGER, DELETED)
_ANY_CLOCK = timedelta(days=36500)
_LONG = timedelta(days=1)
_BATCH = "batch-of-the-sweep"

Listed = dict[str, datetime]
"""When each listed object was written."""


def collect(actor: Actor) -> None:
    """List, look, judge, delete. As a sweep of one round, whose look comes after the listing of its mark."""
    cutoff = begin(actor)
    listed = list_objects(actor)
    delete(actor, find_garbage(listed, look(actor), cutoff))


def find_planned(world: World) -> list[str]:
    """What a mark finds while nobody else does anything: the plan of a later sweep."""
    lake, cutoff = world.lake, world.now - world.min_age
    world.rules = lake.rules.find(world.repository)
    marking = Actor("mark", world, Watch(world, References(world)), lake)
    return find_garbage(list_objects(marking), look(marking), cutoff)


def sweep_planned(planned: Sequence[str], *, is_fenced: bool) -> Act:
    """One round of a sweep of a plan: fence, look again, delete what is garbage still, lift."""

    def sweep(actor: Actor) -> None:
        cutoff = begin(actor)
        batches = actor.lake.fence_batches
        if is_fenced:
            batches.add(actor.repository, _BATCH, planned)
            batches.put_up(actor.repository, _BATCH, actor.world.now + _LONG)
        # A plan knows the age of its rows; what is live now is taken out.
        listed = dict.fromkeys(planned, cutoff - _LONG)
        delete(actor, find_garbage(listed, look(actor), cutoff))
        if is_fenced:
            batches.lift(actor.repository, _BATCH)

    return sweep


def begin(actor: Actor) -> datetime:
    """Fix the cut-off before anything is read."""
    cutoff = actor.world.now - actor.world.min_age
    actor.watch.collection_begins(actor.name, cutoff)
    return cutoff


def list_objects(actor: Actor) -> Listed:
    """Everything below `data/`."""
    return actor.store.times("data/")


def look(actor: Actor) -> set[str]:
    """Every live address: the uncommitted list first (pending, staged, copies), then the retained commits."""
    return look_at_uncommitted(actor) | look_at_commits(actor)


def look_at_uncommitted(actor: Actor) -> set[str]:
    """The lake's own list, page by page, read back from the files that it wrote."""
    live: set[str] = set()
    token = None
    while True:
        page = actor.lake.uncommitted_list.prepare(actor.repository, token)
        token = page.continuation_token
        if token is None:
            break
    if page.location:
        for key in actor.store.keys(actor.world.relative(page.location)):
            live.update(_addresses_in(actor.store.read(key)))
    return live


def look_at_commits(actor: Actor) -> set[str]:
    """Addresses in the commits that the lake says are retained, and in tagged ones where tags keep."""
    kept = []
    if actor.world.keep_tags:
        kept = [tag.commit_id for tag in actor.lake.tags.all(actor.repository)]
    prepared = actor.lake.retained_commits.prepare(actor.repository)
    rows = read_commits_csv(actor.store.read(actor.world.relative(prepared.commits_location)))
    metaranges = {row.meta_range_id for row in rows}
    metaranges |= {actor.lake.commits.get(actor.repository, c).meta_range_id for c in kept}
    committed = actor.lake.committing._committed
    return {
        address_in(value)
        for metarange_id in sorted(metaranges)
        for _, value in committed.iterate(actor.repository, metarange_id)
    }


def find_garbage(listed: Listed, live: set[str], cutoff: datetime) -> list[str]:
    """What the collector's own rules let go."""
    facts = {
        key: Facts(Source.LISTED, modified, is_live=key in live) for key, modified in listed.items()
    }
    return [key for key, known in facts.items() if verdict(known, cutoff) in _GARBAGE]


def delete(actor: Actor, garbage: Sequence[str], not_after: datetime | None = None) -> None:
    """Delete by the ledger's own code: intent, time left, delete, outcome."""
    for chunk in plan(actor, garbage, not_after or actor.world.now + _LONG):
        delete_chunk(actor.store, _FOLDERS, ObjectDeletion(root_names=False), chunk)


def plan(actor: Actor, garbage: Sequence[str], not_after: datetime) -> Iterator[Chunk]:
    """Write a part with these rows, and give it as a chunk; nothing for no rows."""
    if garbage:
        key = f"{_PARTS}{actor.name}-{'-'.join(garbage).replace('/', '')}.parquet"
        actor.store.write(key, _part_of(tuple(garbage)))
        yield Chunk(key, 0, len(garbage), not_after, _ANY_CLOCK)


def collect_quietly(world: World, watch: Watch) -> None:
    """Upkeep and a collection while nobody does anything else."""
    world.lake.housekeeping.run(world.now)
    collect(Actor("quiet", world, watch, world.lake))


def review_quietly(world: World) -> None:
    """Upkeep and reviews while nobody does anything else, until each record of the queue was due twice."""
    for _ in range(3):
        world.now += 2 * _LONG
        world.lake.housekeeping.run(world.now)
        world.lake.reviewer.run()


@lru_cache(maxsize=1024)
def _part_of(garbage: tuple[str, ...]) -> bytes:
    rows = [{"address": key, "size_bytes": 1} for key in garbage]
    return write_mark(pa.Table.from_pylist(rows, schema=MARK_SCHEMA))


@lru_cache(maxsize=1024)
def _addresses_in(data: bytes) -> frozenset[str]:
    return frozenset(read_uncommitted(data).column(0).to_pylist())
