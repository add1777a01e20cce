"""Whether the ledger tells the truth: what goes was named before, and what it says is deleted is gone."""

from __future__ import annotations

import json
from functools import lru_cache

from lakesweep.collector.ledger.deleting import DONE, OUTCOME_SCHEMA
from lakesweep.collector.parts import read_part
from lakesweep.formats.tables import read_mark
from lakesweep_testing.schedules.world import World

LEDGER = "_lakefs/ledger/"
DELETED = "_lakefs/deleted/"


class LedgerWatch:
    """Reads what collections write to their ledger. `named` has all that was about to be deleted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.named: set[str] = set()

    def after_write(self, key: str) -> str:
        """Take note of a file; what is wrong with it, or nothing."""
        if key.startswith(LEDGER) and key.endswith(".intent.json"):
            intent = json.loads(self._world.backend.get(key))
            first = intent["start"]
            names = _names(self._world.backend.get(intent["part"]))
            self.named.update(names[first : first + intent["rows"]])
        elif key.startswith(DELETED):
            for address in _deleted(self._world.backend.get(key)):
                if self._world.full_key(address) in self._world.container.objects:
                    return f"the ledger says that {address} was deleted, and it is there"
        return ""


@lru_cache(maxsize=1024)
def _names(part: bytes) -> list[str]:
    found: list[str] = read_mark(part).column("address").to_pylist()
    return found


@lru_cache(maxsize=1024)
def _deleted(data: bytes) -> list[str]:
    rows = [
        row for batch in read_part(data, OUTCOME_SCHEMA, "outcomes") for row in batch.to_pylist()
    ]
    return [row["address"] for row in rows if row["outcome"] in DONE]
