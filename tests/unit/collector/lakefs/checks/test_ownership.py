"""Whose a namespace is, where two installations ask at the same moment."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakesweep.catalogs.lakefs.values import Repository
from lakesweep.collector.lakefs.checks.ownership import NOTE, refuse_shared_namespace
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.target import Target
from lakesweep.domain.commits import BranchId
from lakesweep.domain.location import Location
from lakesweep.errors import ObjectExistsError, UnsafeToSweepError
from lakesweep.storage import ObjectInfo, ObjectStore, open_store

MADE = datetime(2026, 1, 10, tzinfo=UTC)


def claim(store: ObjectStore, name: str = "repo") -> None:
    """What a first run of the repository does."""
    here = store.root
    own = Repository(name, here.uri, BranchId("main"), MADE, "", read_only=False)
    client = SimpleNamespace(repositories=lambda: [own], url="http://lakefs")
    target = SimpleNamespace(namespace=here, namespace_root=None, open=lambda: store)
    repository = cast("LakeFSRepository", SimpleNamespace(client=client, name=name))
    refuse_shared_namespace(repository, cast("Target", target), timedelta(minutes=10))


def test_of_two_first_runs_at_once_the_one_that_wrote_its_note_owns_the_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both found none. The other one's data would look like garbage here."""
    store = open_store(Location.parse(f"mem://ownership-{uuid.uuid4().hex}/ns"))
    write = store.write

    def write_too_late(key: str, data: bytes, **how: Any) -> ObjectInfo:
        if key == NOTE and how.get("create"):
            values = {**json.loads(data), "repository": "other"}
            write(key, json.dumps(values).encode())
            raise ObjectExistsError("the note is there")
        return write(key, data, **how)

    monkeypatch.setattr(store, "write", write_too_late)
    with pytest.raises(UnsafeToSweepError) as caught:
        claim(store)
    assert caught.value.kind == "other-owner"
    monkeypatch.undo()
    claim(store, "other")
