"""Object stores behind one client: local files, S3 and compatibles, Azure, Google Cloud Storage, memory."""

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.storage.keys import is_odd_key
from lakesweep.storage.keyspace import ranges_after, scan_direct
from lakesweep.storage.leftovers import Leftovers
from lakesweep.storage.opening import open_store
from lakesweep.storage.parallel import Crew
from lakesweep.storage.signing import SignedUploads, SignedUrl
from lakesweep.storage.store import ObjectStore
from lakesweep.storage.values import (
    LISTING_SCHEMA,
    UNKNOWN_SIZE,
    DeleteOutcome,
    DeleteOutcomes,
    DeleteStatus,
    Folder,
    KeyRange,
    ObjectInfo,
)

__all__ = [
    "LISTING_SCHEMA",
    "UNKNOWN_SIZE",
    "Crew",
    "DeleteOutcome",
    "DeleteOutcomes",
    "DeleteStatus",
    "Folder",
    "KeyRange",
    "Leftovers",
    "ObjectInfo",
    "ObjectStore",
    "SignedUploads",
    "SignedUrl",
    "StorageOptions",
    "is_odd_key",
    "open_store",
    "ranges_after",
    "scan_direct",
]
