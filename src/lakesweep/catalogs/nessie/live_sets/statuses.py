"""Which status may follow which, and what is said when it may not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakesweep.domain.live_sets import LiveSetId, LiveSetStatus
from lakesweep.errors import CatalogNotFoundError, ConfigError

__all__ = [
    "FAIL_EXPIRE",
    "FAIL_IDENTIFY",
    "FINISH_EXPIRE",
    "FINISH_IDENTIFY",
    "REPEAT_EXPIRE",
    "START_EXPIRE",
    "Transition",
    "live_set_exists",
    "no_such_live_set",
    "wrong_status",
]


@dataclass(frozen=True, slots=True)
class Transition:
    """A step of the work on a live set: allowed from `sources` only, leads to `target`."""

    doing: str
    sources: frozenset[LiveSetStatus]
    target: LiveSetStatus


_IDENTIFYING = frozenset({LiveSetStatus.IDENTIFY_IN_PROGRESS})
_EXPIRING = frozenset({LiveSetStatus.EXPIRY_IN_PROGRESS})

FINISH_IDENTIFY = Transition("finish the mark", _IDENTIFYING, LiveSetStatus.IDENTIFY_SUCCESS)
FAIL_IDENTIFY = Transition(
    "record the failure of the mark", _IDENTIFYING, LiveSetStatus.IDENTIFY_FAILED
)
START_EXPIRE = Transition(
    "expire", frozenset({LiveSetStatus.IDENTIFY_SUCCESS}), LiveSetStatus.EXPIRY_IN_PROGRESS
)
# Only where the expiry before was lakesweep's own: of nessie-gc's we can't tell how far it came.
REPEAT_EXPIRE = Transition(
    "expire again",
    frozenset(
        {
            LiveSetStatus.IDENTIFY_SUCCESS,
            LiveSetStatus.EXPIRY_IN_PROGRESS,
            LiveSetStatus.EXPIRY_SUCCESS,
            LiveSetStatus.EXPIRY_FAILED,
        }
    ),
    LiveSetStatus.EXPIRY_IN_PROGRESS,
)
FINISH_EXPIRE = Transition("finish the expiry", _EXPIRING, LiveSetStatus.EXPIRY_SUCCESS)
FAIL_EXPIRE = Transition("record the failure of the expiry", _EXPIRING, LiveSetStatus.EXPIRY_FAILED)


def wrong_status(
    live_set_id: LiveSetId, doing: str, expected: Collection[LiveSetStatus], actual: str
) -> ConfigError:
    wanted = " or ".join(sorted(expected))
    return ConfigError(
        f"Can't {doing} on live set {live_set_id}: its status is {actual}, and it would have to be {wanted}. "
        "Nothing was changed. `lakesweep nessie show` tells more; a new mark makes a new live set.",
        kind="wrong-status",
    )


def no_such_live_set(live_set_id: LiveSetId) -> CatalogNotFoundError:
    return CatalogNotFoundError(
        f"There is no live set {live_set_id}. Nothing was changed. "
        "`lakesweep nessie list` shows those there are.",
        kind="no-live-set",
    )


def live_set_exists(live_set_id: LiveSetId) -> ConfigError:
    return ConfigError(
        f"There is a live set {live_set_id} already. Nothing was changed.", kind="live-set-exists"
    )
