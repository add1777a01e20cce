"""lakeFS, real or embedded: who is asked what, and how the answers become values."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakesweep.catalogs.lakefs.client import LakeFSClient
    from lakesweep.catalogs.lakefs.graph import GraphSource, RepositoryRefs, read_commit_graph
    from lakesweep.catalogs.lakefs.namespace import NORMALISER_VERSION, AddressNormaliser
    from lakesweep.catalogs.lakefs.ranges import committed_key, distinct_ranges, ranges_of_commits
    from lakesweep.catalogs.lakefs.retained import ServerRetainedCommits, server_retained_commits
    from lakesweep.catalogs.lakefs.transport import Timeouts
    from lakesweep.catalogs.lakefs.uncommitted import (
        UncommittedList,
        prepare_all_pages,
        read_uncommitted_list,
    )
    from lakesweep.catalogs.lakefs.values import ObjectState, Repository, ServerProfile

__all__ = [
    "NORMALISER_VERSION",
    "AddressNormaliser",
    "GraphSource",
    "LakeFSClient",
    "ObjectState",
    "Repository",
    "RepositoryRefs",
    "ServerProfile",
    "ServerRetainedCommits",
    "Timeouts",
    "UncommittedList",
    "committed_key",
    "distinct_ranges",
    "prepare_all_pages",
    "ranges_of_commits",
    "read_commit_graph",
    "read_uncommitted_list",
    "server_retained_commits",
]

_MODULES = (
    *("namespace", "values", "transport", "client"),
    *("graph", "ranges", "retained", "uncommitted"),
)


def __getattr__(name: str) -> object:
    # On demand: every Spark worker normalises addresses, and none of them should wait for an HTTP client to load.
    if name in __all__:
        for module in _MODULES:
            found = importlib.import_module(f"{__name__}.{module}")
            if name in found.__all__:
                return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
