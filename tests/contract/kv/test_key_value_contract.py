"""One suite for every ref store: memory, SQLite, PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakesweep.lake.kv.interface import Change, Held, KeyValueStore, scan
from lakesweep.lake.kv.sql import open_sql_store
from lakesweep_testing.memory_kv import MemoryKeyValueStore


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    from lakesweep_testing.servers import PostgresServer

    with PostgresServer() as server:
        yield server.make_database("contract")


@pytest.fixture(
    params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.real)],
)
def kv(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValueStore]:
    store: KeyValueStore
    if request.param == "memory":
        store = MemoryKeyValueStore()
    elif request.param == "sqlite":
        store = open_sql_store(f"sqlite:///{tmp_path}/refs.db")
    else:
        store = open_sql_store(request.getfixturevalue("postgres_url"))
        for partition in ("p", "q", "p2"):
            store.delete_partition(partition)
    yield store
    store.close()


def test_absent_key_reads_as_none(kv: KeyValueStore) -> None:
    """A key nobody wrote has no value, in a partition nobody wrote to."""
    assert kv.get("p", b"k") is None


def test_written_value_is_read_back(kv: KeyValueStore) -> None:
    """Any bytes, also none at all, come back as they went in; the last write wins."""
    kv.set("p", b"\x00\xff", b"one")
    kv.set("p", b"\x00\xff", b"")
    assert kv.get("p", b"\x00\xff") == b""


def test_partitions_are_apart(kv: KeyValueStore) -> None:
    """The same key in two partitions is two keys."""
    kv.set("p", b"k", b"1")
    kv.set("p2", b"k", b"2")
    assert (kv.get("p", b"k"), kv.get("p2", b"k")) == (b"1", b"2")
    assert kv.page("p") == [(b"k", b"1")]


def test_set_if_absent_creates_once(kv: KeyValueStore) -> None:
    """Expecting no key, only the first write is done."""
    assert kv.set_if("p", b"k", b"first", None)
    assert not kv.set_if("p", b"k", b"second", None)
    assert kv.get("p", b"k") == b"first"


def test_set_if_replaces_only_the_expected_value(kv: KeyValueStore) -> None:
    """A stale expectation changes nothing; an empty value is a value to expect."""
    assert not kv.set_if("p", b"k", b"x", b"")
    kv.set("p", b"k", b"")
    assert not kv.set_if("p", b"k", b"x", b"other")
    assert not kv.set_if("p", b"k", b"x", None)
    assert kv.set_if("p", b"k", b"x", b"")
    assert kv.get("p", b"k") == b"x"


def test_delete_if_removes_only_the_expected_value(kv: KeyValueStore) -> None:
    """A key whose value changed meanwhile stays."""
    kv.set("p", b"k", b"1")
    assert not kv.delete_if("p", b"k", b"2")
    assert kv.delete_if("p", b"k", b"1")
    assert not kv.delete_if("p", b"k", b"1")
    assert kv.get("p", b"k") is None


def test_delete_of_absent_key_is_no_error(kv: KeyValueStore) -> None:
    """Deleting twice is deleting once."""
    kv.set("p", b"k", b"1")
    kv.delete("p", b"k")
    kv.delete("p", b"k")
    assert kv.get("p", b"k") is None


def test_pages_come_in_byte_order(kv: KeyValueStore) -> None:
    """Keys order bytewise, not by any language's rules."""
    keys = [b"", b"\x00", b"B", b"a", b"a\x00", b"a/b", "é".encode(), b"\xff", b"\xff\xff"]
    kv.set_many("p", [(key, b"v" + key) for key in reversed(keys)])
    assert kv.page("p") == [(key, b"v" + key) for key in sorted(keys)]


