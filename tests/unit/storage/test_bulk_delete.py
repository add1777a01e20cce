"""Bulk deletes end with their permission, and keep what is another object than expected."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import StorageError, ThrottledError
from lakesweep.storage import DeleteStatus, ObjectInfo, ObjectStore, StorageOptions, open_store
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.memory import MemoryBackend, memory_container
from lakesweep.storage.translate import TRANSIENT
from lakesweep.storage.values import NO_TERMS, DeleteOutcome, DeleteTerms, is_same_object

Answer = Callable[[Sequence[str]], list[DeleteOutcome] | None]

QUICK = StorageOptions(first_pause_seconds=0.0001, max_requests_in_flight=2)
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Asked(MemoryBackend):
    """Counts the deletes that are sent; `answer` may answer itself, or raise."""

    delete_batch_size = 2

    def __init__(self, name: str, answer: Answer) -> None:
        super().__init__(memory_container(name), "")
        self.sent: list[list[str]] = []
        self._answer = answer

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> list[DeleteOutcome]:
        self.sent.append(list(keys))
        answered = self._answer(keys)
        return super().delete(keys, terms) if answered is None else answered


def store_of(answer: Answer = lambda keys: None) -> tuple[ObjectStore, Asked]:
    name = uuid.uuid4().hex
    backend = Asked(name, answer)
    store = ObjectStore(Location.parse(f"mem://{name}"), backend, QUICK, CongestionControl(2))
    for number in range(6):
        store.write(f"k{number}", b"x")
    return store, backend


def counting_down(*left: float) -> Callable[[], float]:
    """What is left of a permission, the last value for ever."""
    values = list(left)
    return lambda: values.pop(0) if len(values) > 1 else values[0]


def raising(error: StorageError) -> Answer:
    def answer(keys: Sequence[str]) -> None:
        raise error

    return answer


def test_time_is_looked_at_before_each_batch() -> None:
    """Of three batches the one that was sent in time is deleted; the others have not been tried."""
    store, backend = store_of()
    # Workers ask in any order, but one alone finds time left.
    outcomes = store.delete_many([f"k{n}" for n in range(6)], seconds_left=counting_down(1, 0))
    assert len(backend.sent) == 1
    tried = {o.key for o in outcomes if o.status is DeleteStatus.GONE}
    assert tried == set(backend.sent[0])
    assert {o.status for o in outcomes if o.key not in tried} == {DeleteStatus.NOT_TRIED}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ThrottledError("slow down"), DeleteStatus.THROTTLED),
        (StorageError("broken", kind=TRANSIENT), DeleteStatus.FAILED),
    ],
)
@pytest.mark.parametrize("left_after_the_pause", [True, False])
def test_no_retry_is_sent_after_the_time(
    error: StorageError, status: DeleteStatus, left_after_the_pause: bool
) -> None:
    """A request that failed in time is not repeated later, and its keys do not pass for untried."""
    store, backend = store_of(raising(error))
    # Asked before the request, before the pause, and before the second request.
    left = counting_down(1, 1, 0) if left_after_the_pause else counting_down(1, 0)
    outcomes = store.delete_many(["k0", "k1"], seconds_left=left)
    assert backend.sent == [["k0", "k1"]]
    assert [o.status for o in outcomes] == [status, status]


def test_throttled_keys_of_a_batch_are_not_sent_after_the_time() -> None:
    """Keys that the store throttled by themselves wait no longer than the permission lasts."""

    def answer(keys: Sequence[str]) -> list[DeleteOutcome]:
        return [
            DeleteOutcome(key, DeleteStatus.GONE if key == "k0" else DeleteStatus.THROTTLED)
            for key in keys
        ]

    store, backend = store_of(answer)
    outcomes = store.delete_many(["k0", "k1"], seconds_left=counting_down(1, 1, 0))
    assert backend.sent == [["k0", "k1"]]
    assert [o.status for o in outcomes] == [DeleteStatus.GONE, DeleteStatus.THROTTLED]


def test_what_a_lost_answer_may_have_deleted_counts_as_deleted() -> None:
    """The first call went through, and its answer did not: the second finds nothing there."""
    tries = 0

    def answer(keys: Sequence[str]) -> list[DeleteOutcome]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StorageError("the connection ended", kind=TRANSIENT)
        return [DeleteOutcome(key, DeleteStatus.ALREADY_ABSENT) for key in keys]

    store, _ = store_of(answer)
    outcomes = store.delete_many(["k0", "k1"])
    assert [o.status for o in outcomes] == [DeleteStatus.GONE, DeleteStatus.GONE]


@pytest.mark.parametrize("told", [[], ["k0"], ["k0", "k2"], ["k0", "k1", "k2"]])
def test_a_key_of_which_nothing_is_told_is_not_gone(told: list[str]) -> None:
    """An answer that leaves a key out, or names another, says of none what became of it."""
    store, _ = store_of(lambda keys: [DeleteOutcome(key, DeleteStatus.GONE) for key in told])
    outcomes = store.delete_many(["k0", "k1"])
    assert [(o.key, o.status) for o in outcomes] == [
        ("k0", DeleteStatus.FAILED),
        ("k1", DeleteStatus.FAILED),
    ]


def test_a_key_that_was_throttled_and_then_deleted_is_gone() -> None:
    """The last word on a key counts, and a key given twice has it twice."""
    tries = 0

    def answer(keys: Sequence[str]) -> list[DeleteOutcome]:
        nonlocal tries
        tries += 1
        status = DeleteStatus.GONE if tries > 1 else DeleteStatus.THROTTLED
        return [DeleteOutcome(key, status) for key in keys]

    store, backend = store_of(answer)
    outcomes = store.delete_many(["k0", "k1", "k0"])
    assert list(outcomes) == [DeleteOutcome(key, DeleteStatus.GONE) for key in ("k0", "k1", "k0")]
    assert outcomes[-1] == outcomes[0:1][0]
    assert backend.sent == [["k0", "k1"]] * 2


def test_a_key_that_was_in_trouble_and_then_deleted_is_gone() -> None:
    """A request that failed as a whole says nothing of keys that the next one deleted."""
    tries = 0

    def answer(keys: Sequence[str]) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ThrottledError("slow down")

    store, _ = store_of(answer)
    assert {o.status for o in store.delete_many(["k0", "k1"])} == {DeleteStatus.GONE}


def test_object_written_between_the_look_and_the_delete_is_kept() -> None:
    """The version that was looked at is the condition of the delete."""
    store, backend = store_of()
    expected = {"k0": store.stat("k0"), "k1": store.stat("k1")}

    def write_anew(keys: Sequence[str]) -> None:
        backend.put("k1", b"y", create=False, if_match=None)

    backend._answer = write_anew
    outcomes = store.delete_many(["k0", "k1"], expected=expected)
    assert [o.status for o in outcomes] == [DeleteStatus.GONE, DeleteStatus.CHANGED]
    assert store.read("k1") == b"y"


def test_look_that_fails_keeps_the_object() -> None:
    """An object that can't be looked up is not deleted."""
    store, backend = store_of()
    expected = {"k0": store.stat("k0")}

    def broken(key: str) -> ObjectInfo:
        raise StorageError(f"no answer for {key}")

    backend.head = broken  # type: ignore[method-assign]
    (outcome,) = store.delete_many(["k0"], expected=expected)
    assert outcome.status is DeleteStatus.FAILED
    assert not backend.sent


