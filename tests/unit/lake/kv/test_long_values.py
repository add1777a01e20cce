"""Long values lie beside SQLite's tree of keys, and none is left there when its row is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesweep.lake.kv.interface import Change
from lakesweep.lake.kv.sqlite import SqliteKeyValueStore

LONG, LONGER = b"x" * 5_000, b"y" * 100_000


@pytest.fixture
def kv(tmp_path: Path) -> Iterator[SqliteKeyValueStore]:
    store = SqliteKeyValueStore(tmp_path / "refs.db")
    yield store
    store.close()


def _long_values(kv: SqliteKeyValueStore) -> int:
    (count,) = kv._writer.execute("SELECT count(*) FROM lake_kv_long").fetchone()
    return int(count)


def test_no_row_of_the_tree_is_long(kv: SqliteKeyValueStore) -> None:
    """Whoever looks for a key reads the rows that he passes by whole."""
    kv.set("p", b"a", LONG)
    kv.set_if("p", b"b", LONGER, None)
    kv.set_many("p", [(b"c", LONG), (b"d", b"short")])
    kv.change_all([Change("p", b"e", LONG)])
    kv.write_over("p", [(b"e", LONGER)], lambda key, value: Change("q", key, value))
    (longest,) = kv._writer.execute("SELECT max(length(v)) FROM lake_kv").fetchone()
    assert longest == len(b"short")
    assert _long_values(kv) == 5


def test_no_long_value_is_left_behind(kv: SqliteKeyValueStore) -> None:
    """Replaced by a short or a long one, deleted, refused, gone with its partition: no value without a row."""
    kv.set("p", b"k", LONG)
    kv.set("p", b"k", LONGER)
    assert not kv.set_if("p", b"k", LONG, None)
    assert not kv.set_if("p", b"k", LONG, LONG)
    assert not kv.set_if("p", b"new", LONG, None, ("p", b"k", LONG))
    assert not kv.change_all([Change("p", b"new", LONG), Change("p", b"k", LONG, None)])
    assert _long_values(kv) == 1
    assert kv.set_if("p", b"k", b"short", LONGER)
    assert _long_values(kv) == 0
    kv.set_many("p", [(b"1", LONG), (b"2", LONG), (b"3", LONG), (b"4", LONG)])
    kv.delete("p", b"1")
    assert kv.delete_if("p", b"2", LONG)
    assert kv.write_over("p", [(b"3", None)], lambda _key, _value: None)
    assert _long_values(kv) == 1
    kv.delete_partition("p")
    assert _long_values(kv) == 0