def test_page_starts_after_a_key_and_stops_at_its_limit(kv: KeyValueStore) -> None:
    """`after` is exclusive and need not exist; fewer rows than the limit mean the end."""
    kv.set_many("p", [(b"%02d" % n, b"") for n in range(10)])
    assert [key for key, _ in kv.page("p", after=b"03", limit=3)] == [b"04", b"05", b"06"]
    assert [key for key, _ in kv.page("p", after=b"03x", limit=3)] == [b"04", b"05", b"06"]
    assert [key for key, _ in kv.page("p", after=b"08", limit=3)] == [b"09"]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (b"a/", [b"a/", b"a/1", b"a/\xff"]),
        (b"a/\xff", [b"a/\xff"]),
        (b"\xff", [b"\xff", b"\xff\xff"]),
        (b"zz", []),
    ],
)
def test_page_keeps_to_its_prefix(kv: KeyValueStore, prefix: bytes, expected: list[bytes]) -> None:
    """Only keys with the prefix are given, also where the prefix ends in 0xff."""
    kv.set_many(
        "p", [(k, b"") for k in (b"a", b"a/", b"a/1", b"a/\xff", b"a0", b"\xff", b"\xff\xff")]
    )
    assert [key for key, _ in kv.page("p", prefix=prefix)] == expected
    assert [key for key, _ in kv.page("p", prefix=prefix, after=b"A")] == expected


def test_scan_reads_all_pages(kv: KeyValueStore) -> None:
    """A scan gives every row once, whatever the size of its pages."""
    rows = [(b"%04d" % n, b"%d" % n) for n in range(250)]
    kv.set_many("p", rows)
    for page_rows in (1, 100, 125, 250, 251):
        assert list(scan(kv, "p", page_rows=page_rows)) == rows


@pytest.mark.parametrize("present", [None, b"before"])
def test_a_write_is_held_by_another_key(kv: KeyValueStore, present: bytes | None) -> None:
    """It is made while that key has the value that was named, and else not at all."""
    if present is not None:
        kv.set("p", b"k", present)
    kv.set("q", b"record", b"claimed")
    assert not kv.set_if("p", b"k", b"x", present, ("q", b"record", b"pending"))
    assert not kv.set_if("p", b"k", b"x", present, ("q", b"other", b"claimed"))
    assert not kv.set_if("p", b"k", b"x", b"else", ("q", b"record", b"claimed"))
    assert kv.get("p", b"k") == present
    assert kv.set_if("p", b"k", b"x", present, ("q", b"record", b"claimed"))
    assert kv.get("p", b"k") == b"x"


def test_of_a_held_write_and_a_removal_one_comes_first(kv: KeyValueStore) -> None:
    """Who removes the record and then looks finds what was written by it, or it is never written."""
    for number in range(20):
        key, record = b"k%d" % number, ("q", b"r%d" % number, b"claimed")
        kv.set(*record)

        def write_or_remove(n: int, key: bytes = key, record: Held = record) -> bool:
            if n:
                return kv.set_if("p", key, b"x", None, record)
            return not kv.delete_if(*record) or kv.get("p", key) is not None

        is_found, is_written = _all_at_once(2, write_or_remove)
        assert is_found or not is_written


def test_changes_are_made_together_or_not_at_all(kv: KeyValueStore) -> None:
    """One that finds something else than it expects, or a held key with another value, keeps all from being made."""
    kv.set("q", b"fence", b"1")
    kv.set("p", b"old", b"a")
    good = [
        Change("p", b"new", b"x", None),
        Change("p", b"old", None, b"a"),
        Change("p2", b"any", b"y"),
    ]
    assert not kv.change_all([*good, Change("p", b"other", b"z", b"there")])
    assert not kv.change_all([*good, Change("p", b"other", None, b"there")])
    assert not kv.change_all([*good[1:], Change("q", b"fence", b"z", None)])
    assert not kv.change_all(good, [("q", b"fence", b"2")])
    assert not kv.change_all(good, [("q", b"fence", b"1"), ("q", b"absent", b"")])
    assert (kv.page("p"), kv.page("p2")) == ([(b"old", b"a")], [])
    assert kv.change_all(good, [("q", b"fence", b"1")])
    assert kv.change_all([Change("p2", b"absent", None)])
    assert (kv.page("p"), kv.page("p2")) == ([(b"new", b"x")], [(b"any", b"y")])


