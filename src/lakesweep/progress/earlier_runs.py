"""How long each phase took the last time, kept in this machine's cache folder: what time left of a whole run is told by."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lakesweep.cachefolder import cache_folder
from lakesweep.json_text import parse_json

__all__ = ["earlier_seconds", "keep_seconds"]


def earlier_seconds(run: str, env: Mapping[str, str] = os.environ) -> dict[str, float]:
    """Seconds of each phase of the last such run, in order; none where none is known."""
    try:
        found = parse_json(_file_of(run, env).read_bytes())
        return {str(name): float(seconds) for name, seconds in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def keep_seconds(
    run: str, phases: Iterable[tuple[str, float]], env: Mapping[str, str] = os.environ
) -> None:
    """Keep how long the phases of a run took. A folder that can't be written is left alone."""
    seconds: dict[str, float] = {}
    for name, took in phases:
        seconds[name] = round(seconds.get(name, 0.0) + took, 3)
    try:
        path = _file_of(run, env)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(seconds))
        draft.replace(path)
    except OSError:
        pass  # it only tells how long a run may take


def _file_of(run: str, env: Mapping[str, str]) -> Path:
    name = hashlib.sha256(run.encode()).hexdigest()[:32]
    return cache_folder(env) / "phases" / f"{name}.json"
