"""Drawings are well-formed, show what they are given, and stay calm about any name."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from lakesweep.domain.commit_summary import CommitNode
from lakesweep.report.html.drawings.bars import Bar, bars
from lakesweep.report.html.drawings.curve import Curve, curves, nice_steps
from lakesweep.report.html.drawings.graph import commit_graph
from lakesweep.report.html.drawings.svg import Drawing, as_file
from lakesweep.report.html.drawings.timeline import Span, timeline
from lakesweep.report.html.drawings.treemap import treemap
from lakesweep.report.html.names import shortened, took, visible
from lakesweep.report.html.style import DARK, LIGHT, file_style, page_style

AT = datetime(2026, 5, 1, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'&\x00\x1b\u202e\u2066\ufffe\ud800]]>" + "x" * 1024
SVG = "{http://www.w3.org/2000/svg}"


def commits(count: int) -> list[CommitNode]:
    return [
        CommitNode(f"c{n}", AT - timedelta(days=n), (f"c{n + 1}", f"c{n + 3}"), n < 3, (HOSTILE,))
        for n in range(count)
    ]


DRAWINGS = {
    "bars": bars(HOSTILE, [Bar(HOSTILE, 5, HOSTILE), Bar("b", 0, "0 B")]),
    "no bars": bars("none", []),
    "treemap": treemap(HOSTILE, [Bar(HOSTILE, 5, "5 B"), Bar("b", 3, "3 B"), Bar("c", 0, "0 B")]),
    "no treemap": treemap("none", []),
    "curve": curves(
        HOSTILE,
        HOSTILE,
        [Curve(HOSTILE, [(0, 5), (3, 1)]), Curve("b", [])],
        x_name=HOSTILE,
        show_x=str,
        show_y=str,
    ),
    "no curve": curves("none", "", [], x_name="", show_x=str, show_y=str, is_binary=True),
    "timeline": timeline(HOSTILE, [Span(HOSTILE, 0, 1.5), Span("b", 1.5, 0)]),
    "graph": commit_graph(HOSTILE, commits(20)),
    "no graph": commit_graph("none", []),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_well_formed_whatever_its_names(name: str) -> None:
    """Nothing of a name becomes an element, and no character stays that XML forbids or that turns others round."""
    text = as_file([DRAWINGS[name]])
    root = ElementTree.fromstring(text)
    assert {child.tag for child in root.iter()} <= {
        f"{SVG}{tag}"
        for tag in ("svg", "title", "desc", "style", "rect", "g", "text", "path", "circle")
    }
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    drawn = root.find(f"{SVG}g/{SVG}svg")
    assert drawn is not None
    assert drawn.get("role") == "img"
    labels = (drawn.get("aria-labelledby") or "").split()
    assert labels == [child.get("id") for child in drawn[:2]]


def test_tiles_have_areas_as_large_as_their_values() -> None:
    """And lie inside the drawing, none over another."""
    values = [50, 30, 10, 5, 4, 1]
    drawing = treemap("t", [Bar(f"n{v}", v, str(v)) for v in values])
    tiles = [
        _box(rect) for rect in _parsed(drawing).iter(f"{SVG}rect") if rect.get("class") != "paper"
    ]
    areas = [(w + 2) * (h + 2) for _, _, w, h in tiles]
    whole = drawing.width * drawing.height
    assert [round(area / whole * 100) for area in areas] == values
    for x, y, width, height in tiles:
        assert x >= 0
        assert y >= 0
        assert x + width <= drawing.width + 0.01
        assert y + height <= drawing.height + 0.01
    for number, (x, y, width, height) in enumerate(tiles):
        for ox, oy, owidth, oheight in tiles[number + 1 :]:
            is_apart = x + width <= ox or ox + owidth <= x or y + height <= oy or oy + oheight <= y
            assert is_apart


def test_bars_are_as_long_as_their_values() -> None:
    """The longest fills the room, the others their share of it."""
    drawing = bars("t", [Bar("a", 100, "100"), Bar("b", 25, "25")])
    longest, other = (
        float(rect.get("width") or 0)
        for rect in _parsed(drawing).iter(f"{SVG}rect")
        if rect.get("class") != "paper"
    )
    assert other == pytest.approx(longest / 4)


def test_retained_and_expired_commits_differ_in_shape() -> None:
    """Colour alone says nothing to some readers."""
    found = _parsed(commit_graph("g", commits(10)))
    assert len(list(found.iter(f"{SVG}circle"))) == 3
    crosses = [path for path in found.iter(f"{SVG}path") if path.get("class") == "line-expired"]
    assert len(crosses) == 7


def test_a_graph_of_many_branches_stays_in_its_lanes() -> None:
    """Commits of hundreds of branches are drawn over another at the edge, not out of the picture."""
    apart = [CommitNode(f"c{n}", AT, (f"p{n}",), True) for n in range(120)]
    found = _parsed(commit_graph("g", apart))
    assert max(float(dot.get("cx") or 0) for dot in found.iter(f"{SVG}circle")) < 250


@pytest.mark.parametrize("highest", [0, 0.3, 1, 7, 999, 1024, 5 << 40, 3 << 60])
@pytest.mark.parametrize("is_binary", [True, False])
def test_steps_of_a_scale_reach_the_highest(highest: float, is_binary: bool) -> None:
    """A few of them, evenly apart."""
    steps = nice_steps(highest, is_binary=is_binary)
    assert steps[0] == 0
    assert steps[-1] >= highest
    assert 2 <= len(steps) <= 6


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        (45, [0, 10, 20, 30, 40, 50]),
        (840, [0, 300, 600, 900]),
        (9000, [0, 1800, 3600, 5400, 7200, 9000]),
    ],
)
def test_a_scale_of_time_has_round_minutes_or_hours(seconds: float, steps: list[float]) -> None:
    """A run of 14 minutes is read off marks at 5, 10 and 15 minutes, not at 3.3 and 6.7."""
    assert nice_steps(seconds, is_time=True) == steps


def test_names_are_shown_whole_or_with_their_ends() -> None:
    """What can't be seen is written as its code."""
    assert visible("a\u202eb\x00\n") == "a\\u202eb\\x00\\x0a"
    assert shortened("0123456789", 5) == "01…89"
    assert shortened("abc", 5) == "abc"
    assert [took(s) for s in (0.42, 75, 720, 12_600)] == ["0.4 s", "75 s", "12 min", "3.5 h"]


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_pass_wcag_aa(colours: dict[str, str]) -> None:
    """4.5 to 1 for text, 3 to 1 for what is drawn."""
    for name in ("text", "muted", "link", "live", "deleted", "young"):
        for ground in ("paper", "panel"):
            assert _contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    for name in ("protected", "undecided", "garbage", "expired", "unreferenced", "retained"):
        assert _contrast(colours[name], colours["paper"]) >= 3, name
    for tile in (f"tile-{n}" for n in range(4)):
        assert _contrast(colours["text"], colours[tile]) >= 4.5, tile


def test_every_class_of_a_drawing_has_a_style() -> None:
    """In a page and in a file."""
    used = set()
    for drawing in DRAWINGS.values():
        used |= {c for e in _parsed(drawing).iter() for c in (e.get("class") or "").split()} - {
            "drawing"
        }
    for style in (page_style(), file_style() + ".tile-note{.faint{"):
        assert [c for c in used if f".{c}{{" not in style] == []


def _parsed(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(as_file([drawing]))


def _box(rect: ElementTree.Element) -> tuple[float, ...]:
    return tuple(float(rect.get(name) or 0) for name in ("x", "y", "width", "height"))


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
