"""The ref store says its format, and another one is not worked on."""

from __future__ import annotations

import pytest

from lakesweep.errors import ConfigError
from lakesweep.lake.format_version import FORMAT_VERSION, check_format
from lakesweep_testing.memory_kv import MemoryKeyValueStore


def test_new_store_is_marked_once() -> None:
    """And accepted ever after."""
    kv = MemoryKeyValueStore()
    check_format(kv)
    kv.set("graveler", b"repos/x", b"{}")
    check_format(kv)
    assert kv.get("lake", b"format-version") == str(FORMAT_VERSION).encode()


def test_store_of_format_1_is_read_and_raised() -> None:
    """It has nothing that is written otherwise today; an older lakesweep refuses it from then on."""
    kv = MemoryKeyValueStore()
    kv.set("lake", b"format-version", b"1")
    check_format(kv)
    assert kv.get("lake", b"format-version") == b"2"


@pytest.mark.parametrize("found", [str(FORMAT_VERSION + 1).encode(), b"0", b"what"])
def test_store_of_another_format_is_refused(found: bytes) -> None:
    """The message has both numbers; the store is left as it is."""
    kv = MemoryKeyValueStore()
    kv.set("lake", b"format-version", found)
    with pytest.raises(ConfigError, match=rf"format {found.decode()}.*format {FORMAT_VERSION}"):
        check_format(kv)
    assert kv.get("lake", b"format-version") == found


@pytest.mark.parametrize("partition", ["auth", "graveler"])
def test_store_from_before_formats_is_not_marked(partition: str) -> None:
    """Its records may mean something else."""
    kv = MemoryKeyValueStore()
    kv.set(partition, b"installation", b"{}")
    with pytest.raises(ConfigError, match="before stores had a format"):
        check_format(kv)
    assert kv.get("lake", b"format-version") is None
