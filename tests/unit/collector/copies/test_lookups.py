"""Many look-ups with few requests, and what pages can't tell is asked for by itself."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from lakesweep.collector.copies import lookups
from lakesweep.collector.copies.lookups import look_up
from lakesweep.domain.location import Location
from lakesweep.errors import StorageDeniedError, StorageError
from lakesweep.storage import Crew, ObjectInfo, ObjectStore, open_store
from lakesweep_testing.trouble import MeddlingBackend


class Asked:
    """A store in memory that counts what it is asked, and refuses some of it."""

    def __init__(self, *refused: str) -> None:
        self.plain = open_store(Location.parse(f"mem://lookups-{uuid.uuid4().hex[:8]}/ns"))
        self.calls: Counter[str] = Counter()
        self._refused = refused

    @property
    def store(self) -> ObjectStore:
        return MeddlingBackend.wrap(before=self._count)(self.plain)

    def _count(self, operation: str, key: str) -> None:
        self.calls[operation] += 1
        if operation in self._refused:
            raise StorageDeniedError(f"{operation} of {key} was refused")

    def fill(self, count: int, folder: str = "data/slice") -> list[str]:
        keys = [f"{folder}/{number:05d}" for number in range(count)]
        for key in keys:
            self.plain.write(key, key.encode())
        return keys


@pytest.fixture
def crew() -> Iterator[Crew]:
    with Crew(4) as crew:
        yield crew


def test_neighbours_are_looked_up_by_pages(crew: Crew) -> None:
    """A folder of which most is wanted takes pages alone, and says what each look-up would have said."""
    asked = Asked()
    keys = asked.fill(2_500)
    known = look_up(asked.store, keys, crew, trust_absence=False)
    assert known == {key: asked.plain.stat(key) for key in keys}
    assert asked.calls == {"list": 3}


def test_pages_begin_where_keys_are_wanted(crew: Crew) -> None:
    """What lies between two crowds of neighbours is not read."""
    asked = Asked()
    every = asked.fill(20_000)
    keys = [*every[100:500], *every[19_000:19_400]]
    known = look_up(asked.store, keys, crew, trust_absence=True)
    assert known == {key: asked.plain.stat(key) for key in keys}
    assert asked.calls == {"list": 2}


def test_a_server_that_always_lists_from_the_beginning_is_asked_key_by_key(crew: Crew) -> None:
    """Its pages are not taken for what was asked, and nobody waits for them to get further."""
    asked = Asked()
    keys = asked.fill(4_000)[1_500:1_600]
    store = asked.store
    scan = store.backend.scan
    store.backend.scan = lambda prefix, _: scan(prefix, None)  # type: ignore[method-assign]
    known = look_up(store, keys, crew, trust_absence=True)
    assert known == {key: asked.plain.stat(key) for key in keys}
    assert asked.calls["stat"] == len(keys)


@pytest.mark.parametrize("trust_absence", [True, False])
def test_what_a_page_does_not_show_is_absent_or_asked_for(crew: Crew, trust_absence: bool) -> None:
    """Where absence matters, a listing alone does not prove it."""
    asked = Asked()
    keys = asked.fill(100)
    asked.plain.delete_many(keys[10:40])
    known = look_up(asked.store, keys, crew, trust_absence=trust_absence)
    assert [key for key, info in known.items() if info is None] == keys[10:40]
    assert asked.calls["stat"] == (0 if trust_absence else 30)


def test_pages_full_of_neighbours_tell_of_absence_too(crew: Crew) -> None:
    """Another task copies every other object of the folder: its copies are no reason to ask key by key."""
    asked = Asked()
    every = asked.fill(4_000)
    mine = every[::2]
    asked.plain.delete_many(mine)
    known = look_up(asked.store, mine, crew, trust_absence=True)
    assert known == dict.fromkeys(mine)
    assert asked.calls["stat"] == 0


@pytest.mark.parametrize("wanted", [slice(0, None, 100), slice(0, None, 5_999), slice(-40, None)])
def test_few_among_many_are_asked_for_one_by_one(crew: Crew, wanted: slice) -> None:
    """A page that holds next to nothing of what is wanted, or nothing at all, is the last one."""
    asked = Asked()
    every = asked.fill(6_000)
    keys = sorted({every[0], *every[wanted]})
    known = look_up(asked.store, keys, crew, trust_absence=True)
    assert all(isinstance(info, ObjectInfo) for info in known.values())
    assert len(known) == len(keys)
    assert asked.calls["stat"] > len(keys) // 2
    assert asked.calls["list"] <= 1


@pytest.mark.parametrize(
    ("seconds", "is_listed"),
    [({"list": 0.13, "stat": 0.01}, True), ({"list": 0.6, "stat": 0.01}, False)],
    ids=["as in a cloud", "as in MinIO"],
)
def test_the_store_at_hand_is_timed_where_pages_may_pay_or_not(
    crew: Crew,
    monkeypatch: pytest.MonkeyPatch,
    seconds: dict[str, float],
    is_listed: bool,
) -> None:
    """Thirty wanted among a thousand: more than a page costs in a cloud, and fewer than it costs in MinIO."""
    asked = Asked()
    keys = asked.fill(6_000)[::33]
    monkeypatch.setattr(
        lookups, "perf_counter", lambda: sum(seconds[o] * n for o, n in asked.calls.items())
    )
    known = look_up(asked.store, keys, crew, trust_absence=True)
    assert known == {key: asked.plain.stat(key) for key in keys}
    assert asked.calls["list"] == (6 if is_listed else 1)
    assert asked.calls["stat"] == 3 + (0 if is_listed else len(keys) - 31)


def test_who_may_not_list_may_look_up(crew: Crew) -> None:
    """A listing that is refused costs requests, not results."""
    asked = Asked("list")
    keys = asked.fill(50)
    known = look_up(asked.store, keys, crew, trust_absence=True)
    assert known == {key: asked.plain.stat(key) for key in keys}


def test_what_could_not_be_asked_is_neither_there_nor_absent(crew: Crew) -> None:
    """A refusal is told as such, key by key."""
    asked = Asked("stat")
    keys = asked.fill(3)
    known = look_up(asked.store, keys, crew, trust_absence=True)
    assert all(isinstance(known[key], StorageError) for key in keys)