def test_changes_that_need_not_be_durable_are_changes_all_the_same(kv: KeyValueStore) -> None:
    """They are seen at once, compare what they find, and come in their order."""
    assert kv.change_all([Change("p", b"k", b"1", None)], is_durable=False)
    assert not kv.change_all([Change("p", b"k", b"2", None)], is_durable=False)
    assert kv.get("p", b"k") == b"1"
    assert kv.change_all([Change("p", b"k", b"2", b"1")])
    assert kv.change_all([Change("p", b"k", None, b"2")], is_durable=False)
    assert kv.page("p") == []


def test_of_changes_and_a_move_of_their_fence_one_comes_first(kv: KeyValueStore) -> None:
    """Who moves the held key and then looks finds what was written by its old value, or it is never written."""
    for number in range(20):
        key, fence = b"k%d" % number, b"f%d" % number
        kv.set("q", fence, b"1")

        def write_or_move(n: int, key: bytes = key, fence: bytes = fence) -> bool:
            if n:
                return kv.change_all([Change("p", key, b"x", None)], [("q", fence, b"1")])
            assert kv.change_all([Change("q", fence, b"2", b"1")])
            return kv.get("p", key) is not None

        is_found, is_written = _all_at_once(2, write_or_move)
        assert is_found or not is_written


def _kept_in_q(key: bytes, value: bytes) -> Change | None:
    return None if value == b"unwanted" else Change("q", key + b"=" + value, b"")


def test_what_is_written_over_is_noted(kv: KeyValueStore) -> None:
    """Each value that goes is noted: one replaced, one taken away, one that the same call wrote; none that stays."""
    kv.set_many("p", [(b"a", b"1"), (b"b", b"2"), (b"same", b"3"), (b"c", b"unwanted")])
    rows = [(b"a", b"new"), (b"b", None), (b"same", b"3"), (b"c", b"4"), (b"d", b"first")]
    assert kv.write_over("p", [*rows, (b"d", b"second"), (b"absent", None)], _kept_in_q)
    left = [(b"a", b"new"), (b"c", b"4"), (b"d", b"second"), (b"same", b"3")]
    assert kv.page("p") == left
    assert [key for key, _ in kv.page("q")] == [b"a=1", b"b=2", b"d=first"]


def test_what_is_held_keeps_rows_and_notes_from_being_written(kv: KeyValueStore) -> None:
    """A key with another value, or none: nothing is changed, and nothing noted."""
    kv.set("p", b"a", b"1")
    kv.set("p2", b"fence", b"now")
    rows = [(b"a", b"2"), (b"b", b"3")]
    assert not kv.write_over("p", rows, _kept_in_q, [("p2", b"fence", b"before")])
    assert not kv.write_over(
        "p", rows, _kept_in_q, [("p2", b"fence", b"now"), ("p2", b"absent", b"")]
    )
    assert (kv.page("p"), kv.page("q")) == ([(b"a", b"1")], [])
    assert kv.write_over("p", rows, _kept_in_q, [("p2", b"fence", b"now")])
    assert (kv.page("p"), kv.page("q")) == (rows, [(b"a=1", b"")])


def test_of_many_that_write_over_each_other_none_is_forgotten(kv: KeyValueStore) -> None:
    """Of all values that were written to a key, the last is there and the others are noted."""

    def write(n: int) -> bool:
        return all(kv.write_over("p", [(b"k", b"%d-%d" % (n, m))], _kept_in_q) for m in range(10))

    assert all(_all_at_once(6, write))
    noted = {key.removeprefix(b"k=") for key, _ in kv.page("q")}
    last = kv.get("p", b"k")
    assert last not in noted
    assert noted | {last} == {b"%d-%d" % (n, m) for n in range(6) for m in range(10)}


