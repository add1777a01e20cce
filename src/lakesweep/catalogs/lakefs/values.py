"""What a lakeFS server says about itself, its repositories and their objects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lakesweep.domain.commits import BranchId

__all__ = ["ObjectState", "Repository", "ServerProfile"]


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository: its storage namespace as the server spells it, and the kind of store it lies in."""

    id: str
    storage_namespace: str
    default_branch: BranchId
    creation_date: datetime
    storage_id: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class ServerProfile:
    """What the server is and what it promises; `features` is empty for a real lakeFS."""

    version: str
    blockstore_type: str
    is_embedded: bool = False
    features: frozenset[str] = frozenset()

    @property
    def keeps_head_moves(self) -> bool:
        """Whether it logs what branches pointed at before they were deleted or reset."""
        return "head-moves" in self.features

    @property
    def tells_address_holders(self) -> bool:
        """Whether it lists all commits, and tells what holds an address outside of them."""
        return "address-holders" in self.features

    @property
    def fences_sweeps(self) -> bool:
        """Whether it refuses to revive what a sweep says that it is about to delete."""
        return "fence" in self.features

    @property
    def tells_hard_deletes(self) -> bool:
        """Whether it deletes objects by itself, and tells which."""
        return "hard-deletes" in self.features

    @property
    def lists_linked_objects(self) -> bool:
        """Whether its uncommitted list is whole. A real server on local files leaves linked objects out."""
        return self.is_embedded or self.blockstore_type != "local"


class ObjectState(StrEnum):
    """What reading an object through the server gives."""

    READABLE = "readable"
    GONE = "gone"
    NOT_FOUND = "not-found"
