"""From a location and options to a store."""

from __future__ import annotations

import os
import threading

from lakesweep.domain.location import Location
from lakesweep.domain.storage_options import StorageOptions
from lakesweep.storage.backend import Backend
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.local import LocalBackend
from lakesweep.storage.memory import MemoryBackend, memory_container
from lakesweep.storage.store import ObjectStore

_controls: dict[tuple[object, ...], CongestionControl] = {}
_controls_lock = threading.Lock()


def open_store(root: Location, options: StorageOptions | None = None) -> ObjectStore:
    """A client of the objects below `root`. Cheap: no request is made, and connections are shared.

    Without `options`, those of the environment are used.
    """
    if options is None:
        options = StorageOptions.from_environment(os.environ)
    options = options.for_location(root)
    return ObjectStore(root, _backend(root, options), options, _congestion(root, options))


def _backend(root: Location, options: StorageOptions) -> Backend:
    if root.kind == "local":
        return LocalBackend("/" + root.key, fsync=options.local_fsync)
    if root.kind == "mem":
        return MemoryBackend(memory_container(root.container), root.key)
    # Clients of remote stores take a moment to import; local work does without them.
    if root.kind == "s3":
        from lakesweep.storage.s3.backend import S3Backend

        return S3Backend(root, options)
    if root.kind == "azure":
        from lakesweep.storage.azure import AzureBackend

        return AzureBackend(root, options)
    from lakesweep.storage.gcs import GcsBackend

    return GcsBackend(root, options)


def _congestion(root: Location, options: StorageOptions) -> CongestionControl:
    """Shared by all stores in one container: its limits are the container's, whatever the root."""
    container = (root.kind, root.container, root.account, root.endpoint, options)
    with _controls_lock:
        control = _controls.get(container)
        if control is None:
            control = _controls[container] = CongestionControl(options.max_requests_in_flight)
        return control
