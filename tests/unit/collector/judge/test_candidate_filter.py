"""References that no candidate can meet are left out, and nobody is judged by what is left but those the choice was made for."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.judge import meeting
from lakesweep.collector.judge.candidate_filter import is_worth_it, save_filter
from lakesweep.collector.judge.magnitudes import magnitudes_of
from lakesweep.collector.judge.meeting import (
    Canaries,
    CandidateSide,
    Judged,
    ReferenceSide,
    judge_all,
)
from lakesweep.collector.judge.references import CANARY, EXPIRED, LIVE, SAMPLED_ONE_OF, is_sampled
from lakesweep.collector.lakefs import references as lakefs_references
from lakesweep.collector.lakefs.between_runs.range_cache import HashedRange, size_bits
from lakesweep.collector.lakefs.candidates import SavedFile, read_candidates
from lakesweep.collector.lakefs.judging import address_judge
from lakesweep.collector.lakefs.references import (
    AddressList,
    RangeReference,
    StagedFile,
    read_references,
)
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Verdict
from lakesweep.engine.cells import Hashes
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.tables import UNCOMMITTED_SCHEMA, write_uncommitted
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

CUTOFF = datetime(2026, 1, 1, tzinfo=UTC)
A, B, *OTHERS = (f"data/gcoca17haabs73f2gtq0/c{n:018d}0" for n in range(2_002))


class Meeting:
    """Candidates and references in a store of their own."""

    def __init__(self) -> None:
        root = f"mem://filter-{uuid.uuid4().hex}/ns"
        self.target = Target(Location.parse(root), StorageOptions())

    def saved(self, *addresses: str) -> str:
        """A list of addresses that the server gave."""
        key = f"{uuid.uuid4().hex}.parquet"
        rows = [{"physical_address": a, "creation_date": 0} for a in addresses]
        table = pa.Table.from_pylist(rows, schema=UNCOMMITTED_SCHEMA)
        self.target.open().write(key, write_uncommitted(table))
        return key

    def judged(
        self,
        candidates: Sequence[str],
        references: Sequence[object],
        canaries: Sequence[str] = (),
    ) -> Judged:
        items = [*references, AddressList("canaries", tuple(canaries), CANARY)]
        target = self.target

        def dead(name: str) -> UnsafeToSweepError:
            return UnsafeToSweepError(f"{name} is dead")

        return judge_all(
            InProcessEngine(),
            ReferenceSide(
                items,  # type: ignore[arg-type]  # the test's own lists
                lambda n: partial(read_references, target, n),
                2,
                entries=1_000_000,
                read_filtered=lambda n, key: partial(read_references, target, n, filter_key=key),
            ),
            CandidateSide(
                [SavedFile(key) for key in candidates],
                lambda n: partial(read_candidates, target, n),
                10,
                1,
            ),
            address_judge(target, "verdicts/", CUTOFF),
            Canaries(canaries, dead),
        )


@pytest.fixture
def met() -> Meeting:
    return Meeting()


def test_references_that_no_candidate_has_are_left_out(met: Meeting) -> None:
    """What is read is counted all the same, and every verdict is as without."""
    live, expired = AddressList("live", (A, *OTHERS), LIVE), AddressList("old", (B,), EXPIRED)
    found = met.judged([met.saved(A, B)], [live, expired], canaries=OTHERS[:3])
    assert {v: t.objects for v, t in found.tallies.items() if t.objects} == {
        Verdict.LIVE: 1,
        Verdict.UNDATED: 1,
    }
    [counts] = [row for row in found.reference_counts if row["item"] == "list:live"]
    assert counts["entries"] == counts["sent"] + counts["left_out"] == 1 + len(OTHERS)
    # A, the canaries, and of the others about one in sixteen.
    assert 4 <= found.live_references == counts["sent"] < len(OTHERS) / 4
    assert list(met.target.open().keys("verdicts/filter")) == []


def test_a_reader_that_understands_too_little_is_noticed(
    met: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the filter leaves out does not hide what a reader has lost."""
    plain = lakefs_references._staged_hashes

    def lossy(rows: pa.Table, normaliser: AddressNormaliser) -> tuple[int, Hashes]:
        entries, hashes = plain(rows, normaliser)
        return entries, hashes[:-1]

    monkeypatch.setattr(lakefs_references, "_staged_hashes", lossy)
    with pytest.raises(UnsafeToSweepError, match="2000 entries inside, 1999 were understood"):
        met.judged([met.saved(A)], [StagedFile(met.saved(*OTHERS))])


