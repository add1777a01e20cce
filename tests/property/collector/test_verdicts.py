"""The columnar judge says of any facts what the plain rules say."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from lakesweep.collector.judge.candidate_filter import save_filter
from lakesweep.collector.judge.candidates import CandidatePart, listed_parts
from lakesweep.collector.judge.columns import MET_SCHEMA, Judge
from lakesweep.collector.judge.meeting import Judged, add_up
from lakesweep.collector.judge.references import (
    EXPIRED,
    GONE,
    LIVE,
    RESTORED,
    event_order,
)
from lakesweep.collector.lakefs.candidates import Candidate, SavedFile, read_candidates
from lakesweep.collector.lakefs.listing import CANDIDATE_SCHEMA
from lakesweep.collector.lakefs.references import (
    AddressList,
    EventFile,
    Reference,
    read_references,
)
from lakesweep.collector.lakefs.rows import AddressRows
from lakesweep.collector.parts import Part, PartWriter
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Facts, Source, Verdict, verdict
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter
from lakesweep.formats.tables import MARK_SCHEMA, read_mark, write_mark
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

CUTOFF = datetime(2026, 1, 10, tzinfo=UTC)
TIMES = [None, *(CUTOFF + timedelta(microseconds=us) for us in (-1, 0, 1))]


EVENTS = ("none", "deleted", "restored", "restored lately")


def facts_of(
    source: Source,
    modified: datetime | None,
    live: bool,
    expired: bool,
    protected: bool,
    event: str,
) -> Facts:
    return Facts(
        source=source,
        modified=modified,
        is_live=live,
        is_expired=expired,
        is_protected=protected,
        is_deleted=event == "deleted",
        is_restored=event.startswith("restored"),
        is_restored_lately=event == "restored lately",
    )


CHOICES = (
    (Source.LISTED, Source.PLANNED, Source.SAVED),
    TIMES,
    *[(False, True)] * 3,
    EVENTS,
)
EVERY = [facts_of(*chosen) for chosen in itertools.product(*CHOICES)]


@example(EVERY, False, False, False)
@example(EVERY, False, True, True)
@example(EVERY, True, False, True)
@example(EVERY, True, True, False)
@given(
    st.lists(st.sampled_from(EVERY), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_columns_agree_with_the_plain_rules(
    drawn: list[Facts], is_date_trusted: bool, is_date_final: bool, is_filtered: bool
) -> None:
    """Object by object, whatever else is judged with them, and also where references were chosen by a filter."""
    judged, names = judge_in_columns(drawn, is_date_trusted, is_date_final, is_filtered)
    expected = {
        name: verdict(
            Facts(
                **{
                    **{f: getattr(one, f) for f in Facts.__slots__},
                    "is_date_trusted": is_date_trusted,
                    "is_date_final": is_date_final,
                }
            ),
            CUTOFF,
        )
        for name, one in names.items()
    }
    counted = {v: t.objects for v, t in judged.tallies.items() if t.objects}
    assert counted == Counter(expected.values())
    for parts, verdicts in (
        (judged.garbage, {Verdict.EXPIRED, Verdict.UNREFERENCED}),
        (judged.undated, {Verdict.UNDATED}),
        (judged.young, {Verdict.YOUNG}),
        (judged.kept, {Verdict.LIVE}),
    ):
        told = dict(_rows(parts))
        assert set(told) == {name for name, v in expected.items() if v in verdicts}
        for name, reason in told.items():
            assert reason == ("expired" if names[name].is_expired else "unreferenced")


STORE = Target(Location.parse(f"mem://verdicts-{uuid.uuid4().hex}/ns"), StorageOptions())


def _rows(parts: list[Part]) -> list[tuple[str, str]]:
    tables = [read_mark(STORE.open().read(part.key)) for part in parts]
    return [(row["address"], row["reason"]) for table in tables for row in table.to_pylist()]


def judge_in_columns(
    drawn: list[Facts], is_date_trusted: bool, is_date_final: bool, is_filtered: bool
) -> tuple[Judged, dict[str, Facts]]:
    store = STORE.open()
    names = {
        f"data/gcoca17haabs73f2gtq0/{'foreign-' if one.is_protected else 'c'}{n:018d}0": one
        for n, one in enumerate(drawn)
    }

    def chosen(name: str) -> list[str]:
        return [address for address, one in names.items() if getattr(one, name)]

    def written(addresses: list[str]) -> str:
        key = f"{uuid.uuid4().hex}.parquet"
        rows = [
            {
                "address": a,
                "size_bytes": 3,
                "last_modified": names[a].modified,
                "reason": "unreferenced",
            }
            for a in addresses
        ]
        store.write(key, write_mark(pa.Table.from_pylist(rows, schema=MARK_SCHEMA)))
        return key

    by_source = {s: [a for a, one in names.items() if one.source is s] for s in Source}
    writer = PartWriter(store, "listing/", "l", CANDIDATE_SCHEMA)
    for a in by_source[Source.LISTED]:
        row = {"address": a, "size_bytes": 3, "last_modified": names[a].modified}
        writer.add(pa.RecordBatch.from_pylist([row], schema=CANDIDATE_SCHEMA))
    candidates: list[Candidate] = [*listed_parts(writer.close())]
    candidates.append(CandidatePart(written(by_source[Source.PLANNED]), Source.PLANNED))
    candidates.append(SavedFile(written(by_source[Source.SAVED])))
    now = event_order(CUTOFF)
    long_ago = [a for a in chosen("is_restored") if not names[a].is_restored_lately]
    others = [f"data/gcoca17haabs73f2gtq0/d{n:018d}0" for n in range(30)]
    references: list[Reference] = [
        AddressList("live", (*chosen("is_live"), *others), LIVE),
        AddressList("expired", tuple(chosen("is_expired")), EXPIRED),
        EventFile(written(chosen("is_restored")), GONE, now - 9),
        EventFile(written(chosen("is_deleted")), RESTORED, now - 9),
        EventFile(written(chosen("is_deleted")), GONE, now - 8),
        EventFile(written(long_ago), RESTORED, now - 1),
        EventFile(written(chosen("is_restored_lately")), RESTORED, now),
    ]
    judge = Judge(
        AddressRows(),
        STORE,
        "verdicts/",
        CUTOFF,
        trust_dates=is_date_trusted,
        dates_are_final=is_date_final,
        keep_young_rows=True,
        keep_live_rows=True,
    )
    engine, key = InProcessEngine(), ""
    if is_filtered:
        every = Scatter(candidates, partial(read_candidates, STORE, 1), CELL_SCHEMA, 2)
        key = save_filter(engine, STORE, "verdicts/", every, judge.rows, np.empty(0, np.uint64))
        judge = replace(judge, filter_key=key)
    met = engine.meet(
        Scatter(references, partial(read_references, STORE, 2, filter_key=key), CELL_SCHEMA, 2),
        Scatter(candidates, partial(read_candidates, STORE, 2), CELL_SCHEMA, 2),
        judge,
        MET_SCHEMA,
        2,
    )
    return add_up(met, references, candidates, judge), names
