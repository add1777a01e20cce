"""Absolute paths of the server's own, which no client needs to know."""

from __future__ import annotations

import os
import re
from pathlib import Path

_REF_STORE = re.compile(rb"sqlite:/+[^\s;\"'<]+")


class HiddenPaths:
    """Takes the data folder's path, in every spelling, and the ref store's out of a text for clients."""

    def __init__(self, data_dir: Path) -> None:
        folders = {str(data_dir.absolute()), os.path.realpath(data_dir)}
        self._folders = [os.fsencode(folder) for folder in sorted(folders, key=len, reverse=True)]

    def take_out_of(self, text: bytes) -> bytes:
        """The text with `local://NAME` in place of a folder's path."""
        for folder in self._folders:
            for scheme in (b"file://", b"local://", b""):
                text = text.replace(scheme + folder + b"/", b"local://")
            text = text.replace(folder, b"local://")
        return _REF_STORE.sub(b"sqlite", text)
