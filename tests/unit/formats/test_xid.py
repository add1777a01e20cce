"""xids, plain and descending."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.errors import FormatError
from lakesweep.formats.xid import (
    descending_xid_time,
    is_xid,
    new_descending_xid,
    new_xid,
    xid_time,
)

NOW = datetime(2026, 7, 23, 12, 30, 45, tzinfo=UTC)


def test_slice_id_of_a_real_server_decodes_to_its_time() -> None:
    """The vector that a real server's slice gave."""
    assert descending_xid_time("gcoca17haabs73f2gtq0") == datetime(
        2024, 10, 27, 13, 19, 56, tzinfo=UTC
    )


@pytest.mark.parametrize("year", [1971, 2024, 2026, 2027, 2093])
def test_times_survive_both_directions(year: int) -> None:
    """Plain and descending ids give back the second they were made in, before and after the top bit flips."""
    at = NOW.replace(year=year)
    assert xid_time(new_xid(at)) == at
    assert descending_xid_time(new_descending_xid(at)) == at


def test_plain_ids_sort_by_age_and_descending_ids_newest_first() -> None:
    """Text order is time order, which listings rely on."""
    later = NOW + timedelta(seconds=1)
    assert new_xid(NOW) < new_xid(later)
    assert new_descending_xid(later) < new_descending_xid(NOW)


def test_ids_made_in_one_second_differ() -> None:
    """The counter tells them apart."""
    assert len({new_xid(NOW) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dbsr7q19nciljm6qg6l",
        "dbsr7q19nciljm6qg6l00",
        "DBSR7Q19NCILJM6QG6L0",
        "dbsr7q19nciljm6qg6l1",
        "dbsr7q19nciljm6qgwl0",
        "dbsr7q19nciljm6qg6l0\n",
    ],
)
def test_text_that_is_no_xid_is_refused(text: str) -> None:
    """Length, alphabet, case and the unused bits of the last character all count."""
    assert not is_xid(text)
    with pytest.raises(FormatError):
        xid_time(text)


def test_time_without_a_zone_is_refused() -> None:
    """An id must not depend on the machine's zone."""
    with pytest.raises(ValueError):
        new_xid(datetime(2026, 1, 1))  # noqa: DTZ001
