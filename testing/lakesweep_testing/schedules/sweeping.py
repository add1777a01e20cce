"""A sweep of one round under the real lease, with a deadline by the store's clock: the order of `collector/sweep.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from lakesweep.collector.lease import Lease
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep_testing.schedules.collection import (
    begin,
    delete,
    find_garbage,
    list_objects,
    look,
)
from lakesweep_testing.schedules.running import Actor


class _UnhurriedLease(Lease):
    """The lease without its thread: it is renewed where a sweep renews it, and nowhere else."""

    def __enter__(self) -> Lease:
        self._take()
        return self

    def __exit__(self, *error: object) -> None:
        self._release()


@contextmanager
def held_lease(actor: Actor) -> Iterator[Lease]:
    """The lease on the repository; the checks are told who believes to hold it, and until when."""
    with _UnhurriedLease(actor.store, actor.repository.id, f"sweep of {actor.name}") as lease:
        assert lease.store_time is not None
        actor.watch.holds_lease(actor.name, lease.store_time + SAFETY_FULL.lease_life)
        yield lease
        actor.watch.lets_go_of_lease(actor.name)


def sweep(actor: Actor) -> None:
    """Take the lease, look, renew the lease for as long as the deletes may take, delete, let go."""
    with held_lease(actor) as lease:
        cutoff = begin(actor)
        listed = list_objects(actor)
        read_at = lease.renew()
        garbage = find_garbage(listed, look(actor), cutoff)
        authority = SAFETY_FULL.authority_after(timedelta(0))
        life = SAFETY_FULL.lease_life_for(authority)
        actor.watch.holds_lease(actor.name, lease.renew(life) + life)
        actor.watch.may_delete_until(actor.name, read_at + authority)
        delete(actor, garbage, read_at + authority)
