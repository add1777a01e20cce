"""Mistakes that are put in on purpose: the explorer finds each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.collector.lease import Lease
from lakesweep.collector.ledger.deadline import Deadline
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.uploads.pending import PendingUploads
from lakesweep_testing.schedules import collection
from lakesweep_testing.schedules.exploring import Explorer
from lakesweep_testing.schedules.program import all_programs

pytestmark = pytest.mark.slow

AT_MOST = 3_000

Mistake = Callable[[pytest.MonkeyPatch], None]


def copies_are_not_tracked(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(TrackedCopies, "track", lambda *_: None)


def commits_are_read_before_staged(patched: pytest.MonkeyPatch) -> None:
    def look(actor: Any) -> set[str]:
        return collection.look_at_commits(actor) | collection.look_at_uncommitted(actor)

    patched.setattr(collection, "look", look)


def pending_uploads_are_not_read(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(PendingUploads, "live", lambda *_: iter(()))


def age_is_not_looked_at(patched: pytest.MonkeyPatch) -> None:
    def find_garbage(listed: Any, live: set[str], _: object) -> list[str]:
        return [key for key in listed if key not in live]

    patched.setattr(collection, "find_garbage", find_garbage)


def lease_is_taken_from_anybody(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Lease, "_is_stale", lambda *_: True)


def deletes_have_no_end(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Deadline, "seconds_left", lambda _: 1.0)


@pytest.mark.parametrize(
    ("program", "mistake", "kind"),
    [
        ("rename-collect", copies_are_not_tracked, "loss"),
        ("copy-collect", copies_are_not_tracked, "loss"),
        ("commit-prepare", commits_are_read_before_staged, "loss"),
        ("link-collect", pending_uploads_are_not_read, "loss"),
        ("upload-rotate-slice", age_is_not_looked_at, "young"),
        ("two-collectors", lease_is_taken_from_anybody, "program"),
        ("lease-lost-in-mid-delete", deletes_have_no_end, "late"),
    ],
)
def test_a_mistake_is_found(
    program: str, mistake: Mistake, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a few thousand schedules at random some schedule does harm of the kind that the mistake is about."""
    mistake(monkeypatch)
    with Explorer(all_programs()[program]) as explorer:
        count = explorer.random_schedules(AT_MOST, seed=1)
    assert [one.harm.kind for one in count.found] == [kind], count
