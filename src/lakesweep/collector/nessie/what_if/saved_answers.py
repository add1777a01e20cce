"""The last answer to what-if on a catalog, kept in the work location for the pages of runs."""

from __future__ import annotations

import hashlib
import json

from lakesweep.collector.nessie.records import find_record
from lakesweep.collector.record import RunRecord
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.domain.what_if import WhatIf
from lakesweep.storage import ObjectStore

__all__ = ["answer_file", "last_run", "save_answer"]


def answer_file(catalog: str) -> str:
    """The name of the file, relative to the work location, which may serve several catalogs."""
    return f"what-if-{hashlib.sha256(catalog.encode()).hexdigest()[:16]}.json"


def save_answer(store: ObjectStore, answer: WhatIf) -> None:
    """Keep an answer in place of the one before it."""
    store.write(answer_file(answer.name), json.dumps(answer.as_json(), indent=2).encode())


def last_run(store: ObjectStore, catalog: str) -> RunRecord | None:
    """The record of the run on this catalog that began last; None where the work location has none."""
    folders = [LiveSetId(name.removesuffix("/")) for name in store.list_folder().folders]
    records = [record for folder in folders if (record := find_record(store, folder)) is not None]
    own = [record for record in records if record.repository == catalog]
    return max(own, key=lambda record: record.started_at, default=None)
