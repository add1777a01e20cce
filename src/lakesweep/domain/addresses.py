"""What a listed key is, told from its shape alone. Only what lakeFS itself writes may ever be a candidate.

The patterns are strings that Python's `re` and RE2 (Arrow) read alike, so that the rule on one key and the rule on
a column of a million keys are one rule. Python matches with `fullmatch`; RE2 needs the anchors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "CANDIDATE_PATTERN",
    "DATA_CANDIDATE_PATTERN",
    "FOREIGN_REPOSITORY_PATTERN",
    "PROTECTED_PATTERNS",
    "ROOT_CANDIDATE_PATTERN",
    "SLICE_PATTERN",
    "KeyKind",
    "KeyShape",
    "ProtectedReason",
    "candidate_pattern",
    "classify_key",
    "is_candidate",
]

# An xid is 96 bits in 20 characters of base32hex, so the last character holds one bit: 0 or g.
_XID = r"[0-9a-v]{19}[0g]"
# `,<signature>` is part of the key of an object uploaded to an issued address (unpadded URL-safe base64).
_OBJECT = _XID + r"(?:,[0-9A-Za-z_-]{8,128})?"
# Sharded namespaces put short levels before the slice; the first begins with "!" so that it sorts before slices.
_SHARDS = r"(?:![0-9A-Za-z]{0,16}/(?:!?[0-9A-Za-z]{1,16}/){0,4})?"

SLICE_PATTERN = rf"^{_XID}$"
DATA_CANDIDATE_PATTERN = rf"^data/{_SHARDS}{_XID}/{_OBJECT}$"
# Repositories from before slices kept objects at the root of the namespace, named by 32 hex digits. Such names were
# never written below data/, so there they count as foreign. Any tool names files like that, so at the root they count
# only in a repository whose own commits hold such addresses.
ROOT_CANDIDATE_PATTERN = r"^[0-9a-f]{32}$"
CANDIDATE_PATTERN = rf"(?:{DATA_CANDIDATE_PATTERN})|(?:{ROOT_CANDIDATE_PATTERN})"

# Every repository marks its namespace with `_lakefs/` (today) or `dummy` (long ago). Below data/ that is somebody
# else's repository inside ours, and its objects would look like our garbage.
FOREIGN_REPOSITORY_PATTERN = r"(?s)^data/(?:.*/)?(?:_lakefs/.*|dummy)$"


class KeyKind(StrEnum):
    """What may be done with a listed key."""

    CANDIDATE = "candidate"
    PROTECTED = "protected"
    FOREIGN_REPOSITORY = "foreign-repository"


class ProtectedReason(StrEnum):
    """Why a key is never touched."""

    METADATA = "lakeFS metadata"
    MARKER = "repository marker"
    PLAIN_FILE_UNDER_DATA = "plain file directly under data/"
    UNKNOWN_SHAPE_UNDER_DATA = "not a name that lakeFS gives below data/"
    FOREIGN_FILE_AT_ROOT = "foreign file at the root of the namespace"
    FOREIGN_FOLDER = "foreign folder in the namespace"
    ODD_KEY = "key that the store's client can't carry safely"
    OTHER_REPOSITORY = "another repository inside data/"


# The first pattern that matches names the reason; the last one matches everything.
PROTECTED_PATTERNS: tuple[tuple[ProtectedReason, str], ...] = (
    (ProtectedReason.METADATA, r"(?s)^_lakefs(?:/.*)?$"),
    (ProtectedReason.MARKER, r"^dummy$"),
    (ProtectedReason.PLAIN_FILE_UNDER_DATA, r"(?s)^data/[^/]*$"),
    (ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA, r"(?s)^data/.*$"),
    (ProtectedReason.FOREIGN_FILE_AT_ROOT, r"(?s)^[^/]*$"),
    (ProtectedReason.FOREIGN_FOLDER, r"(?s)^.*$"),
)

_DATA_CANDIDATE = re.compile(DATA_CANDIDATE_PATTERN)
_ROOT_CANDIDATE = re.compile(ROOT_CANDIDATE_PATTERN)
_FOREIGN_REPOSITORY = re.compile(FOREIGN_REPOSITORY_PATTERN)
_PROTECTED = tuple((reason, re.compile(pattern)) for reason, pattern in PROTECTED_PATTERNS)


@dataclass(frozen=True, slots=True)
class KeyShape:
    """The verdict on a key's shape; `reason` is set unless it is a candidate."""

    kind: KeyKind
    reason: ProtectedReason | None = None


_CANDIDATE_SHAPE = KeyShape(KeyKind.CANDIDATE)


def candidate_pattern(*, root_names: bool) -> str:
    """The pattern of names that may be deleted, with or without those at the root."""
    return CANDIDATE_PATTERN if root_names else DATA_CANDIDATE_PATTERN


def classify_key(key: str, *, is_odd: bool = False, root_names: bool = False) -> KeyShape:
    """The shape of a key relative to the storage namespace. `is_odd` comes from the listing and always protects.

    `root_names` says that the repository's commits hold addresses at the root.
    """
    if _FOREIGN_REPOSITORY.fullmatch(key):
        return KeyShape(KeyKind.FOREIGN_REPOSITORY, ProtectedReason.OTHER_REPOSITORY)
    if is_odd:
        return KeyShape(KeyKind.PROTECTED, ProtectedReason.ODD_KEY)
    if is_candidate(key, root_names=root_names):
        return _CANDIDATE_SHAPE
    reason = next(reason for reason, pattern in _PROTECTED if pattern.fullmatch(key))
    return KeyShape(KeyKind.PROTECTED, reason)


def is_candidate(key: str, *, root_names: bool = False) -> bool:
    """Whether the key has a shape that lakeFS gives to data objects; asked again just before each delete.

    `root_names` says that the repository's commits hold addresses at the root.
    """
    if _DATA_CANDIDATE.fullmatch(key):
        return True
    return root_names and _ROOT_CANDIDATE.fullmatch(key) is not None
