"""Canaries: addresses that branches read, taken through the server's API, which must all come out as live.

They catch what no count can: an address that the collector spells otherwise than the server does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakesweep.engine.cells import Hashes
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.hashing import hash_addresses
from lakesweep.runs.context import RunContext

_CANARIES = 1000
_MOST_BRANCHES = 40


@dataclass(frozen=True, slots=True)
class Canary:
    """An entry that a branch read before anything else was read."""

    branch: str
    path: str
    address: str


def take_canaries(context: RunContext) -> list[Canary]:
    """Up to a thousand entries inside the namespace, from branches spread over all there are."""
    normaliser = context.target.normaliser()
    branches = context.client.branches(context.name)
    step = max(1, len(branches) // _MOST_BRANCHES)
    chosen = branches[::step][:_MOST_BRANCHES]
    canaries: list[Canary] = []
    for branch in chosen:
        share = _CANARIES // len(chosen)
        for entry in context.client.list_objects(context.name, branch.id, limit=share):
            address = normaliser.relative(entry.physical_address)
            if address is not None:
                canaries.append(Canary(branch.id, entry.path, address))
    return canaries


def find_unlisted_live(
    context: RunContext, canaries: Sequence[Canary], dead: Hashes
) -> tuple[str, ...]:
    """What became of canaries that no reference explained: the addresses that must be kept on top.

    One whose branch reads something else by now is no canary any more. One that a real server leaves out of its
    list because the same content is committed at the same path is kept. Any other refuses the run.
    """
    if not len(dead) or not canaries:
        return ()
    normaliser = context.target.normaliser()
    hashes = hash_addresses(pa.array([c.address for c in canaries], pa.string()))
    kept: list[str] = []
    for index in np.flatnonzero(np.isin(hashes, dead)):
        canary = canaries[int(index)]
        now = context.client.stat_object(context.name, canary.branch, canary.path)
        if now is None or normaliser.relative(now.physical_address) != canary.address:
            continue
        committed = context.client.stat_object(context.name, f"{canary.branch}@", canary.path)
        same_content = committed is not None and (committed.checksum, committed.size_bytes) == (
            now.checksum,
            now.size_bytes,
        )
        if context.profile.is_embedded or not same_content:
            raise UnsafeToSweepError(
                f"{canary.path} on branch {canary.branch} of {context.name} reads {canary.address}, which came out as not live. "
                "What is live was not understood, so nothing was deleted. Report this with the run record.",
                kind="dead-canary",
            )
        kept.append(canary.address)
    return tuple(kept)
