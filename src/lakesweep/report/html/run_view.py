"""What the page of a run shows, as plain values: the templates only set it in type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lakesweep.collector.record import Phase, RunRecord, RunStatus
from lakesweep.domain.run_summary import RunSummary
from lakesweep.domain.what_if import WhatIf
from lakesweep.report.accounts import (
    NESSIE,
    Line,
    collected_text,
    inventory_text,
    whole_seconds,
    young_words,
)
from lakesweep.report.html.commands import Command, commands, what_if_command
from lakesweep.report.html.commits_view import CommitsView, commits_view
from lakesweep.report.html.drawings.svg import Drawing
from lakesweep.report.html.drawings.timeline import Span, timeline
from lakesweep.report.html.garbage_view import GarbageView, garbage_view
from lakesweep.report.html.limits import Limits, Names
from lakesweep.report.html.names import counted, took
from lakesweep.report.html.shares import (
    AccountTable,
    Share,
    account_tables,
    share_of,
    weighed,
)
from lakesweep.report.html.what_if_view import WhatIfView, what_if_view
from lakesweep.report.nessie_runs import NESSIE_STATUS_WORDS
from lakesweep.report.text import STATUS_WORDS, freed_text, min_age_text, rules_text

__all__ = ["RunView", "run_view"]

_MOODS = {
    RunStatus.SWEPT: "good",
    RunStatus.NOTHING_TO_DO: "good",
    RunStatus.BACKED_UP: "good",
    RunStatus.RESTORED: "good",
    RunStatus.MARKED: "wait",
    RunStatus.UNDECIDED: "wait",
}
_KEPT = {
    "protected": "names, places or kinds that are never collected",
    "undecided": "could not be looked up, so they stay",
    "rewritten": "other objects today than the inventory names, so they stay",
    "revived": "came back to life after the mark",
    "kept_undecided": "could not be looked up before the delete, so they stay",
    "failed": "the store did not delete them",
}


@dataclass(frozen=True, slots=True)
class RunView:
    """Everything on the page, shortened and made visible; not yet escaped."""

    kind: str
    heading: str
    status: str
    mood: str
    reason: str
    noun: str
    figures: list[Share]
    facts: list[tuple[str, str]]
    accounts: list[AccountTable]
    garbage: GarbageView | None
    kept: list[Share]
    examples: list[tuple[str, Names]]
    commits: CommitsView | None
    what_if: WhatIfView | None
    what_if_command: str
    timeline: Drawing | None
    phases: tuple[Phase, ...]
    commands: list[Command]
    notes: list[str]
    sections: list[tuple[str, str]] = field(default_factory=list)


def run_view(
    record: RunRecord, summary: RunSummary | None, what_if: WhatIf | None, limits: Limits
) -> RunView:
    """The page of a run, with no more than the limits let it show."""
    is_nessie = record.what == NESSIE
    words = NESSIE_STATUS_WORDS if is_nessie else STATUS_WORDS
    is_dry = any(note.startswith("dry run") for note in record.notes)
    has_garbage = summary is not None and summary.garbage.total.objects > 0
    commits = summary.commits if summary is not None else None
    spans = _spans(record.phases)
    view = RunView(
        kind="expiry of a Nessie catalog" if is_nessie else "run on a lakeFS repository",
        heading=_heading(record, limits),
        status=("dry run; " if is_dry else "") + words[record.status],
        mood=_MOODS.get(record.status, "bad"),
        reason=limits.said(record.reason),
        noun="file" if is_nessie else "object",
        figures=list(_figures(record)),
        facts=[(name, limits.said(value)) for name, value in _facts(record, limits) if value],
        accounts=account_tables(record, limits),
        garbage=garbage_view(summary, limits) if summary is not None and has_garbage else None,
        kept=weighed(replace(kept, said=limits.said(kept.said)) for kept in _kept(record)),
        examples=list(_examples(record, limits)),
        commits=commits_view(record, commits, limits) if commits is not None else None,
        what_if=what_if_view(what_if) if what_if is not None else None,
        what_if_command=limits.said(what_if_command(record)),
        timeline=timeline("Steps of the run against time", spans) if spans else None,
        phases=tuple(replace(phase, name=limits.name(phase.name)) for phase in record.phases),
        commands=[Command(c.what, limits.said(c.command)) for c in commands(record)],
        notes=list(limits.each(record.notes)),
    )
    view.sections.extend(_sections(view))
    return view


def _sections(view: RunView) -> Iterator[tuple[str, str]]:
    yield "overview", "Overview"
    if view.accounts:
        yield "account", "What was found"
    if view.garbage:
        yield "garbage", "The garbage"
    if view.kept:
        yield "kept", "What was kept"
    if view.commits:
        yield "commits", "Commits"
    yield "what-if", "Other rules"
    if view.timeline:
        yield "phases", "Steps"
    yield "next", "Continue or undo"
    if view.notes:
        yield "notes", "Notes"


def _heading(record: RunRecord, limits: Limits) -> str:
    what = f"live set {record.mark_id}" if record.what == NESSIE else f"run {record.run_id}"
    return f"{limits.name(record.repository)}, {limits.name(what.strip())}"


def _figures(record: RunRecord) -> Iterator[Share]:
    for name in ("listed", "live", "young", "garbage", "deleted"):
        if record.objects.get(name, 0) or name == "garbage":
            line = Line(name, record.objects.get(name, 0), record.bytes.get(name, 0))
            yield share_of(line)


def _facts(record: RunRecord, limits: Limits) -> Iterator[tuple[str, str]]:
    ended = record.finished_at
    yield "began", whole_seconds(record.started_at)
    if ended is not None:
        seconds = (ended - record.started_at).total_seconds()
        yield "ended", f"{whole_seconds(ended)}, after {took(seconds)}"
    if record.what == NESSIE:
        policies = [f"{pattern} = {policy}" for pattern, policy in record.rules.items()]
        yield "cut-off policies", "\n".join(limits.each(policies))
    else:
        yield "collected", collected_text(record)
        yield "inventory", inventory_text(record)
        yield "retention", rules_text(record) if record.rules else ""
    if record.cutoff is not None:
        yield "cut-off", f"{whole_seconds(record.cutoff)}; what was written since is not touched"
    yield "minimum age", min_age_text(record)
    if record.retained_commits or record.expired_commits:
        expired = f"{record.expired_commits:,} expired"
        yield "commits", f"{counted(record.retained_commits, 'commit')} retained, {expired}"
    yield "plan", record.plan_id
    yield "mark", limits.name(record.mark) if record.mark else limits.name(record.mark_id)
    if record.bytes.get("deleted"):
        yield "freed", freed_text(record).replace("?", "not known")
    yield "versions", ", ".join(f"{name} {number}" for name, number in record.versions.items())


def _kept(record: RunRecord) -> Iterator[Share]:
    for name, said in {"young": young_words(record), **_KEPT}.items():
        if record.objects.get(name, 0):
            line = Line(name, record.objects[name], record.bytes.get(name, 0), said)
            yield share_of(line)


def _examples(record: RunRecord, limits: Limits) -> Iterator[tuple[str, Names]]:
    for reason, names in list(record.protected.items())[: limits.items]:
        yield limits.said(f"Protected: {reason}"), limits.few(names)
    if record.revived:
        yield "Came back to life", limits.few(record.revived)
    if record.failures:
        failures = [f"{outcome}: {example}" for outcome, example in record.failures.items()]
        yield "Could not be deleted, one of each kind", limits.few(failures)


def _spans(phases: tuple[Phase, ...]) -> list[Span]:
    """The steps in the order in which they began; of older records it is only known which came after which."""
    spans, at = [], 0.0
    for phase in phases:
        began = at if phase.began is None else phase.began
        spans.append(Span(phase.name, began, phase.seconds))
        at = max(at, began + phase.seconds)
    return sorted(spans, key=lambda span: span.began)
