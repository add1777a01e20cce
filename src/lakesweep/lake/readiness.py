"""Whether the lake could serve a request now: its folder can be written, and its ref store answers."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import time

from lakesweep.errors import LakesweepError
from lakesweep.lake.lake import Lake

logger = logging.getLogger(__name__)

LEAST_FREE_BYTES = 64 * 1024 * 1024
# Anyone may ask, and a look writes to the disk.
_LOOK_SECONDS = 1.0


class Readiness:
    """Looks at disk and ref store, at most once a second."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._turn = threading.Lock()
        self._seen: tuple[float, dict[str, str]] | None = None

    def check(self) -> dict[str, str]:
        """`ok` or what is wrong, of each; no path or address, as strangers read it. The log has the reason."""
        with self._turn:
            now = time.monotonic()
            if self._seen is None or now >= self._seen[0] + _LOOK_SECONDS:
                self._seen = (now, {"disk": self._look_at_disk(), "refs": self._look_at_refs()})
            return self._seen[1]

    def _look_at_disk(self) -> str:
        folder = self._lake.settings.data_dir
        try:
            if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
                return "full"
            descriptor, path = tempfile.mkstemp(prefix=".ready-", dir=folder)
            os.close(descriptor)
            os.unlink(path)
        except OSError as error:
            logger.error("not ready: the data folder can't be written: %s", error)
            return "not writable"
        return "ok"

    def _look_at_refs(self) -> str:
        try:
            self._lake.credentials.is_initialized()
        except LakesweepError as error:
            logger.error("not ready: %s", error.message)
            return "no answer"
        return "ok"
