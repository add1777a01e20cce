"""What compiled code found wrong: it can't raise, so it returns a number, and here the number gets its words."""

from __future__ import annotations

from lakesweep.errors import FormatError

__all__ = ["FAULTS", "fault_error"]

# Compiled code returns these negated; zero and above is a result.
CHECKSUM = 1
BLOCK_TYPE = 2
SNAPPY_LENGTH = 3
SNAPPY = 4
BLOCK_BOUNDS = 5
RESTARTS = 6
ENTRY_BOUNDS = 7
KEY_ORDER = 8
KEY_KIND = 9
TOO_MANY = 10
VALUE_LENGTH = 11
PROTOBUF = 12
ADDRESS_TYPE = 13
TIMESTAMP = 14
KEYS_TOO_LARGE = 15
HANDLE = 16

FAULTS = {
    CHECKSUM: "its checksum does not match its bytes",
    BLOCK_TYPE: "it is compressed in a way that lakeFS does not use",
    SNAPPY_LENGTH: "it claims to unpack to more bytes than it can hold",
    SNAPPY: "its snappy stream is damaged",
    BLOCK_BOUNDS: "it does not lie within the file",
    RESTARTS: "its restart points do not match its entries",
    ENTRY_BOUNDS: "an entry reaches beyond its end",
    KEY_ORDER: "its keys are not in ascending order",
    KEY_KIND: "it holds a record that is not a plain SET",
    TOO_MANY: "it holds more records than the file promises",
    VALUE_LENGTH: "a record's identity or data reaches beyond the record",
    PROTOBUF: "a record's data is not a valid Entry message",
    ADDRESS_TYPE: "an entry's address is of an unknown type",
    TIMESTAMP: "an entry's time is not a time",
    KEYS_TOO_LARGE: "its keys are larger than the file promises",
    HANDLE: "an index entry does not point at the block that comes next",
}


def fault_error(status: int, what: str, offset: int, within: int = -1) -> FormatError:
    """The error for a negative `status`, about the block at `offset` of the file, seen `within` it (-1: all of it)."""
    place = "" if within < 0 else f", near its byte {within}"
    return FormatError(
        f"table file is damaged: {what} at offset {offset}{place}: {FAULTS[-status]}; "
        "nothing of this file was used. Compare it with a copy, or ask the server for this range again",
        kind="damaged-table",
    )
