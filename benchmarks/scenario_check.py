"""Whether a run on the scenario found and deleted exactly what it should have: a run that did not is not timed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lake_objects import Indexes
from scenario import Expected
from scenario_server import ScenarioServer

_MARK = "_lakefs/retention/gc/addresses/mark_id="


class WrongResultError(Exception):
    """A run that did something else than it should have."""


def check_mark(server: ScenarioServer, expected: Expected, mark_id: str) -> None:
    """Refuse a mark that has something else than the garbage, or gives other reasons."""
    marked: dict[str, str] = {}
    for data in server.files(f"{_MARK}{mark_id}/"):
        rows = pq.read_table(io.BytesIO(data), columns=["address", "reason"]).to_pydict()
        marked |= dict(zip(rows["address"], rows["reason"], strict=True))
    wanted = dict.fromkeys(_addresses(server, expected.expired), "expired")
    wanted |= dict.fromkeys(_addresses(server, expected.unreferenced), "unreferenced")
    if marked != wanted:
        wrong = [name for name in marked if marked[name] != wanted.get(name)]
        missed = [name for name in wanted if name not in marked]
        raise WrongResultError(
            f"{len(marked)} objects are marked and {len(wanted)} are garbage; wrong: {_few(server, wrong)}; "
            f"missed: {_few(server, missed)}"
        )


def check_deleted(server: ScenarioServer, before: np.ndarray, expected: Expected) -> None:
    """Refuse what is left when it is not all that was there `before` but for the garbage."""
    gone = np.flatnonzero(before & ~server.alive())
    if server.s3.refused:
        raise WrongResultError(f"somebody tried to delete {server.s3.refused[:5]}")
    if not np.array_equal(gone, np.sort(expected.garbage)):
        wrong = np.setdiff1d(gone, expected.garbage)
        missed = np.setdiff1d(expected.garbage, gone)
        names = [list(_addresses(server, some[:5])) for some in (wrong, missed)]
        raise WrongResultError(
            f"{len(gone)} objects are gone, {len(wrong)} of them wrongly: {_few(server, names[0])}; "
            f"{len(missed)} were left: {_few(server, names[1])}"
        )


def check_run(
    server: ScenarioServer, before: np.ndarray, expected: Expected, record: dict[str, Any]
) -> None:
    """Refuse a run that marked, deleted or said something else than it should have."""
    check_mark(server, expected, record["mark_id"])
    check_deleted(server, before, expected)
    if record["objects"]["deleted"] != len(expected.garbage) or record["status"] != "swept":
        raise WrongResultError(f"the record does not say what happened: {record}")


def _addresses(server: ScenarioServer, ranks: Indexes) -> Iterator[str]:
    rows = np.ascontiguousarray(server.scenario.objects.addresses(ranks))
    return (bytes(row).decode() for row in rows)


def _few(server: ScenarioServer, names: list[str]) -> str:
    """Some names with the roles of what they name."""
    objects = server.scenario.objects
    told = []
    for name in names[:5]:
        index = objects.index_of(f"{objects.prefix.removesuffix('data/')}{name}")
        rank = None if index is None else int(objects.ranks(np.array([index]))[0])
        told.append(f"{name} ({objects.role_of(rank) if rank is not None else 'foreign'})")
    return ", ".join(told) or "none"
