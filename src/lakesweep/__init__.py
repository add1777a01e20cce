"""lakesweep: a garbage collector for versioned data lakes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakesweep.api import (
        LoweredGuards,
        backup,
        collect,
        explain,
        mark,
        restore,
        resume,
        sweep,
        what_if,
    )
    from lakesweep.collector.record import RunRecord, RunStatus
    from lakesweep.errors import LakesweepError

__all__ = [
    "LakesweepError",
    "LoweredGuards",
    "RunRecord",
    "RunStatus",
    "backup",
    "collect",
    "explain",
    "mark",
    "restore",
    "resume",
    "sweep",
    "what_if",
]

_HOMES = {
    "LakesweepError": "lakesweep.errors",
    "RunRecord": "lakesweep.collector.record",
    "RunStatus": "lakesweep.collector.record",
}


def __getattr__(name: str) -> Any:
    """The public names, loaded when they are asked for: the command line and the lake need only some of it."""
    if name not in __all__:
        raise AttributeError(f"module 'lakesweep' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "lakesweep.api")), name)
