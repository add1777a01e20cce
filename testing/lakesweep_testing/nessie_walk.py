"""What is live in a Nessie catalog by nessie-gc's rule, worked out by plain requests and none of our own code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import httpx

__all__ = ["Cutoff", "CutoffRules", "LiveStates", "NessieWalk", "State"]

Key = tuple[str, ...]


class State(NamedTuple):
    """A table or view as one commit has it."""

    content_id: str
    kind: str
    metadata_location: str
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Keep so many commits, or those since a time, or all."""

    commits: int | None = None
    since: datetime | None = None

    @property
    def text(self) -> str:
        """As nessie-gc's options take it."""
        if self.commits is not None:
            return str(self.commits)
        return "NONE" if self.since is None else self.since.isoformat().replace("+00:00", "Z")

    def cuts_off(self, number: int, at: datetime) -> bool:
        """Whether a commit, the `number`-th from the head on, is too old."""
        if self.commits is not None:
            return number > self.commits
        return self.since is not None and at < self.since


@dataclass(frozen=True, slots=True)
class CutoffRules:
    """A cut-off for references whose whole name a pattern matches, and one for all others."""

    default: Cutoff = field(default_factory=Cutoff)
    by_pattern: Mapping[str, Cutoff] = field(default_factory=dict)

    def of(self, reference: str) -> Cutoff:
        for pattern, cutoff in self.by_pattern.items():
            if re.fullmatch(pattern, reference):
                return cutoff
        return self.default


@dataclass(frozen=True, slots=True)
class LiveStates:
    """What the rule keeps."""

    states: set[State]
    dropped: dict[
        str, State
    ]  # ids that some commit of a reference put and no live one has: their newest state
    commits: dict[
        str, tuple[str, dict[Key, State]]
    ]  # live commit → a reference with it, all that it has


class NessieWalk:
    """Asks one server, request by request, page by page; nothing is remembered."""

    def __init__(self, uri: str) -> None:
        self._http = httpx.Client(base_url=uri, timeout=30, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._http.close()

    def references(self) -> dict[str, tuple[str, str]]:
        """Every reference: name → (BRANCH or TAG, hash)."""
        listed = self._pages("trees", "references")
        return {found["name"]: (found["type"], found["hash"]) for found in listed}

    def log(self, name: str, hash: str) -> list[dict[str, Any]]:
        """A reference's commits with their operations, newest first."""
        return list(self._pages(f"trees/{_ref(name, hash)}/history", "logEntries", fetch="ALL"))

    def state(self, hash: str) -> dict[Key, State]:
        """All tables and views as a commit has them."""
        entries = self._pages(f"trees/{_ref('', hash)}/entries", "entries", content="true")
        found = {tuple(e["name"]["elements"]): _state(e["content"]) for e in entries}
        return {key: state for key, state in found.items() if state is not None}

    def live(self, rules: CutoffRules) -> LiveStates:
        """From each head until the first commit that is cut off: what commits put, and all at the last live one."""
        states: set[State] = set()
        commits: dict[str, tuple[str, dict[Key, State]]] = {}
        newest: dict[str, tuple[datetime, State]] = {}
        for name, (_, head) in self.references().items():
            cutoff, last_live, is_live = rules.of(name), None, True
            for number, entry in enumerate(self.log(name, head), 1):
                at = datetime.fromisoformat(entry["commitMeta"]["commitTime"])
                put = [s for s in map(_put, entry.get("operations") or ()) if s is not None]
                for state in put:
                    known = newest.get(state.content_id)
                    if known is None or at > known[0]:
                        newest[state.content_id] = (at, state)
                is_live = is_live and (number == 1 or not cutoff.cuts_off(number, at))
                if is_live:
                    last_live = entry["commitMeta"]["hash"]
                    states.update(put)
                    if last_live not in commits:
                        commits[last_live] = (name, self.state(last_live))
            if last_live is not None:
                states.update(commits[last_live][1].values())
        live_ids = {state.content_id for state in states}
        dropped = {i: state for i, (_, state) in newest.items() if i not in live_ids}
        return LiveStates(states, dropped, commits)

    def _pages(self, path: str, field: str, **params: str) -> Iterator[dict[str, Any]]:
        token: str | None = None
        while True:
            page = {"page-token": token} if token else {}
            reply = self._http.get(path, params={**params, **page})
            reply.raise_for_status()
            said = reply.json()
            yield from said[field]
            token = said.get("token")
            if not said["hasMore"]:
                return


def _ref(name: str, hash: str) -> str:
    return quote(f"{name}@{hash}", safe="@")


def _put(operation: Mapping[str, Any]) -> State | None:
    return _state(operation["content"]) if operation["type"] == "PUT" else None


def _state(content: Mapping[str, Any]) -> State | None:
    match content["type"]:
        case "ICEBERG_TABLE":
            number = content["snapshotId"]
        case "ICEBERG_VIEW":
            number = content["versionId"]
        case _:
            return None
    return State(content["id"], content["type"], content["metadataLocation"], number)