@pytest.mark.parametrize("length", [0, 700, 701, 5_000, 300_000])
def test_values_of_any_length(kv: KeyValueStore, length: int) -> None:
    """Every operation reads, compares and replaces long values as it does short ones."""
    one, two = b"1" * length, b"2" * length + b"!"
    assert kv.set_if("p", b"k", one, None)
    assert not kv.set_if("p", b"k", two, None)
    assert not kv.set_if("p", b"k", two, two)
    assert kv.get("p", b"k") == one
    assert kv.set_if("p", b"k", two, one, ("p", b"k", one))
    assert not kv.set_if("p", b"other", one, None, ("p", b"k", one))
    assert kv.set_if("p", b"other", one, None, ("p", b"k", two))
    assert kv.page("p") == [(b"k", two), (b"other", one)]
    assert not kv.change_all([Change("p", b"k", b"", one)])
    assert kv.change_all([Change("p", b"k", one, two)], [("p", b"other", one)])
    assert kv.write_over("p", [(b"k", two)], lambda key, value: Change("q", key, value))
    assert kv.page("q", prefix=b"k") == [(b"k", one)]
    kv.set_many("p", [(b"k", one), (b"other", two)])
    assert not kv.delete_if("p", b"k", two)
    assert kv.delete_if("p", b"k", one)
    kv.set("p", b"other", b"")
    assert kv.page("p") == [(b"other", b"")]


def test_deleted_partition_is_empty(kv: KeyValueStore) -> None:
    """All keys of the partition go, and no other's."""
    kv.set_many("p", [(b"%06d" % n, b"") for n in range(3000)])
    kv.set("q", b"k", b"1")
    kv.delete_partition("p")
    kv.delete_partition("p")
    assert kv.page("p") == []
    assert kv.get("q", b"k") == b"1"


def test_racing_creators_have_one_winner(kv: KeyValueStore) -> None:
    """Of many that create one key at once, exactly one is told that it did."""
    for round_number in range(5):
        key = b"race-%d" % round_number
        won = _all_at_once(8, lambda n, key=key: kv.set_if("p", key, b"%d" % n, None))
        assert sum(won) == 1
        assert kv.get("p", key) == b"%d" % won.index(True)


def test_racing_increments_lose_none(kv: KeyValueStore) -> None:
    """Counting by compare-and-set from several threads gives the full count."""
    kv.set("p", b"n", b"0")

    def count(_: int) -> bool:
        for _ in range(20):
            while True:
                seen = kv.get("p", b"n")
                assert seen is not None
                if kv.set_if("p", b"n", b"%d" % (int(seen) + 1), seen):
                    break
        return True

    _all_at_once(6, count)
    assert kv.get("p", b"n") == b"120"


def test_racing_deleters_have_one_winner(kv: KeyValueStore) -> None:
    """A value is taken away by exactly one of those that expect it."""
    kv.set("p", b"k", b"token")
    assert sum(_all_at_once(8, lambda _: kv.delete_if("p", b"k", b"token"))) == 1


def test_writer_beside_a_scan_does_not_disturb_it(kv: KeyValueStore) -> None:
    """Rows that stay through a scan are in it, though others come and go meanwhile."""
    kv.set_many("p", [(b"%04d" % n, b"") for n in range(0, 1000, 2)])
    stop = threading.Event()

    def disturb() -> None:
        n = 1
        while not stop.is_set():
            kv.set("p", b"%04d" % (n % 1000), b"")
            kv.delete("p", b"%04d" % (n % 1000))
            n += 2

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(disturb)
        seen = {key for key, _ in scan(kv, "p", page_rows=50)}
        stop.set()
        running.result()
    assert seen >= {b"%04d" % n for n in range(0, 1000, 2)}


def _all_at_once(count: int, work: Callable[[int], bool]) -> list[bool]:
    barrier = threading.Barrier(count)

    def run(n: int) -> bool:
        barrier.wait()
        return work(n)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
