"""What other rules would free: the saved answer of the last `lakesweep what-if`, moved along with sliders."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from lakesweep.collector.lakefs.paths import LATEST_WHAT_IF
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import WhatIf
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.report.html.what_if_view import what_if_curve
from lakesweep.storage import ObjectStore
from lakesweep.web.admission import caller_of, form_of, site_of
from lakesweep.web.callers import Need
from lakesweep.web.reading import opened_repository
from lakesweep.web.rendering import render, started

__all__ = ["load_what_if", "router"]

router = APIRouter()
_MOST_GROUPS = 15
_MOST_DAYS = 3650


@dataclass(frozen=True, slots=True)
class Slider:
    """One number of days that can be moved, and what would be freed by it."""

    field: str  # its name in the form and in addresses
    label: str
    days: int
    most: int
    freed: Tally
    money: float | None


@router.get("/r/{repo}/what-if", name="what_if")
def show_what_if(request: Request, repo: str) -> Response:
    """The curve, the sliders and their figures."""
    return _page(request, repo, "what_if.html")


@router.get("/r/{repo}/what-if/figures", name="figures")
def show_figures(request: Request, repo: str) -> Response:
    """The part of that page that changes with the sliders."""
    return _page(request, repo, "figures.html")


@router.post("/r/{repo}/what-if", name="start_what_if")
def start_what_if(request: Request, repo: str) -> Response:
    """Ask anew. Nothing is deleted by it."""
    caller = caller_of(request)
    tags = ("--keep-tags",) if form_of(request).get("keep_tags") else ()
    with opened_repository(caller, repo) as opened:
        words = ("what-if", *tags, "--output", "json", "--", opened.name)
    return started(request, site_of(request).commands.start(caller, repo, words))


def load_what_if(store: ObjectStore) -> WhatIf | None:
    """The last answer; None where nobody has asked."""
    try:
        return WhatIf.from_json(store.read(LATEST_WHAT_IF))
    except ObjectNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"The last answer of what-if can't be read ({error}). Nothing was touched. Ask again.",
            kind="bad-what-if",
        ) from error


def _page(request: Request, repo: str, template: str) -> Response:
    caller = caller_of(request)
    with opened_repository(caller, repo) as opened:
        found = load_what_if(opened.store)
    sliders = _sliders(request, found) if found is not None else []
    return render(
        request,
        template,
        repo=repo,
        found=found,
        curve=what_if_curve(found).svg("curve") if found is not None else "",
        sliders=sliders,
        groups=_groups(found, sliders[0].days) if found is not None else [],
        may_write=caller.may(Need.WRITE),
    )


def _sliders(request: Request, found: WhatIf) -> list[Slider]:
    """One for all branches together, and one for each branch whose days were varied alone."""
    present = next((f.rules for f in found.rules if f.name == "present rules"), {})
    days = present.get("default_retention_days", 30)
    default = days if isinstance(days, int) else 30
    moved = [("days", "Every branch", found.curve)]
    moved += [(f"b{n}", f"{c.name} alone", c.curve) for n, c in enumerate(found.branch_days)]
    sliders = []
    for field, label, curve in moved:
        most = min(max(curve.points[-1].days, default, 1), _MOST_DAYS)
        chosen = _days(request.query_params.get(field, ""), default, most)
        freed = curve.at(chosen) + found.unreferenced
        sliders.append(Slider(field, label, chosen, most, freed, found.money(freed.bytes)))
    return sliders


def _days(text: str, default: int, most: int) -> int:
    days = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
    return min(days, most)


def _groups(found: WhatIf, days: int) -> list[tuple[str, str, Tally]]:
    """What is freed most, by path, branch, age and size."""
    freed = [(g.kind, g.name, g.curve.at(days)) for g in found.groups]
    freed = [group for group in freed if group[2].objects]
    kinds = list(dict.fromkeys(kind for kind, _, _ in freed))
    largest = sorted(freed, key=lambda group: -group[2].bytes)
    return [g for kind in kinds for g in [x for x in largest if x[0] == kind][:_MOST_GROUPS]]
