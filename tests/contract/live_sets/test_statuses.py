"""A live set goes its way step by step, and no step is taken from elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.domain.live_sets import LiveSetId, LiveSetStatus, MarkFacts, new_live_set_id
from lakesweep.errors import CatalogNotFoundError, ConfigError

# Whole seconds: MariaDB keeps no more in nessie-gc's columns.
T0 = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
T1, T2, T3 = (T0 + timedelta(minutes=n) for n in (1, 2, 3))

Steps = dict[str, Callable[[LiveSetStore, LiveSetId], None]]


@pytest.fixture
def steps(facts: MarkFacts) -> Steps:
    return {
        "finish_identify": lambda store, i: store.finish_identify(i, T1, facts),
        "fail_identify": lambda store, i: store.fail_identify(i, T1, "no"),
        "start_expire": lambda store, i: store.start_expire(i, T2),
        "expire_again": lambda store, i: store.start_expire(i, T2, again=True),
        "finish_expire": lambda store, i: store.finish_expire(i, T3),
        "fail_expire": lambda store, i: store.fail_expire(i, T3, "no"),
    }


WAYS: dict[LiveSetStatus, list[str]] = {
    LiveSetStatus.IDENTIFY_IN_PROGRESS: [],
    LiveSetStatus.IDENTIFY_SUCCESS: ["finish_identify"],
    LiveSetStatus.IDENTIFY_FAILED: ["fail_identify"],
    LiveSetStatus.EXPIRY_IN_PROGRESS: ["finish_identify", "start_expire"],
    LiveSetStatus.EXPIRY_SUCCESS: ["finish_identify", "start_expire", "finish_expire"],
    LiveSetStatus.EXPIRY_FAILED: ["finish_identify", "start_expire", "fail_expire"],
}
ALLOWED: dict[tuple[LiveSetStatus, str], LiveSetStatus] = {
    (LiveSetStatus.IDENTIFY_IN_PROGRESS, "finish_identify"): LiveSetStatus.IDENTIFY_SUCCESS,
    (LiveSetStatus.IDENTIFY_IN_PROGRESS, "fail_identify"): LiveSetStatus.IDENTIFY_FAILED,
    (LiveSetStatus.IDENTIFY_SUCCESS, "start_expire"): LiveSetStatus.EXPIRY_IN_PROGRESS,
    (LiveSetStatus.IDENTIFY_SUCCESS, "expire_again"): LiveSetStatus.EXPIRY_IN_PROGRESS,
    (LiveSetStatus.EXPIRY_IN_PROGRESS, "expire_again"): LiveSetStatus.EXPIRY_IN_PROGRESS,
    (LiveSetStatus.EXPIRY_SUCCESS, "expire_again"): LiveSetStatus.EXPIRY_IN_PROGRESS,
    (LiveSetStatus.EXPIRY_FAILED, "expire_again"): LiveSetStatus.EXPIRY_IN_PROGRESS,
    (LiveSetStatus.EXPIRY_IN_PROGRESS, "finish_expire"): LiveSetStatus.EXPIRY_SUCCESS,
    (LiveSetStatus.EXPIRY_IN_PROGRESS, "fail_expire"): LiveSetStatus.EXPIRY_FAILED,
}


def test_every_step_from_every_status(store: LiveSetStore, steps: Steps) -> None:
    """Each pair of status and step either leads where the table says, or is refused and changes nothing."""
    for status, way in WAYS.items():
        for name, step in steps.items():
            live_set_id = new_live_set_id()
            store.start_identify(live_set_id, T0)
            for earlier in way:
                steps[earlier](store, live_set_id)
            before = store.get(live_set_id)
            assert before.status is status
            target = ALLOWED.get((status, name))
            if target is not None:
                step(store, live_set_id)
                assert store.get(live_set_id).status is target, (status, name)
                continue
            with pytest.raises(ConfigError, match=f"{live_set_id}.*{status}") as refusal:
                step(store, live_set_id)
            assert refusal.value.kind == "wrong-status"
            assert store.get(live_set_id) == before


def test_steps_of_an_unknown_set(store: LiveSetStore, steps: Steps) -> None:
    """A set that is not there is an error of its own, for steps, readers and delete alike."""
    unknown = new_live_set_id()
    reads: list[Callable[[], object]] = [
        lambda: store.get(unknown),
        lambda: store.facts(unknown),
        lambda: list(store.contents(unknown)),
        lambda: list(store.distinct_contents(unknown)),
        lambda: store.content_count(unknown),
        lambda: list(store.base_locations(unknown)),
        lambda: list(store.deferred(unknown)),
        lambda: store.add_contents(unknown, []),
        lambda: store.add_base_locations(unknown, []),
        lambda: store.add_deferred(unknown, []),
        lambda: store.clear_deferred(unknown),
        lambda: store.delete(unknown),
    ]
    for call in (*reads, *(lambda step=step: step(store, unknown) for step in steps.values())):
        with pytest.raises(CatalogNotFoundError, match=unknown) as refusal:
            call()
        assert refusal.value.kind == "no-live-set"


def test_times_and_messages_are_kept(store: LiveSetStore, facts: MarkFacts) -> None:
    """Each step sets its time; success clears the message, failure sets it, cut where it is too long."""
    live_set_id = new_live_set_id()
    store.start_identify(live_set_id, T0)
    store.finish_identify(live_set_id, T1, facts)
    store.start_expire(live_set_id, T2)
    store.fail_expire(live_set_id, T3, "é" * 3000)
    failed = store.get(live_set_id)
    times = (
        failed.created,
        failed.identify_finished,
        failed.expire_started,
        failed.expire_finished,
    )
    assert times == (T0, T1, T2, T3)
    assert failed.error_message is not None
    assert len(failed.error_message) == 2000
    assert failed.error_message.endswith("é ... (truncated)")

    store.start_expire(live_set_id, T2, again=True)
    again = store.get(live_set_id)
    assert (again.expire_started, again.expire_finished, again.error_message) == (T2, None, None)
    store.finish_expire(live_set_id, T3)
    assert store.get(live_set_id).error_message is None


def test_failed_mark_says_why(store: LiveSetStore) -> None:
    """The message of a failed mark is kept, and it has no facts."""
    live_set_id = new_live_set_id()
    store.start_identify(live_set_id, T0)
    store.fail_identify(live_set_id, T1, "the catalog\nwent away")
    assert store.get(live_set_id).error_message == "the catalog\nwent away"
    assert store.facts(live_set_id) is None


def test_created_is_an_exact_instant(store: LiveSetStore) -> None:
    """Microseconds and any zone of the caller: the same instant comes back, in UTC. No zone is refused."""
    created = datetime(2026, 3, 29, 2, 30, 0, 123456, timezone(timedelta(hours=9)))
    live_set_id = new_live_set_id()
    store.start_identify(live_set_id, created)
    assert store.get(live_set_id).created == created
    assert store.get(live_set_id).created.tzinfo is UTC
    with pytest.raises(ValueError, match="zone"):
        store.start_identify(new_live_set_id(), datetime(2026, 5, 1))  # noqa: DTZ001


def test_sets_are_listed_newest_first(store: LiveSetStore) -> None:
    """By creation, whatever the order of insertion."""
    assert store.all() == []
    ids = [new_live_set_id() for _ in range(3)]
    for index in (1, 2, 0):
        store.start_identify(ids[index], T0 + timedelta(microseconds=index))
    assert [live_set.id for live_set in store.all()] == ids[::-1]


def test_an_id_is_used_once(store: LiveSetStore, facts: MarkFacts) -> None:
    """Starting a set that exists is refused, and the set stays as it is."""
    live_set_id = new_live_set_id()
    store.start_identify(live_set_id, T0)
    store.finish_identify(live_set_id, T1, facts)
    with pytest.raises(ConfigError) as refusal:
        store.start_identify(live_set_id, T2)
    assert refusal.value.kind == "live-set-exists"
    assert store.get(live_set_id).created == T0
    assert store.facts(live_set_id) == facts


def test_racing_steps_have_one_winner(store: LiveSetStore, facts: MarkFacts) -> None:
    """Of many that start the expiry at once, exactly one may go on; the others are refused."""
    for _ in range(3):
        live_set_id = new_live_set_id()
        store.start_identify(live_set_id, T0)
        store.finish_identify(live_set_id, T1, facts)
        barrier = threading.Barrier(4)

        def start(
            _: int, live_set_id: LiveSetId = live_set_id, barrier: threading.Barrier = barrier
        ) -> str:
            barrier.wait()
            try:
                store.start_expire(live_set_id, T2)
            except ConfigError as refusal:
                return refusal.kind
            return "won"

        with ThreadPoolExecutor(4) as pool:
            outcomes = sorted(pool.map(start, range(4)))
        assert outcomes == ["won", "wrong-status", "wrong-status", "wrong-status"]


def test_the_work_location_of_an_expiry_is_kept(store: LiveSetStore, facts: MarkFacts) -> None:
    """Whoever goes on with it, or removes the set, knows where its files are."""
    live_set_id = new_live_set_id()
    store.start_identify(live_set_id, T0)
    store.finish_identify(live_set_id, T1, facts)
    assert store.work_of(live_set_id) is None
    store.start_expire(live_set_id, T2, work="s3://bucket/a folder")
    assert store.work_of(live_set_id) == "s3://bucket/a folder"
    store.start_expire(live_set_id, T2, again=True)
    assert store.work_of(live_set_id) is None
