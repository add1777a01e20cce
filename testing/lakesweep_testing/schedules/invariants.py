"""What must hold after every step of every schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from lakesweep.domain.cutoff import is_old_enough
from lakesweep_testing.schedules.ledger_watch import LedgerWatch
from lakesweep_testing.schedules.references import References
from lakesweep_testing.schedules.steps import (
    OBJECTS,
    Access,
    is_data_delete,
    may_change_staged,
)
from lakesweep_testing.schedules.world import World

LEAK = "leak"


class Harm(NamedTuple):
    """Something that may never happen, and did."""

    kind: str
    text: str

    @property
    def is_leak(self) -> bool:
        """Whether something stays for ever, rather than being lost."""
        return self.kind == LEAK


class _Collection(NamedTuple):
    cutoff: datetime
    tracked: frozenset[str]


@dataclass(eq=False)
class Watch:
    """Looks at the world after every step. The first harm it sees is kept, and ends the schedule."""

    world: World
    references: References
    model: Callable[[World], str] | None = None
    harm: Harm | None = None
    gone: set[str] = field(default_factory=set)
    ever_staged: set[str] = field(default_factory=set)
    _collections: dict[str, _Collection] = field(default_factory=dict)
    _leases: dict[str, datetime] = field(default_factory=dict)
    _not_after: dict[str, datetime] = field(default_factory=dict)
    _modified: datetime | None = None

    def __post_init__(self) -> None:
        self.ever_staged.update(self.references.staged_at_first)
        self.ledger = LedgerWatch(self.world)

    def collection_begins(self, actor: str, cutoff: datetime) -> None:
        """From now on the actor deletes as a collection: nothing young, nothing tracked, all of it by the ledger."""
        tracked = frozenset(self.references.tracked())
        self._collections[actor] = _Collection(cutoff, tracked)

    def may_delete_until(self, actor: str, not_after: datetime) -> None:
        """A look allows the actor to delete until then, and no longer."""
        self._not_after[actor] = not_after

    def holds_lease(self, actor: str, until: datetime) -> None:
        """The actor believes to hold the lease until then: nobody else may, until it has run out."""
        now = self.world.now
        others = [end for other, end in self._leases.items() if other != actor]
        if until >= now and any(end >= now for end in others):
            self.complain(f"{actor} took the lease while another held it")
        self._leases[actor] = until

    def lets_go_of_lease(self, actor: str) -> None:
        """The actor is done."""
        self._leases.pop(actor, None)

    def complain(self, text: str) -> None:
        """A program itself saw what may not happen."""
        self.harm = self.harm or Harm("program", text)

    def before(self, access: Access) -> None:
        """Called before a step."""
        if is_data_delete(access):
            present = self.world.container.objects.get(self.world.full_key(str(access.key)))
            self._modified = None if present is None else present.last_modified

    def after(self, actor: str, access: Access) -> None:
        """Called after a step."""
        if not access.is_write or self.harm is not None:
            return
        if self.model is not None:
            wrong = self.model(self.world)
            self.harm = Harm("loss", wrong) if wrong else None
            return
        if access.place != OBJECTS:
            self.harm = self._after_record(access)
        elif is_data_delete(access):
            if self._modified is not None and not self._exists(str(access.key)):
                self.gone.add(str(access.key))
                self.harm = self._after_delete(actor, str(access.key), self._modified)
        else:
            said = self.ledger.after_write(str(access.key))
            self.harm = Harm("ledger", said) if said else None

    def _after_record(self, access: Access) -> Harm | None:
        references = self.references
        staged = references.staged() if may_change_staged(access) else {}
        self.ever_staged.update(staged)
        for address, why in staged.items():
            if not self._exists(address):
                return Harm("loss", f"{why}, and its bytes are not there")
        if not self.gone:
            return None
        found = references.pending()
        found |= {
            a: why for a, why in references.committed().items() if a not in references.expired
        }
        return self._loss_of(self.gone & found.keys(), found)

    def _after_delete(self, actor: str, key: str, modified: datetime) -> Harm | None:
        live = self.references.live()
        if key in live:
            return self._loss_of({key}, live)
        collection = self._collections.get(actor)
        if collection is None:
            is_named = key in self.references.named_by_reviews()
            return (
                None if is_named else Harm("ledger", f"{key} was deleted before a ledger named it")
            )
        if not is_old_enough(modified, collection.cutoff):
            return Harm("young", f"{key} was deleted, though it is younger than the cut-off")
        if key in collection.tracked & self.references.tracked():
            return Harm("tracked", f"{key} was deleted, though it is a tracked copy")
        if self.world.now > self._not_after.get(actor, self.world.now):
            return Harm("late", f"{key} was deleted after the time that its look allowed")
        if key not in self.ledger.named:
            return Harm("ledger", f"{key} was deleted before the ledger named it")
        return None

    def _loss_of(self, keys: set[str], live: dict[str, str]) -> Harm | None:
        return next((Harm("loss", f"{live[key]}, and its bytes are gone") for key in keys), None)

    def _exists(self, address: str) -> bool:
        return self.world.full_key(address) in self.world.container.objects
