"""The folder for what is costly to make and safe to lose: built servers, a Java home, compiled code.

Standard library only: the set-up scripts import it before any package is installed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["cache_folder", "home_folder"]


def home_folder(env: Mapping[str, str] = os.environ) -> Path:
    """The user's home. A bare user id, as containers have, has none: then a folder that is never there."""
    try:
        return Path(env.get("HOME") or Path.home())
    except RuntimeError:
        return Path("/nonexistent")


def cache_folder(env: Mapping[str, str] = os.environ) -> Path:
    """`LAKESWEEP_CACHE`, else `XDG_CACHE_HOME/lakesweep`, else `~/.cache/lakesweep`; not created here.

    Where the last two can't be written, as in a container or under systemd's protection, it is a folder of this user's
    among the temporary files.
    """
    own = env.get("LAKESWEEP_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = env.get("XDG_CACHE_HOME")
    usual = (
        Path(shared).expanduser().absolute() if shared else home_folder(env) / ".cache"
    ) / "lakesweep"
    return usual if _can_be_written(usual) else _temporary_folder() or usual


def _can_be_written(folder: Path) -> bool:
    nearest = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    return os.access(nearest, os.W_OK | os.X_OK)


def _temporary_folder() -> Path | None:
    """A folder that nobody else can write to: programs are started from it. None where somebody else has taken its name."""
    folder = Path(tempfile.gettempdir()) / f"lakesweep-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return folder if is_own and not found.st_mode & 0o077 else None
