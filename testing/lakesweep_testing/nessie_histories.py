"""Random histories of a Nessie catalog, from a seed, written to the fake or to a real server alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import httpx

from lakesweep_testing.nessie_contents import Content, Key, delta_table, table, udf, view
from lakesweep_testing.nessie_state import Refusal

__all__ = ["HISTORY_KEYS", "NessieUser", "write_random_history"]

HISTORY_KEYS: tuple[Key, ...] = (
    *(("db", name) for name in "abcd"),
    ("e",),
    ("db", "deep", "f.g"),
)
_NAMES = ("dev", "dev-2", "feature/x", "v1", "v2", "v3", "hotfix", "main-old")
_ACTIONS = {
    "put": 10,
    "drop": 3,
    "rename": 2,
    "fork": 2,
    "tag": 2,
    "delete": 1,
    "assign": 1,
    "merge": 2,
}
_KINDS = ("ICEBERG_TABLE",) * 5 + ("ICEBERG_VIEW", "DELTA_LAKE_TABLE", "UDF")


class NessieUser(Protocol):
    """What FakeNessie and NessieWriter have in common."""

    def heads(self) -> dict[str, str]: ...
    def contents(self, keys: Sequence[Key], ref: str = "main") -> dict[Key, Content]: ...
    def commit(
        self,
        branch: str,
        puts: Mapping[Key, Content] | None = None,
        deletes: Sequence[Key] = (),
        message: str = "",
    ) -> str: ...
    def rename(self, branch: str, old: Key, new: Key) -> str: ...
    def merge(
        self, source: str, target: str = "main", *, drop: Sequence[Key] = (), force: bool = False
    ) -> str: ...
    def create_branch(self, name: str, source: str = "main", hash: str | None = None) -> str: ...
    def create_tag(self, name: str, source: str = "main", hash: str | None = None) -> str: ...
    def assign(self, name: str, source: str = "main", hash: str | None = None) -> str: ...
    def delete_reference(self, name: str) -> None: ...


def write_random_history(
    user: NessieUser,
    seed: int,
    steps: int,
    *,
    drops_in_merges: bool = False,
    before_step: Callable[[int], object] | None = None,
) -> list[str]:
    """Take so many steps on a fresh server; gives the hashes of all commits in the order they were made.

    What is done depends on the seed alone, so two servers come to the same history but for hashes, ids and times.
    Only for merges that leave out some keys do the fake and a real server differ in what they accept.
    """
    return _Writer(user, random.Random(seed), drops_in_merges).write(steps, before_step)


class _Writer:
    def __init__(self, user: NessieUser, rng: random.Random, drops_in_merges: bool) -> None:
        self._user = user
        self._rng = rng
        self._drops_in_merges = drops_in_merges
        self._made: list[str] = []
        # The hashes that each reference has pointed at, as far back as this writer put it there.
        self._logs: dict[str, list[str]] = {"main": []}
        self._tags: set[str] = set()

    def write(self, steps: int, before_step: Callable[[int], object] | None) -> list[str]:
        for step in range(steps):
            if before_step is not None:
                before_step(step)
            action = self._rng.choices(list(_ACTIONS), list(_ACTIONS.values()))[0]
            getattr(self, f"_{action}")(step)
        return self._made

    def _put(self, step: int) -> None:
        branch = self._branch()
        keys = self._rng.sample(HISTORY_KEYS, self._rng.choice((1, 1, 1, 2, 3)))
        there = self._user.contents(keys, branch)
        # After some merges two keys have one id, and no commit may put it twice.
        twins = [there[key]["id"] for key in keys if key in there]
        if len(set(twins)) < len(twins):
            keys = keys[:1]
        kinds = {key: self._rng.choice(_KINDS) for key in keys}
        puts = {
            key: _content(str(there[key]["type"]) if key in there else kinds[key], key, step)
            for key in keys
        }
        self._committed(branch, self._user.commit(branch, puts))

    def _drop(self, step: int) -> None:
        branch = self._branch()
        there = self._there(branch)
        if there:
            gone = self._rng.choice(there)
            self._committed(branch, self._user.commit(branch, deletes=[gone]))

    def _rename(self, step: int) -> None:
        branch = self._branch()
        there = self._there(branch)
        free = [key for key in HISTORY_KEYS if key not in there]
        if there and free:
            old, new = self._rng.choice(there), self._rng.choice(free)
            self._committed(branch, self._user.rename(branch, old, new))

    def _create(self, is_tag: bool) -> None:
        name = self._rng.choice(_NAMES)
        source, hash = self._somewhere()
        if name in self._logs or hash is None:
            return
        create = self._user.create_tag if is_tag else self._user.create_branch
        create(name, source, hash)
        self._logs[name] = self._log_until(source, hash)
        if is_tag:
            self._tags.add(name)

    def _fork(self, step: int) -> None:
        self._create(False)

    def _tag(self, step: int) -> None:
        self._create(True)

    def _delete(self, step: int) -> None:
        names = [name for name in self._logs if name != "main"]
        if names:
            name = self._rng.choice(names)
            self._user.delete_reference(name)
            del self._logs[name]
            self._tags.discard(name)

    def _assign(self, step: int) -> None:
        names = [name for name in self._logs if name != "main"]
        source, hash = self._somewhere()
        if names and hash is not None:
            name = self._rng.choice(names)
            self._user.assign(name, source, hash)
            self._logs[name] = self._log_until(source, hash)

    def _merge(self, step: int) -> None:
        target = self._branch()
        sources = [name for name in self._logs if name != target and self._logs[name]]
        if not sources or not self._logs[target]:
            return
        source = self._rng.choice(sources)
        dropped = self._rng.choice((0, 1, 2)) if self._drops_in_merges else 0
        drop = self._rng.sample(HISTORY_KEYS, dropped)
        before = self._user.heads()[target]
        try:
            after = self._user.merge(source, target, drop=drop, force=True)
        except (Refusal, httpx.HTTPStatusError):
            return  # a dropped key that did not change, or an id that would come twice
        if after != before:
            self._committed(target, after)

    def _branch(self) -> str:
        others = [name for name in self._logs if name not in self._tags and name != "main"]
        return self._rng.choice(others) if others and self._rng.random() < 0.5 else "main"

    def _there(self, branch: str) -> list[Key]:
        return sorted(self._user.contents(HISTORY_KEYS, branch))

    def _somewhere(self) -> tuple[str, str | None]:
        """A reference and a commit near its head; no commit where it has none."""
        source = self._rng.choice(list(self._logs))
        log = self._logs[source]
        back = self._rng.choice((0, 0, 1, 2, 5, 9))
        return source, log[-1 - back] if back < len(log) else None

    def _log_until(self, source: str, hash: str) -> list[str]:
        log = self._logs[source]
        return log[: log.index(hash) + 1]

    def _committed(self, branch: str, hash: str) -> None:
        self._made.append(hash)
        self._logs[branch].append(hash)


def _content(kind: str, key: Key, step: int) -> Content:
    place = f"s3://lake/{'/'.join(key)}"
    if kind == "ICEBERG_VIEW":
        return view(f"{place}/metadata/{step}.json", step)
    if kind == "DELTA_LAKE_TABLE":
        return delta_table([f"{place}/_delta_log/{step}.json"], last_checkpoint=f"{place}/cp")
    if kind == "UDF":
        return udf(f"{place}/{step}.udf")
    return table(f"{place}/metadata/{step}.json", step)
