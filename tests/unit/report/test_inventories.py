"""What reports say of a run by an inventory."""

from __future__ import annotations

from dataclasses import replace

from lakesweep.collector.record import decode_record, encode_record
from lakesweep.domain.verdicts import Tally
from lakesweep.report.accounts import accounts
from lakesweep.report.html.page import run_page
from lakesweep.report.text import run_text
from lakesweep_testing.sample_runs import HOSTILE, sample_record, sample_summary

FACTS = {
    "uri": "s3://inventories/lake/daily/2026-05-01T00-00Z/manifest.json",
    "kind": "S3 Inventory",
    "taken_at": "2026-05-01T00:00:00Z",
    "files": 3,
    "filters": "",
    "rows": 2_000,
    "rows_listed": 1_207,
    "rows_outside": 700,
    "rows_in_other_folders": 93,
    "rows_not_current": 0,
    "looked_up": 107,
    "as_listed": 100,
    "rewritten": 3,
    "vanished": 4,
}
RECORD = replace(sample_record(), inventory=FACTS).tallied(
    {
        "listed": Tally(1_207, 5_700),
        "rewritten": Tally(3, 300),
        "vanished": Tally(4, 400),
    }
)
LINE = (
    "S3 Inventory s3://inventories/lake/daily/2026-05-01T00-00Z/manifest.json, taken at 2026-05-01T00:00:00Z; 2,000 rows: "
    "1,207 listed, 700 outside the namespace, 93 in folders that are not collected; 107 looked up in the store"
)


def test_the_text_names_the_inventory_and_what_became_of_its_rows() -> None:
    """Who reads it sees that nothing was listed, and what the store said."""
    text = run_text(RECORD)
    assert f"inventory   {LINE}\n" in text
    assert "an inventory took the place of a listing" in text
    assert "everything was listed" not in text
    assert "other objects today than the inventory names" in text
    assert "no longer in the store" in text


def test_the_account_of_an_inventory_adds_up() -> None:
    """What was rewritten or has vanished is a part of what was listed."""
    assert [account.is_whole for account in accounts(RECORD)] == [True, True]


def test_the_page_says_what_the_text_says() -> None:
    """And a hostile name in it is text."""
    record = replace(RECORD, inventory=FACTS | {"uri": HOSTILE})
    page = run_page(record, sample_summary())
    assert "700 outside the namespace" in page
    assert "<script>alert" not in page
    assert "rewritten" in page


def test_a_record_keeps_what_it_says_of_an_inventory() -> None:
    """A sweep of it writes the record again."""
    assert decode_record(encode_record(RECORD), "record").inventory == FACTS
