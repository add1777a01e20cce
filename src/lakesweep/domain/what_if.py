"""What would be freed if data were kept for N days: the answer for every N at once, as a value with a JSON form."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakesweep.domain.durations import format_time, parse_time
from lakesweep.domain.verdicts import Tally
from lakesweep.json_text import parse_json

__all__ = ["NEVER_KEPT", "SCHEMA", "Curve", "NamedCurve", "Point", "RulesFigure", "WhatIf"]

SCHEMA = "lakesweep.what-if/1"

# Stands for "no number of days keeps it" where a number of days is expected; larger than any that rules can hold.
NEVER_KEPT = 2**31

_GIB = 2**30  # the stores bill gigabytes of 2^30 bytes


@dataclass(frozen=True, slots=True)
class Point:
    """From `days` days on, up to the next point of its curve, so much is freed."""

    days: int
    objects: int
    bytes: int

    @property
    def tally(self) -> Tally:
        """The objects and bytes."""
        return Tally(self.objects, self.bytes)


@dataclass(frozen=True, slots=True)
class Curve:
    """What is freed against days kept. It steps down at its points; the first one is at 0 days."""

    points: tuple[Point, ...] = (Point(0, 0, 0),)

    @classmethod
    def of(cls, by_least_days: Mapping[int, Tally]) -> Curve:
        """The curve of objects by the smallest number of days that keeps them: fewer days free them.

        Objects at 0 are kept whatever the days; those at `NEVER_KEPT` are freed whatever the days.
        """
        freed = sum((t for days, t in by_least_days.items() if days > 0), Tally())
        points = [Point(0, freed.objects, freed.bytes)]
        for days in sorted(d for d in by_least_days if 0 < d < NEVER_KEPT):
            if by_least_days[days] != Tally():
                freed -= by_least_days[days]
                points.append(Point(days, freed.objects, freed.bytes))
        return cls(tuple(points))

    def at(self, days: int) -> Tally:
        """What is freed when `days` days are kept."""
        return self.points[bisect_right(self.points, days, key=lambda p: p.days) - 1].tally

    def __add__(self, other: Curve) -> Curve:
        days = sorted({p.days for p in (*self.points, *other.points)})
        sums = [(d, self.at(d) + other.at(d)) for d in days]
        return Curve(tuple(Point(d, t.objects, t.bytes) for d, t in sums))

    def as_json(self) -> list[dict[str, int]]:
        """One value for each point."""
        return [{"days": p.days, "objects": p.objects, "bytes": p.bytes} for p in self.points]

    @classmethod
    def from_json(cls, points: Iterable[Mapping[str, int]]) -> Curve:
        """Read what `as_json` gave."""
        return cls(tuple(Point(p["days"], p["objects"], p["bytes"]) for p in points))


@dataclass(frozen=True, slots=True)
class NamedCurve:
    """The curve of one group. `kind` says what it is grouped by: branch, path, age, size, table."""

    kind: str
    name: str
    curve: Curve

    def as_json(self) -> dict[str, object]:
        """Kind, name and points."""
        return {"kind": self.kind, "name": self.name, "curve": self.curve.as_json()}


@dataclass(frozen=True, slots=True)
class RulesFigure:
    """What exactly would be freed under one set of rules. `name` is its file, or says that it is the present one."""

    name: str
    rules: Mapping[str, object]
    freed: Tally
    retained_commits: int
    expired_commits: int

    def as_json(self) -> dict[str, object]:
        """The rules with what they free."""
        return {
            "name": self.name,
            "rules": dict(self.rules),
            "objects": self.freed.objects,
            "bytes": self.freed.bytes,
            "retained_commits": self.retained_commits,
            "expired_commits": self.expired_commits,
        }


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would be freed, by days kept.

    `curve` counts what the days decide about: objects that commits hold. `unreferenced` is freed with every number of
    days, and is no part of a curve or of a figure; `never` is freed with none, `kept` says why.
    """

    catalog: str  # lakefs or nessie
    name: str  # of the repository, or the address of the catalog
    what: str
    asked_at: datetime
    now: datetime  # days are counted back from it
    cutoff: datetime  # what was written since is too young to go
    curve: Curve
    unreferenced: Tally = field(default_factory=Tally)
    kept: Mapping[str, Tally] = field(default_factory=dict)
    groups: tuple[NamedCurve, ...] = ()
    with_tags_kept: Curve | None = None  # all tags are roots too
    branch_days: tuple[NamedCurve, ...] = ()  # days of one branch, other rules as they are
    rules: tuple[RulesFigure, ...] = ()
    price: float | None = None  # of a GB (2^30 bytes) and month
    depth: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def never(self) -> Tally:
        """What stays whatever the days."""
        return sum(self.kept.values(), Tally())

    def freed(self, days: int) -> Tally:
        """All that goes when `days` days are kept, the unreferenced included."""
        return self.curve.at(days) + self.unreferenced

    def money(self, size: int) -> float | None:
        """What so many bytes cost in a month; None where no price is known."""
        return None if self.price is None else size / _GIB * self.price

    def as_json(self) -> dict[str, object]:
        """The JSON form, `lakesweep.what-if/1`. Money stands beside each point of the curve where there is a price."""
        curve: list[dict[str, object]] = [
            {**p, "money": self.money(p["bytes"])} if self.price is not None else {**p}
            for p in self.curve.as_json()
        ]
        tags = self.with_tags_kept
        return {
            "schema": SCHEMA,
            "catalog": self.catalog,
            "name": self.name,
            "what": self.what,
            "asked_at": format_time(self.asked_at),
            "now": format_time(self.now),
            "cutoff": format_time(self.cutoff),
            "curve": curve,
            "unreferenced": _tally_json(self.unreferenced),
            "never": _tally_json(self.never),
            "kept": {why: _tally_json(tally) for why, tally in self.kept.items()},
            "groups": [group.as_json() for group in self.groups],
            "with_tags_kept": None if tags is None else tags.as_json(),
            "branch_days": [group.as_json() for group in self.branch_days],
            "rules": [figure.as_json() for figure in self.rules],
            "price": self.price,
            "depth": self.depth,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> WhatIf:
        """Read the JSON form.

        Raises:
            ValueError: it is not JSON, or has another schema.
        """
        value = parse_json(text)
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise ValueError(f"this is not {SCHEMA}")
        tags = value["with_tags_kept"]
        groups, branch_days = (
            tuple(NamedCurve(g["kind"], g["name"], Curve.from_json(g["curve"])) for g in value[key])
            for key in ("groups", "branch_days")
        )
        return cls(
            catalog=value["catalog"],
            name=value["name"],
            what=value["what"],
            asked_at=parse_time(value["asked_at"]),
            now=parse_time(value["now"]),
            cutoff=parse_time(value["cutoff"]),
            curve=Curve.from_json(value["curve"]),
            unreferenced=_tally(value["unreferenced"]),
            kept={why: _tally(tally) for why, tally in value["kept"].items()},
            groups=groups,
            with_tags_kept=None if tags is None else Curve.from_json(tags),
            branch_days=branch_days,
            rules=tuple(
                RulesFigure(
                    figure["name"],
                    figure["rules"],
                    _tally(figure),
                    figure["retained_commits"],
                    figure["expired_commits"],
                )
                for figure in value["rules"]
            ),
            price=value["price"],
            depth=value["depth"],
            seconds=value["seconds"],
            notes=tuple(value["notes"]),
        )


def _tally_json(tally: Tally) -> dict[str, int]:
    return {"objects": tally.objects, "bytes": tally.bytes}


def _tally(value: Mapping[str, int]) -> Tally:
    return Tally(value["objects"], value["bytes"])
