"""What the doctor tries on the object store: each right that a run needs, with files of our own and nobody else's."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lakesweep.collector.lakefs.paths import OWN
from lakesweep.errors import LakesweepError
from lakesweep.storage import DeleteStatus, ObjectStore
from lakesweep.storage.finality import Finality, Kept, how_final_are_deletes

_GONE = (DeleteStatus.GONE, DeleteStatus.ALREADY_ABSENT)
_CONTENT = b"lakesweep doctor\n"


class CheckResult(StrEnum):
    """How one check came out."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, what was found, and what to do about it."""

    name: str
    verdict: CheckResult
    found: str
    advice: str = ""


Finding = tuple[CheckResult, str, str]  # what was found, and what to do about it


def ok(found: str) -> Finding:
    """A check whose result is as a run needs it."""
    return CheckResult.OK, found, ""


def warning(found: str, advice: str = "") -> Finding:
    """A check that found something which a run works with, but less well than it could."""
    return CheckResult.WARNING, found, advice


def wrong(found: str, advice: str = "") -> Finding:
    """A check that found something which a run would fail by."""
    return CheckResult.WRONG, found, advice


def attempt(name: str, look: Callable[[], Finding], advice: str = "") -> Check:
    """Make a check; an error in it is a finding, and does not end the examination."""
    try:
        return Check(name, *look())
    except LakesweepError as error:
        return Check(name, CheckResult.WRONG, error.message, advice)


class StoreProbe:
    """Tries the rights one by one; `store_time` is the store's clock at the probe's write."""

    def __init__(
        self,
        store: ObjectStore,
        finality: Callable[[ObjectStore], Finality] = how_final_are_deletes,
    ) -> None:
        self._store = store
        self._finality = finality
        self._key = f"{OWN}doctor/{uuid.uuid4().hex}"
        self.store_time: datetime | None = None

    def run(self) -> Iterator[Check]:
        """All checks, in the order of need. What was written is removed again."""
        yield attempt("list", self._list, "A run lists data/ below the namespace.")
        write = attempt("write", self._write, f"A run writes below {OWN}.")
        yield write
        if write.verdict is not CheckResult.WRONG:
            yield attempt("read", self._read, "A run reads what lies below _lakefs/.")
            yield attempt("copy", self._copy, "Marks and backups are copied within the store.")
            yield attempt("delete own files", self._delete_own)
        yield attempt("delete data", self._delete_data, "A sweep deletes below data/.")
        yield attempt("deletes are final", self._final)

    def _list(self) -> Finding:
        folder = self._store.list_folder("")
        return ok(f"{self._store.root.uri}: {len(folder.folders)} folders")

    def _write(self) -> Finding:
        info = self._store.write(self._key, _CONTENT)
        self.store_time = info.last_modified or self._store.stat(self._key).last_modified
        if not self._store.can_create_if_absent(self._key):
            self._store.write(self._key, _CONTENT)  # the trial has written over it
            return warning(
                "the store can't create a file only if it is absent, so it can't hold a lease",
                "Make sure that one collector runs at a time, and give --no-lease with the repository's name.",
            )
        return ok(f"below {OWN}, also only if absent")

    def _read(self) -> Finding:
        is_same = self._store.read(self._key) == _CONTENT
        return (ok if is_same else wrong)("what was written can be read")

    def _copy(self) -> Finding:
        self._store.copy(self._key, f"{self._key}-copy")
        return ok("made by the store itself")

    def _delete_own(self) -> Finding:
        keys = [self._key, f"{self._key}-copy"]
        left = [o for o in self._store.delete_many(keys) if o.status not in _GONE]
        if left:
            return wrong(f"{left[0].key} stays: {left[0].detail or left[0].status.value}")
        return ok("the files of this check are gone again")

    def _delete_data(self) -> Finding:
        # The name is made up, so nothing is there to lose; a store answers a missing right all the same.
        key = f"data/{self._key.rsplit('/', 1)[-1]}/none"
        (outcome,) = self._store.delete_many([key])
        if outcome.status not in _GONE:
            found = f"below data/: {outcome.detail or outcome.status.value}"
            return wrong(found, "A sweep deletes below data/.")
        return ok("allowed below data/ (tried with the name of no object)")

    def _final(self) -> Finding:
        finality = self._finality(self._store)
        if finality.kept is Kept.NOT_KEPT:
            return ok(finality.said)
        advice = "Deleted objects cost money until the store removes them for good: see its lifecycle rules."
        return warning(finality.said, advice)