def test_a_canary_keeps_its_references(met: Meeting) -> None:
    """A canary that is live comes out as live though no candidate has its name; one that nothing holds is noticed."""
    met.judged([met.saved(A)], [AddressList("live", (A, B), LIVE)], canaries=[B])
    with pytest.raises(UnsafeToSweepError, match=f"{B} is dead"):
        met.judged([met.saved(A)], [AddressList("live", (A,), LIVE)], canaries=[B])


def test_what_is_live_is_measured_by_a_sample(met: Meeting) -> None:
    """Each of the sample stands for as many as are left out; one that comes twice counts once."""
    lists = [StagedFile(met.saved(*OTHERS), is_measured=True) for _ in range(2)]
    found = met.judged([met.saved(A)], lists)
    sampled = int(is_sampled(hash_addresses(pa.array(OTHERS))).sum())
    assert found.live.objects == sampled * SAMPLED_ONE_OF
    assert len(OTHERS) / 2 < found.live.objects < len(OTHERS) * 2


@pytest.mark.parametrize("is_sampled_too", [True, False])
def test_one_huge_object_in_the_sample_does_not_stand_for_many(
    met: Meeting, monkeypatch: pytest.MonkeyPatch, is_sampled_too: bool
) -> None:
    """What is live would look larger than it is, and a plan that deletes most of its bytes like a small one."""
    hashes = hash_addresses(pa.array(OTHERS))
    sizes = np.full(len(OTHERS), 10**6)
    sizes[np.flatnonzero(is_sampled(hashes) == is_sampled_too)[0]] = 10**12
    item = RangeReference(RangeId("r"), len(OTHERS), LIVE, is_measured=True)
    held = HashedRange(
        item.range_id, item.count, hashes, magnitudes_of(sizes), 0, 0, size_bits(sizes)
    )
    monkeypatch.setattr(lakefs_references, "_read_ranges", lambda *_: [(item, held, "")])
    found = met.judged([met.saved(A)], [item])
    assert 0 < found.live.bytes <= sizes.sum()


def _forgets(what: str) -> object:
    """Makes a filter of fewer candidates, or of fewer canaries, than are judged."""

    def save(
        engine: object,
        target: Target,
        folder: str,
        candidates: object,
        rows: object,
        canaries: Hashes,
    ) -> str:
        if what == "canaries":
            canaries = canaries[:0]
        else:
            candidates = replace(candidates, items=[])  # type: ignore[type-var]
        return save_filter(engine, target, folder, candidates, rows, canaries)  # type: ignore[arg-type]

    return save


@pytest.mark.parametrize("what", ["candidates", "canaries"])
def test_nobody_is_judged_by_a_choice_that_was_not_made_for_them(
    met: Meeting, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """References of what the filter does not know were left out: it would look like garbage."""
    monkeypatch.setattr(meeting, "save_filter", _forgets(what))
    with pytest.raises(UnsafeToSweepError, match=f"1 of the {what}") as caught:
        met.judged([met.saved(A)], [AddressList("live", (A, B), LIVE)], canaries=[B])
    assert caught.value.kind == "not-conserved"


def test_a_filter_that_was_changed_is_refused(
    met: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one bit, on its way to the readers."""

    def save(*told: object) -> str:
        key = save_filter(*told)  # type: ignore[arg-type]
        data = bytearray(met.target.open().read(key))
        data[-1] ^= 1
        met.target.open().write(key, bytes(data))
        return key

    monkeypatch.setattr(meeting, "save_filter", save)
    with pytest.raises(UnsafeToSweepError, match="not the one that was written"):
        met.judged([met.saved(A)], [AddressList("live", (A,), LIVE)])


def test_a_filter_is_for_few_candidates_and_many_references() -> None:
    """Else it costs more than it saves."""
    assert is_worth_it(100, 1_000_000)
    assert not is_worth_it(100, 999_999)
    assert not is_worth_it(1_000_000, 3_999_999)
    assert is_worth_it(1_000_000, 4_000_000)
