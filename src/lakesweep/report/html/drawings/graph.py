"""The commit graph: newest at the top, a lane for each line of parents, retained and expired told apart by shape and colour."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from lakesweep.domain.commit_summary import CommitNode
from lakesweep.report.html.drawings.svg import Drawing, element, text
from lakesweep.report.html.names import shortened

__all__ = ["commit_graph"]

_ROW, _LANE, _LEFT, _WIDTH = 22.0, 18.0, 12.0, 720.0
_MOST_LANES = 12


def commit_graph(title: str, commits: Sequence[CommitNode]) -> Drawing:
    """Commits in the order given, children before their parents."""
    lanes = _lanes(commits)
    row_of = {commit.id: number for number, commit in enumerate(commits)}
    width = _LEFT + (max(lanes, default=0) + 1) * _LANE
    height = max(len(commits), 1) * _ROW
    lines, dots = [], []
    for number, commit in enumerate(commits):
        x, y = _LEFT + lanes[number] * _LANE, number * _ROW + _ROW / 2
        for parent in commit.parents:
            at = row_of.get(parent)
            if at is None or at <= number:
                # An older commit that is not drawn: the line leaves the drawing.
                lines.append(element("path", d=f"M{x:.1f} {y:.1f}v12", class_="axis faint"))
                continue
            px, py = _LEFT + lanes[at] * _LANE, at * _ROW + _ROW / 2
            lines.append(element("path", d=_edge(x, y, px, py), class_="axis"))
        dots.append(_dot(commit, x, y))
        label = f"{commit.id[:10]}  {commit.at:%Y-%m-%d}"
        dots.append(text(label, width + 8, y + 4, "note"))
        if commit.names:
            dots.append(text(shortened(", ".join(commit.names), 60), width + 170, y + 4))
    kept = sum(commit.is_retained for commit in commits)
    told = (
        f"{len(commits)} commits, the newest first: {kept} retained, drawn as discs, and "
        f"{len(commits) - kept} expired, drawn as crosses"
    )
    return Drawing(title, told, _WIDTH, height, Markup("").join([*lines, *dots]))


def _dot(commit: CommitNode, x: float, y: float) -> Markup:
    if commit.is_retained:
        return element("circle", cx=x, cy=y, r=5, class_="fill-retained")
    cross = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
    return element("path", d=cross, class_="line-expired")


def _edge(x: float, y: float, px: float, py: float) -> str:
    if x == px:
        return f"M{x:.1f} {y:.1f}V{py:.1f}"
    # The bend stands where the line leaves its lane: at the child of a merge, at the parent of a branch.
    if px > x:
        return f"M{x:.1f} {y:.1f}Q{px:.1f} {y:.1f} {px:.1f} {y + _ROW:.1f}V{py:.1f}"
    return f"M{x:.1f} {y:.1f}V{py - _ROW:.1f}Q{x:.1f} {py:.1f} {px:.1f} {py:.1f}"


def _lanes(commits: Sequence[CommitNode]) -> list[int]:
    """A lane for each commit: its first child's where that is free, else the first free one."""
    awaited: list[str | None] = []  # the commit that each lane leads to
    found = []
    for commit in commits:
        own = [lane for lane, wanted in enumerate(awaited) if wanted == commit.id]
        lane = own[0] if own else _free_lane(awaited)
        for taken in own:
            awaited[taken] = None
        for number, parent in enumerate(commit.parents):
            if parent in awaited:
                continue
            awaited[lane if number == 0 else _free_lane(awaited, but=lane)] = parent
        found.append(min(lane, _MOST_LANES - 1))
    return found


def _free_lane(awaited: list[str | None], but: int = -1) -> int:
    for lane, wanted in enumerate(awaited):
        if wanted is None and lane != but:
            return lane
    awaited.append(None)
    if len(awaited) - 1 == but:
        awaited.append(None)
    return len(awaited) - 1
