"""What the groups of the lake's operations have in common."""

from __future__ import annotations

from lakesweep.lake.values import Repository
from lakesweep.lake.wiring import LakeParts


class LakeBase:
    """Finds the repository that an operation names."""

    _parts: LakeParts

    def _repository(self, repository_id: str) -> Repository:
        return self._parts.repositories.get(repository_id)

    def _writable(self, repository_id: str, *, force: bool = False) -> Repository:
        return self._parts.repositories.writable(repository_id, force=force)
