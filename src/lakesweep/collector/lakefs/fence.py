"""The fence of a sweep: an embedded lake refuses to revive what the sweep is about to delete.

It is put up before the look that authorises a round, and lifted when the round's deletes have been answered. What was
made live before is seen by the look; what would be made live later is refused. A round that breaks off leaves the fence
standing until its last delete can't arrive any more. A real lakeFS has no such thing: there, an object that is revived
between the look and its delete is lost.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from datetime import datetime

from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.errors import CatalogError, ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.damage import named_damage
from lakesweep.formats.tables import read_mark
from lakesweep.storage import ObjectStore

logger = logging.getLogger(__name__)


class RevivalFence:
    """The fence around the rows of one mark."""

    def __init__(
        self, repository: LakeFSRepository, store: ObjectStore, marks: Sequence[str]
    ) -> None:
        self._repository = repository
        self._store, self._marks = store, marks
        self._id = uuid.uuid4().hex
        self._is_published = False

    @property
    def is_offered(self) -> bool:
        """Whether the server has fences."""
        return self._repository.profile.fences_sweeps

    def put_up(self, until: datetime) -> None:
        """Make the server refuse, from when this returns, whatever would revive an object of the mark."""
        if not self.is_offered:
            return
        client, name = self._repository.client, self._repository.name
        if not self._is_published:
            for key in self._marks:
                client.add_to_fence(name, self._id, self._addresses(key))
            self._is_published = True
        client.put_up_fence(name, self._id, until)

    def _addresses(self, key: str) -> list[str]:
        try:
            with named_damage(key, "Mark again."):
                rows = read_mark(self._store.read(key))
        except ObjectNotFoundError as missing:
            raise UnsafeToSweepError(
                f"A file of the mark is missing: {missing.message} Nothing was deleted. Mark again.",
                kind="bad-plan",
            ) from missing
        return list(rows.column("address").to_pylist())

    def lift(self) -> None:
        """Make the server refuse no longer. Where that fails, the fence ends at the time that it was put up with."""
        if self.is_offered:
            try:
                self._repository.client.lift_fence(self._repository.name, self._id)
            except CatalogError as failed:
                logger.warning("the fence stands until its time is over: %s", failed)
