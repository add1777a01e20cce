"""A disk of a few megabytes for a server's files, which a test fills and empties: a file system in memory.

with SmallDisk(64) as disk, MinIOServer(within=disk.folder) as minio:
    disk.fill()
    ...
    disk.empty()
"""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import pytest

__all__ = ["SmallDisk"]

_PAGE = 4096


class SmallDisk:
    """An own file system where that may be mounted, as root; else a folder, on which `skip_if_not_mounted` skips."""

    def __init__(self, megabytes: int) -> None:
        self._megabytes = megabytes
        self._why_not = ""

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="lakesweep-disk-"))
        self.folder.chmod(0o755)  # a server may run as another user
        words = ["mount", "-t", "tmpfs", "-o", f"size={self._megabytes}m", "tmpfs"]
        try:
            done = subprocess.run(
                [*words, str(self.folder)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                self._why_not = done.stderr.strip() or f"mount ended with {done.returncode}"
        except FileNotFoundError:
            self._why_not = "there is no command mount"
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._why_not:
            subprocess.run(["umount", "--lazy", self.folder], check=True)
        self.folder.rmdir()

    def skip_if_not_mounted(self) -> None:
        """Skip the test where there is no small disk to fill."""
        if self._why_not:
            pytest.skip(f"a small disk can't be mounted here, which takes root: {self._why_not}")

    def fill(self) -> None:
        """Take all the space that is left."""
        assert not self._why_not
        with (self.folder / "ballast").open("wb") as file:
            size = self._megabytes << 20
            while size >= _PAGE:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def empty(self) -> None:
        """Give back what was taken."""
        (self.folder / "ballast").unlink(missing_ok=True)
