"""What a client says of a whole object when it has its parts joined: sums of the bytes, and how many they are.

Headers that describe the body of any other request describe the object in this one. A sum is that of all its bytes, or
the sum of the sums of its parts, with or without the number of parts behind it; S3 knows both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from lakesweep.lake.api.gateway.checksums import checksum_headers, decode_sum, open_checksum
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.errors import InvalidRequestError

__all__ = ["PartsCheck", "check_of_parts"]

PartsCheck = Callable[[Iterable[Iterable[bytes]]], Iterator[bytes]]
"""Passes the bytes of all parts on; raises at their end where they are not what the client says."""

_SIZE = "x-amz-mp-object-size"


def check_of_parts(headers: Mapping[str, str]) -> PartsCheck:
    """The check that the headers of a completion ask for.

    Raises:
        S3Error: a header can't be read, or names an algorithm that is not known.
    """
    expected = {
        name: decode_sum(name, value.partition("-")[0])
        for name, value in checksum_headers(headers).items()
    }
    for name in expected:
        open_checksum(name)
    size = headers.get(_SIZE)
    if size is not None and not re.fullmatch(r"[0-9]{1,18}", size):
        raise S3Error("InvalidArgument", f"{_SIZE} must be a number.")

    def check(parts: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
        sums = [(name, open_checksum(name), open_checksum(name)) for name in expected]
        length = 0
        for part in parts:
            of_part = [open_checksum(name) for name in expected]
            for piece in part:
                length += len(piece)
                for (_, whole, _), running in zip(sums, of_part, strict=True):
                    whole.update(piece)
                    running.update(piece)
                yield piece
            for (_, _, composite), running in zip(sums, of_part, strict=True):
                composite.update(running.digest())
        if size is not None and int(size) != length:
            raise InvalidRequestError(
                f"the parts have {length} bytes and {_SIZE} promises {size}; nothing was completed",
                kind="wrong-size",
            )
        for name, whole, composite in sums:
            if expected[name] not in (whole.digest(), composite.digest()):
                raise InvalidRequestError(
                    f"the parts do not match the sum in {name}; nothing was completed",
                    kind="wrong-sum",
                )

    return check
