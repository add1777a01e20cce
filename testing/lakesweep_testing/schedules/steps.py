"""One access to the ref store or the object store: what a schedule is made of."""

from __future__ import annotations

from typing import NamedTuple

from lakesweep.formats.rules import RULES_KEY

OBJECTS = "objects"
"""The place of all objects of the repository's store; every other place is a partition of the ref store."""
MODEL = "model"
"""The place of all records of a model that is no lake."""
CLOCK = "clock"
"""The place of the one clock. Everybody reads it, so a step of the clock depends on every other step."""


class Touch(NamedTuple):
    """A further key that one step reads or writes in the same transaction."""

    place: str
    key: bytes
    is_write: bool
    is_range: bool = False


class Access(NamedTuple):
    """What one step reads or writes: a key of a place or, with `is_range`, all keys that begin so; and further keys."""

    verb: str
    place: str
    key: bytes | str
    is_write: bool
    is_range: bool = False
    also: tuple[Touch, ...] = ()

    def touches(self) -> list[Access | Touch]:
        """Every key that the step reads or writes."""
        touched: list[Access | Touch] = [self]
        touched.extend(self.also)
        return touched


def are_dependent(left: Access, right: Access) -> bool:
    """Whether the order of two steps may matter: both touch one key or range, and one of them writes.

    The order of a delete of data and of a write to the ref store (or of the rules) matters as well, to the checks: bytes
    that go while something refers to them are lost, and a commit that expired may be read again after they went.
    """
    if CLOCK in (left.place, right.place):
        return True
    if (is_data_delete(left) and _makes_references(right)) or (
        is_data_delete(right) and _makes_references(left)
    ):
        return True
    if _clash(left, right):
        return True
    if not left.also and not right.also:
        return False
    return any(_clash(a, b) for a in left.touches() for b in right.touches())


def may_change_staged(access: Access) -> bool:
    """Whether the step may change which entries are staged: it writes to a staging token, or to a branch's record."""
    return any(
        touch.is_write
        and isinstance(touch.key, bytes)
        and (":" in touch.place or touch.key.startswith(b"branches/"))
        for touch in access.touches()
    )


def is_data_delete(access: Access) -> bool:
    """Whether the step deletes an object of users."""
    return (
        access.verb == "delete" and access.place == OBJECTS and str(access.key).startswith("data/")
    )


def _makes_references(access: Access) -> bool:
    return access.is_write and (access.place != OBJECTS or access.key == RULES_KEY)


def _clash(left: Access | Touch, right: Access | Touch) -> bool:
    if left.place != right.place or not (left.is_write or right.is_write):
        return False
    if left.key == right.key:
        return True
    # Keys of one place are all bytes or all text.
    return (left.is_range and right.key.startswith(left.key)) or (  # type: ignore[arg-type]
        right.is_range and left.key.startswith(right.key)  # type: ignore[arg-type]
    )


def is_private(access: Access) -> bool:
    """Whether no other actor's step can depend on this one, so that it is no place to change actors.

    Ranges and metaranges are named by their content, never change, and are read only after a record names them. Lists
    that a collection was given lie below a name that only it knows. Nothing ever deletes either while a schedule runs.
    """
    if access.place == OBJECTS:
        key = access.key
        assert isinstance(key, str)
        return key.startswith(_PRIVATE) or (key.startswith("_lakefs/") and len(key) == _CONTENT_KEY)
    return False


_PRIVATE = ("_lakefs/retention/gc/uncommitted/", "_lakefs/retention/gc/commits/")
_CONTENT_KEY = len("_lakefs/") + 64