KNOWN = ObjectInfo("k", 5, AT, '"e"')


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"etag": "e"}, True),
        ({"last_modified": AT + timedelta(seconds=1)}, True),
        ({"last_modified": AT + timedelta(seconds=2)}, False),
        ({"last_modified": AT - timedelta(seconds=2)}, False),
        ({"size": 6}, False),
        ({"etag": '"f"'}, False),
        ({"etag": None}, True),
        ({"last_modified": None}, True),
        ({"last_modified": None, "etag": None}, False),
    ],
)
def test_same_object_has_the_same_size_time_and_etag(
    changes: dict[str, object], is_same: bool
) -> None:
    """What both tell must agree; the size alone tells no versions apart."""
    other = dataclasses.replace(KNOWN, **changes)  # type: ignore[arg-type]
    assert is_same_object(KNOWN, other) is is_same
    assert is_same_object(other, KNOWN) is is_same


def test_local_file_replaced_after_the_look_is_kept(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local store compares once more at the moment of the delete."""
    store = open_store(Location.parse(f"local://{tmp_path}"), StorageOptions())
    store.write("a", b"1")
    expected = {"a": store.stat("a")}
    real = store.backend.delete

    def after_a_write(keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> list[DeleteOutcome]:
        store.write("a", b"2")
        return real(keys, terms)

    monkeypatch.setattr(store.backend, "delete", after_a_write)
    (outcome,) = store.delete_many(["a"], expected=expected)
    assert outcome.status is DeleteStatus.CHANGED
    assert store.read("a") == b"2"
