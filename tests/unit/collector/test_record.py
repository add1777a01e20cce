"""Run records: they survive their file, and no secret gets into one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakesweep.collector.record import Phase, RunRecord, RunStatus, decode_record, encode_record
from lakesweep.errors import FormatError
from lakesweep.secrets import known_secrets


def make_record(**changes: object) -> RunRecord:
    values: dict[str, object] = {
        "repository": "repo",
        "run_id": "r",
        "mark_id": "m",
        "what": "all",
        "flow": "clean",
        "status": RunStatus.MARKED,
        "started_at": datetime(2026, 1, 2, tzinfo=UTC),
        "cutoff": datetime(2026, 1, 1, tzinfo=UTC),
        "phases": (Phase("list", 1.5, 3),),
        "notes": ("a note",),
    }
    return RunRecord(**{**values, **changes})  # type: ignore[arg-type]


def test_record_survives_its_file() -> None:
    """What is written is what is read."""
    record = make_record().counted({"listed": 3}, {"listed": 30})
    assert decode_record(encode_record(record), "x") == record


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"schema": "other"}', b"\xff\xfe"])
def test_nonsense_for_a_record_is_a_clear_error(data: bytes) -> None:
    """A damaged record is named, and never half believed."""
    with pytest.raises(FormatError, match="can't be read"):
        decode_record(data, "x")


def test_secret_in_a_message_does_not_reach_the_record() -> None:
    """A store's answer may quote a credential; the record masks it."""
    known_secrets.remember(["s3cr3t-of-the-record-test"])
    record = make_record(reason="denied for s3cr3t-of-the-record-test")
    assert b"s3cr3t-of-the-record-test" not in encode_record(record)
