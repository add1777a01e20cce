"""A file that a sweep recorded instead of deleting it, in the two columns that nessie-gc has for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from lakesweep.errors import UnsafeToSweepError

__all__ = ["LONGEST_URI_PART", "DeferredFile", "deferred_file"]

# nessie-gc's columns base_uri and path_uri hold this many characters each.
LONGEST_URI_PART = 250

_SCHEME_AND_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True, slots=True)
class DeferredFile:
    """`base_uri` ends in a slash; `path_uri` is relative to it, or absolute."""

    base_uri: str
    path_uri: str
    modified_at: datetime | None

    @property
    def uri(self) -> str:
        """The absolute URI, as it was recorded."""
        return self.path_uri if _ABSOLUTE.match(self.path_uri) else self.base_uri + self.path_uri

    @property
    def is_doubtful(self) -> bool:
        """Whether it may name another file than the one that was listed.

        nessie-gc takes what stands before a colon for a scheme and lower-cases it, in relative paths too. We
        never write such a path.
        """
        return ":" in self.path_uri and not _ABSOLUTE.match(self.path_uri)


def deferred_file(base: str, uri: str, modified_at: datetime | None) -> DeferredFile:
    """Part `uri` into what both tools read back as the same file; the time is kept to the millisecond.

    nessie-gc reads a relative path with a colon as a URI and refuses one that begins with a dot, so such a path
    is recorded as an absolute one. Where a part is too long, another folder of the URI is taken as the base.

    Raises:
        UnsafeToSweepError: no way of parting it fits. It is never cut: a cut name is another file's name.
    """
    folder = base if base.endswith("/") else base + "/"
    for base_uri, path_uri in _ways_to_part(folder, uri):
        if len(base_uri) <= LONGEST_URI_PART and len(path_uri) <= LONGEST_URI_PART:
            return DeferredFile(base_uri, path_uri, _to_milliseconds(modified_at))
    raise UnsafeToSweepError(
        f"The file {uri} can't be recorded for a later delete: nessie-gc's table has room for a folder and a "
        f"path of {LONGEST_URI_PART} characters each, and a cut name would be another file's. "
        "Nothing was deleted. Run the sweep without --defer-deletes.",
        kind="too-long",
    )


def _ways_to_part(folder: str, uri: str) -> Iterator[tuple[str, str]]:
    is_below = uri.startswith(folder)
    if is_below and _is_plain(uri[len(folder) :]):
        yield folder, uri[len(folder) :]
    else:
        yield folder, uri
    head = _SCHEME_AND_AUTHORITY.match(uri)
    first = head.end() if head else 0
    ends = [at + 1 for at in range(first, len(uri)) if uri[at] == "/"]
    # The folder nearest to the base first: deeper ones, then those above it.
    depth = len(folder) if is_below else first
    for end in (*(e for e in ends if e > depth), *(e for e in reversed(ends) if e <= depth)):
        if _is_plain(uri[end:]):
            yield uri[:end], uri[end:]


def _is_plain(relative: str) -> bool:
    return bool(relative) and ":" not in relative and relative[0] not in "./"


def _to_milliseconds(time: datetime | None) -> datetime | None:
    if time is None:
        return None
    return time.astimezone(UTC).replace(microsecond=time.microsecond // 1000 * 1000)
