"""What would N days free? One pass over ranges and listing answers for every N. Nothing but our own files is touched."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import numpy as np

from lakesweep.catalogs.lakefs.graph import RepositoryRefs
from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_retention import (
    find_retained,
    least_days,
    least_days_on_branch,
)
from lakesweep.catalogs.lakefs.rights import right_to_dump
from lakesweep.catalogs.lakefs.uncommitted import UncommittedList, prepare_all_pages
from lakesweep.collector.judge.meeting import ReferenceSide
from lakesweep.collector.judge.references import LIVE, RESTORED, event_order
from lakesweep.collector.lakefs.between_runs.saved import event_files, load_range_index
from lakesweep.collector.lakefs.between_runs.served import note_served, remove_served
from lakesweep.collector.lakefs.checks.ownership import refuse_shared_namespace
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.listing import MOST_TASKS
from lakesweep.collector.lakefs.live import kept_roots
from lakesweep.collector.lakefs.mark import reference_time, refuse_blind_listing
from lakesweep.collector.lakefs.paths import LATEST_WHAT_IF, uncommitted_folder
from lakesweep.collector.lakefs.references import EventFile, RangeReference, Reference, StagedFile
from lakesweep.collector.lakefs.repository import LakeFSRepository, read_refs
from lakesweep.collector.lakefs.request import What, WhatIfRequest
from lakesweep.collector.lakefs.slices import find_slices
from lakesweep.collector.lakefs.what_if.fate_sums import FateSums, add_up_fates
from lakesweep.collector.lakefs.what_if.fates import FATES_SCHEMA, FateMeeting
from lakesweep.collector.lakefs.what_if.keeping import Ints, KeptRanges, Question, keep_ranges
from lakesweep.collector.lakefs.what_if.kept_references import (
    KeptRange,
    kept_range,
    read_kept_references,
)
from lakesweep.collector.lakefs.what_if.listed_sizes import list_sizes
from lakesweep.collector.listing import TaskPieces
from lakesweep.collector.resources import Resources
from lakesweep.collector.run_files import RunId
from lakesweep.domain.commits import BranchId
from lakesweep.domain.cutoff import Cutoff
from lakesweep.domain.rules import RetentionRules
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import NEVER_KEPT, Curve, NamedCurve, RulesFigure, WhatIf
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter, tasks_for
from lakesweep.errors import CatalogDeniedError, ConfigError
from lakesweep.formats.commit_columns import texts

__all__ = ["PRESENT_RULES", "WhatIf", "run_what_if"]

PRESENT_RULES = "present rules"
_NO_BRANCH = "(on no branch)"
_WITH_TAGS = "tags are kept"
# Where there are more branches, only the default one and those with rules of their own are varied, unless they are named.
_FEW_BRANCHES = 20
_MOST_GROUPS = 1_000
_COST_OF_A_FILE = 1_000
_ENTRIES_OF_A_LIST = 100_000
_OBJECTS_OF_A_SLICE = 20_000
_ROWS_PER_PARTITION = 4_000_000


def run_what_if(context: RunContext, request: WhatIfRequest) -> WhatIf:
    """Answer what days kept, and other rules, would free. Takes no lease and deletes nothing.

    Raises:
        UnsafeToSweepError: doubt about what is live, or about a number.
        CatalogDeniedError: there is no right to read all commits.
    """
    repository, resources = context.repository, context.resources
    started_at, margins = resources.clock(), resources.margins
    refuse_blind_listing(repository, request.what)
    refuse_shared_namespace(repository, resources.target, margins.clock_skew, claim=False)
    cutoff = repository.cutoff(
        started_at, request.min_age, margins, allow_lower=request.allow_lower_min_age
    )
    now = reference_time(request.now, started_at)
    resources.engine.begin()
    with _staged_list(repository, resources) as staged:
        asked = _read_questions(repository, resources, request, now)
        with resources.phases.phase("ranges") as step:
            ranges = keep_ranges(
                resources,
                asked.refs.graph.columns.meta_range_ids,
                asked.questions,
                asked.owner_of,
                len(asked.owners),
            )
            step.items = len(ranges.always) + len(ranges.dated)
            step.said = f"{len(ranges.always)} kept for ever, {len(ranges.dated)} for some days"
        with resources.phases.phase("judge") as step:
            sums = _meet(resources, request, staged, ranges, cutoff, now)
            step.items = sums.listed.objects
            step.said = f"{sums.listed}"
    result = _result(repository, request, asked, sums, started_at, now, cutoff)
    seconds = (resources.clock() - started_at).total_seconds()
    result = replace(result, seconds=seconds)
    if request.save:
        document = json.dumps(result.as_json(), indent=2)
        resources.store.write(LATEST_WHAT_IF, document.encode())
    return result


@dataclass(frozen=True, slots=True)
class _Asked:
    """The commits, and all questions about them. The first is the same number of days for all branches."""

    refs: RepositoryRefs[History]
    questions: Sequence[Question]
    owner_of: Ints  # of each commit of the history
    owners: Sequence[str]  # branches, and one name for commits on none
    with_tags: int | None  # the number of that question
    rules: Mapping[int, tuple[str, RetentionRules]]  # by the number of their question
    branches: Mapping[int, BranchId]


@contextmanager
def _staged_list(repository: LakeFSRepository, resources: Resources) -> Iterator[UncommittedList]:
    """The server's list of what is staged. What it wrote for us is removed when it has served."""
    store, client = resources.store, repository.client
    with resources.phases.phase("uncommitted") as step:
        staged = prepare_all_pages(client, store, repository.name, repository.addresses)
        step.items = staged.rows_promised or 0
        step.said = f"{staged.pages} pages, {len(staged.files)} files"
    try:
        yield staged
    finally:
        store.delete_many(list(store.keys(uncommitted_folder(RunId(staged.run_id)))))
        remove_served(store)


