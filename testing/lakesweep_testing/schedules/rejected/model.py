"""What the models have in common: readable records with compare-and-set, and objects."""

from __future__ import annotations

import json
from typing import Any

from lakesweep_testing.schedules.running import Actor
from lakesweep_testing.schedules.steps import MODEL
from lakesweep_testing.schedules.world import World


class Model:
    """The records and objects of a model as one actor reaches them, each call a step."""

    def __init__(self, actor: Actor) -> None:
        self._kv = actor.world._stepped_kv
        self._store = actor.store

    def get(self, name: str) -> Any:
        """The value of a record, or None."""
        raw = self._kv.get(MODEL, name.encode())
        return None if raw is None else json.loads(raw)

    def set(self, name: str, value: Any) -> None:
        """Write a record."""
        self._kv.set(MODEL, name.encode(), _encode(value))

    def set_if(self, name: str, value: Any, expected: Any) -> bool:
        """Write a record if it has this value (None: no such record)."""
        before = None if expected is None else _encode(expected)
        return self._kv.set_if(MODEL, name.encode(), _encode(value), before)

    def remove(self, name: str) -> None:
        """Remove a record."""
        self._kv.delete(MODEL, name.encode())

    def names(self, prefix: str) -> list[str]:
        """The names of records that begin so."""
        return [key.decode() for key, _ in self._kv.page(MODEL, prefix=prefix.encode())]

    def write(self, name: str, content: str) -> None:
        """Write an object."""
        self._store.write(f"{MODEL}/{name}", content.encode())

    def read(self, name: str) -> str:
        """Read an object."""
        return self._store.read(f"{MODEL}/{name}").decode()

    def delete(self, name: str) -> None:
        """Delete an object."""
        self._store.delete_many([f"{MODEL}/{name}"])


def put(world: World, name: str, value: Any) -> None:
    """A record that is there before the schedule begins."""
    world.kv.set(MODEL, name.encode(), _encode(value))


def put_object(world: World, name: str, content: str) -> None:
    """An object that is there before the schedule begins."""
    world.backend.put(f"{MODEL}/{name}", content.encode(), create=False, if_match=None)


def records(world: World, prefix: str) -> dict[str, Any]:
    """What the records that begin so say, for checks."""
    rows = world.kv.page(MODEL, prefix=prefix.encode())
    return {key.decode(): json.loads(raw) for key, raw in rows}


def content(world: World, name: str) -> str | None:
    """What an object says, for checks; None when it is gone."""
    found = world.container.objects.get(world.full_key(f"{MODEL}/{name}"))
    return None if found is None else found.data.decode()


def missing_bytes(world: World, *prefixes: str) -> str:
    """The first record below these prefixes that names an object which is gone."""
    for prefix in prefixes:
        for name, address in records(world, prefix).items():
            if content(world, address) is None:
                return f"{name} names {address}, whose bytes are gone"
    return ""


def _encode(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
