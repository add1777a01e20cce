"""The model of what a collection costs says what it was fitted to, and its page has what was measured."""

from __future__ import annotations

import pytest

from limits import Limits
from model import Model, Point, bounds, efficiency_of, fit_line, fit_power, page

SIZES = (100_000, 200_000, 400_000, 1_000_000, 2_000_000)


def _point(objects: int, exponent: float = 1.0, series: str = "objects", x: float = 0) -> Point:
    return Point(
        series=series,
        x=x or objects,
        objects=objects,
        entries=3 * objects,
        commits=objects // 600,
        garbage=objects // 20,
        seconds=4 + objects / 1e5,
        cpu_seconds=6 + 1e-5 * objects**exponent,
        mib=900,
        requests=300 + objects // 800,
        load_before=0.1,
        phases={"list": 2.0, "judge": 4.0},
        sweep_seconds=3.0,
        sweep_cpu_seconds=4 + objects / 1e6,
    )


@pytest.mark.parametrize("exponent", [0.9, 1.0, 1.05, 1.3])
def test_the_exponent_is_found(exponent: float) -> None:
    """Also where most of a small run is its start."""
    found = fit_power((size, 6 + 1e-5 * size**exponent) for size in SIZES)
    assert found.exponent == pytest.approx(exponent, abs=0.011)
    assert found.start == pytest.approx(6, abs=0.5)


def test_no_part_of_a_line_is_below_zero() -> None:
    """Points whose line would begin below zero."""
    line = fit_line([(1, 0.5), (2, 2.0), (4, 5.0)])
    assert line.start == 0
    assert line.each > 0


def test_what_is_held_back_is_foretold() -> None:
    """Fitted to the smaller ones, it knows the largest."""
    *smaller, largest = (_point(size) for size in SIZES)
    model = Model.of(smaller, 1.0)
    assert model.cpu.at(largest.objects) == pytest.approx(largest.cpu_seconds, rel=0.01)
    assert model.requests.at(largest.objects) == pytest.approx(largest.requests, rel=0.01)


def test_more_cores_help_until_the_bucket_is_the_bound() -> None:
    """Ten times the cores take a tenth of the time for objects; requests to a bucket take what they take."""
    model = Model.of([_point(size) for size in SIZES], 0.8)
    few, bucket = model.mark_seconds(1e9, 40)
    many, same = model.mark_seconds(1e9, 400)
    assert (few - 6) / (many - 6) == pytest.approx(10, rel=0.01)
    assert bucket == same


def test_how_much_a_second_core_is_worth() -> None:
    """Half of the time on two cores is all of it; one that was not measured counts in full."""
    one, two = _point(100_000, series="cores", x=1), _point(100_000, series="cores", x=2)
    assert efficiency_of([one, two]) == 0.5
    assert efficiency_of([one]) == efficiency_of([]) == 1.0


def test_the_page_has_every_point_and_says_what_is_not_measured() -> None:
    """Sizes, the exponent, how far off the model was, and that predictions are none."""
    points = [_point(size) for size in SIZES]
    written = page(points, {"objects": points})
    assert all(f"| {size:,} |" in written for size in SIZES)
    assert "the power of **1.00**" in written
    assert "No such lake was measured" in written
    assert "| 100,000,000,000 | 1,000 |" in written


LIMITS = Limits(
    keys_listed=500_000,
    files_read=4_000,
    entries_hashed=3_000_000,
    bytes_unpacked=240e6,
    hashes_dealt=60e6,
    keys_deleted=100_000,
)


def test_phases_stand_beside_their_limits() -> None:
    """Two cores list a million keys in a second, at half a million each; a sweep is held against its deletes alone."""
    found = bounds(_point(1_000_000), LIMITS)
    assert found["list"][1] == pytest.approx(1.0)
    assert found["sweep"][1] == pytest.approx(0.25)
    points = [_point(size) for size in SIZES]
    written = page(points, {"objects": points}, LIMITS)
    assert "| list | 2.0 | keys listed | 2.0 |" in written
    assert "500,000 keys listed a second" in written


def test_the_page_tells_of_entries_and_of_what_changed() -> None:
    """Series that were measured, with their exponent and their times."""
    points = [_point(size) for size in SIZES]
    changed = [_point(100_000, series="changed", x=share) for share in (1, 30)]
    written = page(points, {"objects": points, "entries": points, "changed": changed})
    assert "CPU grows with entries to the power of\n**1.00**" in written
    assert "1 %, 5,000 newly garbage: 5.0 s, 30 %" in written
