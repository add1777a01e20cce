"""The fence: which addresses of a repository are being deleted, so that nobody makes a new reference to one of them.

One record per repository, written anew with a higher version at every change and never removed: a value that was read
once and is there still says that nothing was condemned and nothing lifted in between. Whoever makes a reference to an
address that exists

1. reads the fence,
2. reads what the reference is made from (the staged entry, the commit), *after* the fence,
3. is refused when an address of it is condemned,
4. writes in a transaction that finds the fence as it was read; if it changed, all begins again at 1.

The record is there before anybody relies on it (the first reader writes it): a database locks rows, not their absence.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.errors import CondemnedError
from lakesweep.lake.kv.interface import Change, Held, scan
from lakesweep.lake.records import decode_record, encode_long_record, from_micros, to_micros
from lakesweep.lake.values import Repository

KEY = b"fence"
_EXAMPLES = 3
_ASKED_ONE_BY_ONE = 20
_SCAN_ROWS = 20_000


class FenceMovedError(Exception):
    """The fence is not what it was when it was read, so nothing was written: begin again by reading it."""


@dataclass(frozen=True, slots=True)
class Condemnation:
    """The mark on an address that is being deleted: its id, which every review that takes it over renews, and since when."""

    id: str
    since: datetime


@dataclass(frozen=True, slots=True)
class FenceState:
    """The content of a repository's fence at one moment: single condemned addresses, and batches of sweeps."""

    version: int = 0
    condemned: Mapping[str, Condemnation] = field(default_factory=dict)
    batches: Mapping[str, datetime] = field(default_factory=dict)
    """Batches of a collector's sweep, whose addresses lie in rows of their own, and until when each stands."""
    has_condemned: bool = False
    """Whether a review ever condemned anything here."""


@dataclass(frozen=True, slots=True)
class FoundFence:
    """The fence as it was read, with the condition that a write finds it so."""

    state: FenceState
    held: Held


class Fence:
    """The fences of all repositories."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._hashes: tuple[str, frozenset[int]] | None = None
        self.refusals = 0
        """Operations of this process that met a condemned address."""

    def read(self, repository: Repository) -> FoundFence:
        """The fence as it is now."""
        partition = partition_of(repository)
        raw = self._context.kv.get(partition, KEY)
        while raw is None:
            self._context.kv.set_if(partition, KEY, _encode(FenceState()), None)
            raw = self._context.kv.get(partition, KEY)
        return FoundFence(_decode(raw), (partition, KEY, raw))

    def state_if_any(self, repository: Repository) -> FenceState:
        """What is condemned now, without writing the record of a fence that nobody has needed yet."""
        raw = self._context.kv.get(partition_of(repository), KEY)
        return FenceState() if raw is None else _decode(raw)

    def change(self, found: FoundFence, state: FenceState) -> Change:
        """A compare-and-set of the fence to another state, for the transaction that also writes what belongs to it."""
        partition, key, raw = found.held
        return Change(partition, key, _encode(replace(state, version=found.state.version + 1)), raw)

    def refuse_condemned(
        self, repository: Repository, found: FoundFence, addresses: Collection[str], not_done: str
    ) -> None:
        """Raise `CondemnedError` when one of the addresses is being deleted."""
        condemned = found.state.condemned
        wrong = [address for address in addresses if address in condemned] if condemned else []
        if not wrong:
            wrong = self._in_batches(repository, found, addresses)
        if wrong:
            raise self._refusal(repository, wrong, not_done)

    def refuse_during_sweep(self, repository: Repository, found: FoundFence, not_done: str) -> None:
        """Raise `CondemnedError` while a collector's sweep is deleting, whatever addresses it deletes."""
        if self.standing_batches(found):
            self.count_refusal()
            raise CondemnedError(
                f"a sweep is deleting objects of repository {repository.id} by the rules that hold; {not_done}."
                " Try again when it is over.",
                kind="sweep-under-way",
            )

    def batch_partition(self, repository: Repository, batch_id: str) -> str:
        """The partition of the ref store whose keys are the addresses of a batch."""
        return f"{partition_of(repository)}-fence-{batch_id}"

    def standing_batches(self, found: FoundFence) -> list[str]:
        """The batches of sweeps that may be deleting now."""
        now = self._context.now()
        return [batch_id for batch_id, until in found.state.batches.items() if now < until]

    def count_refusal(self) -> None:
        """Count an operation that was refused."""
        with self._lock:
            self.refusals += 1

    def _in_batches(
        self, repository: Repository, found: FoundFence, addresses: Collection[str]
    ) -> list[str]:
        kv = self._context.kv
        wrong: list[str] = []
        for batch_id in self.standing_batches(found):
            partition = self.batch_partition(repository, batch_id)
            some = addresses
            if len(addresses) > _ASKED_ONE_BY_ONE:
                hashes = self._batch_hashes(partition)
                some = [address for address in addresses if hash(address) in hashes]
            wrong += [
                address for address in some if kv.get(partition, address.encode()) is not None
            ]
        return wrong

    def _batch_hashes(self, partition: str) -> frozenset[int]:
        """Hashes of a batch's addresses, which never change while it stands; those used last are kept."""
        with self._lock:
            if self._hashes is not None and self._hashes[0] == partition:
                return self._hashes[1]
        rows = scan(self._context.kv, partition, page_rows=_SCAN_ROWS)
        hashes = frozenset(hash(key.decode()) for key, _ in rows)
        with self._lock:
            self._hashes = (partition, hashes)
        return hashes

    def _refusal(self, repository: Repository, addresses: list[str], not_done: str) -> Exception:
        self.count_refusal()
        named = ", ".join(addresses[:_EXAMPLES])
        more = f" and {len(addresses) - _EXAMPLES} more" if len(addresses) > _EXAMPLES else ""
        return CondemnedError(
            f"{named}{more} of repository {repository.id} is being deleted for good, because nothing referred to it any"
            f" more; {not_done}. Try again in a minute; if it is refused or missing then, upload the object again."
        )


def _encode(state: FenceState) -> bytes:
    return encode_long_record(
        {
            "version": state.version,
            "condemned": {
                address: [one.id, to_micros(one.since)] for address, one in state.condemned.items()
            },
            "batches": {name: to_micros(until) for name, until in state.batches.items()},
            "has_condemned": state.has_condemned,
        }
    )


# Every maker of references reads it, and most find it unchanged.
@lru_cache(maxsize=256)
def _decode(raw: bytes) -> FenceState:
    fields = decode_record(raw)
    return FenceState(
        version=fields["version"],
        condemned={
            address: Condemnation(name, from_micros(since))
            for address, (name, since) in fields["condemned"].items()
        },
        batches={name: from_micros(until) for name, until in fields["batches"].items()},
        has_condemned=fields["has_condemned"],
    )
