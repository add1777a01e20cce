"""What compiled code found wrong with a block's bytes, as numbers, and here in words."""

from __future__ import annotations

from lakesweep.errors import FormatError

__all__ = ["FAULTS", "avro_error", "fault_error"]

# Compiled code returns these negated; zero is success.
VARINT = 1
BOUNDS = 2
BOOLEAN = 3
BRANCH = 4
INT_RANGE = 5
SYMBOL = 6
DEPTH = 7
COUNT = 8
TRAILING = 9
BLOCK_BOUNDS = 10
SYNC = 11

FAULTS = {
    VARINT: "a number is cut short or too long",
    BOUNDS: "a value reaches beyond its end",
    BOOLEAN: "a boolean is neither 0 nor 1",
    BRANCH: "a union has no branch of the given number",
    INT_RANGE: "an int does not fit into 32 bits",
    SYMBOL: "an enum has no symbol of the given number",
    DEPTH: "its values are nested too deep",
    COUNT: "an array or map has an impossible size",
    TRAILING: "it has bytes behind the last of its objects",
    BLOCK_BOUNDS: "it does not lie within the file",
    SYNC: "it does not end in the file's sync marker",
}


def avro_error(why: str) -> FormatError:
    """Bytes that are no sound Avro file; who reads a file adds its name."""
    return FormatError(why, kind="damaged-avro")


def fault_error(status: int, block: str, where: int) -> FormatError:
    """The error for a negative `status`, about a block and what was seen near its byte `where` once unpacked."""
    return avro_error(f"{block} is damaged near its byte {where}: {FAULTS[-status]}")
