"""Which keys can travel through every client unchanged.

obstore can't carry a key with an empty, `.` or `..` segment (it raises), nor one with a leading or trailing slash
(it drops the slash, which names another object); XML 1.0 can't carry control characters, U+FFFE and U+FFFF; U+FFFD
stands for bytes that are not text, and half a surrogate pair is none. Such a key is *odd*: it is listed as it is, told
apart, and never deleted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ODD = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|[\x00-\x1f\x7f\ud800-\udfff\ufffd\ufffe\uffff]")
# The same in Arrow's dialect, which wants these characters written as escapes.
_ODD_IN_ARROW = r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\x7f\x{fffd}\x{fffe}\x{ffff}]"

_ODD_LETTERS = tuple(letter.encode() for letter in "\ufffd\ufffe\uffff")


def is_odd_key(key: str) -> bool:
    """Whether `key` (relative or whole) can't be carried unchanged by every client."""
    return _ODD.search(key) is not None


def odd_mask(keys: pa.StringArray) -> pa.BooleanArray:
    """`is_odd_key` for a column."""
    return pc.match_substring_regex(keys, _ODD_IN_ARROW)


def any_odd(keys: Sequence[str]) -> bool:
    """Whether one of many keys is odd, told from all their bytes at once."""
    if not keys:
        return False
    try:
        # Between slashes, a key's end is a segment's end, and an odd key shows as an odd segment.
        text = ("/" + "/".join(keys) + "/").encode()
    except UnicodeEncodeError:
        return True
    data = np.frombuffer(text, np.uint8)
    begins_segment = data[:-1] == ord("/")
    if data.min() < ord(" ") or b"\x7f" in text or (begins_segment & (data[1:] == ord("/"))).any():
        return True
    if (begins_segment & (data[1:] == ord("."))).any() and (b"/./" in text or b"/../" in text):
        return True
    return not text.isascii() and any(letter in text for letter in _ODD_LETTERS)
