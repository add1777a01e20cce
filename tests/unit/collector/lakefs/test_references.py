"""What ranges and staged lists refer to, whatever the spelling of an address."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.lakefs.references import _staged_hashes, hash_range
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.hashing import hash_address
from lakesweep.formats.identity import entry_identity
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.tables import UNCOMMITTED_SCHEMA
from lakesweep.formats.values import join_value

KEY = "data/gcoca17haabs73f2gtq0/cnnj2kqs3bo4lk9dl9dg"
SPELLINGS = [
    KEY,
    f"/{KEY}",
    f"./{KEY}",
    KEY.replace("/", "//"),
    KEY.replace("/", "/./"),
    KEY.replace("data/", "data/x/../"),
    KEY.replace("data", "%64ata"),
    f"{KEY}/",
]
# As long as a usual address.
OF_USUAL_LENGTH = [KEY.replace("/g", "/%67")[:46], KEY.replace("/g", "//")]
# An object in the root of a bucket: lakeFS drops a slash in front there.
NORMALISER = AddressNormaliser(Location.parse("s3://bucket"))


def range_with(address: str, kind: AddressType) -> bytes:
    entries = [Entry("data/s/o", None, 1, "e"), Entry(address, None, 2, "e", address_type=kind)]
    records = [
        (b"%d" % number, join_value(entry_identity(entry.size, entry.e_tag), entry.encode()))
        for number, entry in enumerate(entries)
    ]
    (written,) = write_ranges(records)
    return written.data


@pytest.mark.parametrize("kind", [AddressType.RELATIVE, AddressType.BY_PREFIX_DEPRECATED])
@pytest.mark.parametrize("address", SPELLINGS)
def test_committed_address_counts_in_every_reading(address: str, kind: AddressType) -> None:
    """lakeFS stages addresses in any spelling, cuts the namespace off and commits the rest as it is."""
    read = hash_range(RangeId("0" * 64), range_with(address, kind), 2, NORMALISER)
    assert {hash_address(name) for name in (address, KEY, "data/s/o")} <= set(read.hashes.tolist())
    assert len(read.magnitudes) == len(read.hashes)
    assert (read.count, read.outside) == (2, 0)


@pytest.mark.parametrize("address", OF_USUAL_LENGTH)
def test_unusual_address_of_usual_length_counts_in_every_reading(address: str) -> None:
    """The quick look at usual addresses passes no other one over."""
    assert len(address) == len(KEY)
    read = hash_range(RangeId("0" * 64), range_with(address, AddressType.RELATIVE), 2, NORMALISER)
    readings = NORMALISER.readings(address)
    assert len(readings) > 1
    assert set(map(hash_address, readings)) <= set(read.hashes.tolist())


def test_usual_address_has_one_hash() -> None:
    """Nothing is added where an address can be read in one way."""
    read = hash_range(RangeId("0" * 64), range_with(KEY, AddressType.RELATIVE), 2, NORMALISER)
    assert len(read.hashes) == 2


@pytest.mark.parametrize("address", SPELLINGS)
def test_staged_address_counts_in_every_reading(address: str) -> None:
    """A staged list has the same spellings as the commit that will follow."""
    rows = pa.table([[address], [0]], schema=UNCOMMITTED_SCHEMA)
    entries, hashes = _staged_hashes(rows, NORMALISER)
    assert {hash_address(address), hash_address(KEY)} <= set(hashes.tolist())
    assert entries == 1
