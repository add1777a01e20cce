"""The folder for what is costly to make and safe to lose: built servers, a Java home.

Standard library only: the set-up scripts import it before any package is installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(env: Mapping[str, str] = os.environ) -> Path:
    """`LAKESWEEP_CACHE`, else `XDG_CACHE_HOME/lakesweep`, else `~/.cache/lakesweep`; not created here."""
    own = env.get("LAKESWEEP_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = env.get("XDG_CACHE_HOME")
    return (
        Path(shared).expanduser().absolute() if shared else Path.home() / ".cache"
    ) / "lakesweep"