def _read_questions(
    repository: LakeFSRepository, resources: Resources, request: WhatIfRequest, now: datetime
) -> _Asked:
    client, store, phases = repository.client, resources.store, resources.phases
    with phases.phase("commits") as step:
        named = repository.named_commits(request.keep_refs)
        refs = read_refs(repository, store)
        note_served(store, refs.dump_files, resources.clock())
        step.items = len(refs.graph)
        step.said = f"{len(refs.graph)} commits"
    if not refs.complete:
        raise CatalogDeniedError(
            f"There is no right to dump the refs of {repository.name}, so commits on no branch can't be seen, and nothing "
            "expires. No answer was used. Add this statement to one of the user's policies: "
            f"{right_to_dump(repository.name).statement}",
        )
    rules = client.rules(repository.name)
    kept = kept_roots(refs, named, keep_tags=request.keep_tags)
    default = repository.details.default_branch
    heads = sorted(refs.heads, key=lambda head: (head.id != default, head.id))
    graph, moves = refs.graph, refs.head_moves
    least = least_days(graph, heads, now, moves, kept)
    names = [branch for branch in least.branches if branch is not None]
    owners = [*names, _NO_BRANCH]
    questions = [Question("all branches", least.days)]
    with_tags = None
    if refs.tags and not request.keep_tags:
        with_tags = len(questions)
        days = least.days.copy()
        days[graph.rows_of(texts(tag.commit_id for tag in refs.tags))] = 0
        questions.append(Question(_WITH_TAGS, days))
    by_rules: dict[int, tuple[str, RetentionRules]] = {}
    present = [(PRESENT_RULES, rules)] if rules is not None else []
    for name, others in (*present, *request.rules):
        by_rules[len(questions)] = (name, others)
        is_retained = find_retained(graph, heads, others, now, moves, kept)
        questions.append(Question(name, np.where(is_retained, 0, NEVER_KEPT)))
    branches: dict[int, BranchId] = {}
    for branch in _varied_branches(request, names, rules, default):
        branches[len(questions)] = branch
        days = least_days_on_branch(graph, heads, rules, branch, now, moves, kept)
        questions.append(Question(f"days of {branch}", days))
    return _Asked(refs, questions, least.owners, owners, with_tags, by_rules, branches)


def _varied_branches(
    request: WhatIfRequest, known: list[BranchId], rules: RetentionRules | None, default: str
) -> list[BranchId]:
    """The branches whose days are varied one by one."""
    unknown = sorted(set(request.branches) - set(known))
    if unknown:
        raise ConfigError(
            f"--branch {unknown[0]}: there is no such branch, and there was none. No answer was used.",
            kind="unknown-branch",
        )
    if request.branches:
        return [BranchId(name) for name in dict.fromkeys(request.branches)]
    if len(known) <= _FEW_BRANCHES:
        return known
    own = rules.branch_retention_days if rules is not None else {}
    return [branch for branch in known if branch == default or branch in own][:_FEW_BRANCHES]


def _meet(
    resources: Resources,
    request: WhatIfRequest,
    staged: UncommittedList,
    ranges: KeptRanges,
    cutoff: Cutoff,
    now: datetime,
) -> FateSums:
    store, engine, target = resources.store, resources.engine, resources.target
    packs = load_range_index(store, may_remove=False)
    since = event_order(cutoff.at)
    is_committed = request.what is What.COMMITTED
    references: list[Reference | KeptRange] = [
        *(StagedFile(key) for key in staged.files),
        *(RangeReference(r.id, r.count, LIVE, packs.get(r.id, "")) for r in ranges.always),
        *(kept_range(r, k, request.depth, packs.get(r.id, "")) for r, k in ranges.dated),
        *(
            event
            for event in event_files(store)
            if is_committed or (event.kind == RESTORED and event.order >= since)
        ),
    ]
    slices = find_slices(store)
    prefixes = slices.prefixes()
    tasks = tasks_for(len(prefixes), engine.slots, at_most=MOST_TASKS, per_task=8, waves=4)
    listed = [TaskPieces(number, tuple(prefixes[number::tasks])) for number in range(tasks)]
    left = ReferenceSide(
        references,
        lambda partitions: partial(read_kept_references, target, partitions, request.depth),
        resources.most_readers,
        [_entries(item) for item in references],
        [getattr(item, "pack", "") for item in references],
        _COST_OF_A_FILE,
    )
    objects = ranges.entries + len(slices.slices) * _OBJECTS_OF_A_SLICE
    partitions = max(
        math.ceil(objects / _ROWS_PER_PARTITION), min(engine.slots, 1 + objects // 100_000)
    )
    partitions = min(partitions, max(resources.most_tasks, 1))
    met = engine.meet(
        left.scatter(engine.slots, partitions),
        Scatter(listed, partial(list_sizes, target, partitions), CELL_SCHEMA, tasks),
        FateMeeting(ranges.classes, cutoff.at, now, leave_gone=is_committed),
        FATES_SCHEMA,
        partitions,
    )
    questions = ranges.classes.table.shape[1] - 1
    return add_up_fates(met, references, listed, staged, resources.name, questions)


def _entries(item: Reference | KeptRange) -> int:
    match item:
        case RangeReference() | KeptRange():
            return item.count
        case StagedFile() | EventFile():
            return _ENTRIES_OF_A_LIST
    return 1


def _result(
    repository: LakeFSRepository,
    request: WhatIfRequest,
    asked: _Asked,
    sums: FateSums,
    started_at: datetime,
    now: datetime,
    cutoff: Cutoff,
) -> WhatIf:
    goes_by_days = request.what is not What.UNCOMMITTED
    goes_always = request.what is not What.COMMITTED
    curves = [Curve.of(q if goes_by_days else {}) for q in sums.by_question]
    unreferenced = sums.unreferenced if goes_always else Tally()
    kept = dict(sums.kept)
    if not goes_by_days:
        kept["in commits"] = Curve.of(sums.by_question[0]).at(0)
    if not goes_always:
        kept["in no commit"] = sums.unreferenced
    notes = []
    if not repository.profile.is_embedded:
        notes.append(
            "a mark may keep a little more: it also asks this server for its own list of retained commits, and "
            "looks for staged re-uploads"
        )
    return WhatIf(
        catalog="lakefs",
        name=repository.name,
        what=request.what.value,
        asked_at=started_at,
        now=now,
        cutoff=cutoff.at,
        curve=curves[0],
        unreferenced=unreferenced,
        kept={why: tally for why, tally in kept.items() if tally != Tally()},
        groups=tuple(_groups(sums, asked.owners)) if goes_by_days else (),
        with_tags_kept=None if asked.with_tags is None else curves[asked.with_tags],
        branch_days=tuple(
            NamedCurve("branch", branch, curves[number])
            for number, branch in asked.branches.items()
        ),
        rules=tuple(
            RulesFigure(
                name,
                rules.as_json(),
                curves[number].at(0),
                *_commit_counts(asked.questions[number]),
            )
            for number, (name, rules) in asked.rules.items()
        ),
        price=request.price,
        depth=request.depth,
        seconds=0.0,
        notes=tuple(notes),
    )


def _commit_counts(question: Question) -> tuple[int, int]:
    """Retained and expired commits."""
    retained = int((question.least_days == 0).sum())
    return retained, len(question.least_days) - retained


def _groups(sums: FateSums, owners: Sequence[str]) -> Iterator[NamedCurve]:
    """Curves by branch, folder, age and size, the largest first but for classes, which keep their order."""
    by_branch = {owners[number]: tally for number, tally in sums.by_owner.items()}
    for kind, groups in (("branch", by_branch), ("path", sums.by_folder)):
        curves = [(name, Curve.of(by_days)) for name, by_days in groups.items()]
        curves = [(name, curve) for name, curve in curves if curve.at(0) != Tally()]
        curves.sort(key=lambda item: (-item[1].at(0).bytes, item[0]))
        yield from (NamedCurve(kind, name, curve) for name, curve in curves[:_MOST_GROUPS])
        rest = sum((curve for _, curve in curves[_MOST_GROUPS:]), Curve())
        if rest.at(0) != Tally():
            yield NamedCurve(kind, f"({len(curves) - _MOST_GROUPS} others)", rest)
    for kind, classes in (("age", sums.by_age), ("size", sums.by_size)):
        for name, by_days in classes.items():
            yield NamedCurve(kind, name, Curve.of(by_days))
