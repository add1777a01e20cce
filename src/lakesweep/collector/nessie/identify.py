"""Mark: walk a catalog's references and store which contents are live. Nessie is only read; the lake not at all."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.dropped import CollectDropped
from lakesweep.catalogs.nessie.identify import Identified, identify
from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.nessie.requests import MarkRequest
from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import utc_now
from lakesweep.domain.cutoff import assert_clocks_agree
from lakesweep.domain.cutoff_policies import CutoffPolicies
from lakesweep.domain.head_contents import HeadContents
from lakesweep.domain.live_sets import (
    DroppedTable,
    LiveSetId,
    LiveSetStatus,
    MarkFacts,
    OtherContent,
    new_live_set_id,
)
from lakesweep.errors import ConfigError, LakesweepError

logger = logging.getLogger(__name__)

NESSIE_CLOCK = "the Nessie server"


@dataclass(frozen=True, slots=True)
class Marked:
    """The result of a mark that came to its end: the live set that it stored, and its numbers."""

    live_set_id: LiveSetId
    status: LiveSetStatus
    created: datetime
    seconds: timedelta
    references: int  # content references stored
    commits_read: int
    dropped: tuple[DroppedTable, ...]
    others: tuple[OtherContent, ...]


def mark_live(
    client: NessieClient,
    live_sets: LiveSetStore,
    request: MarkRequest,
    phases: Phases,
    clock: Callable[[], datetime] = utc_now,
) -> Marked:
    """Store a new live set. One that could not be finished stays with its error, and no sweep accepts it."""
    _refuse_unmatched(client, request.policies)
    live_set_id = new_live_set_id()
    # Before Nessie is asked anything: what is committed from here on is younger than every cut-off.
    created = clock()
    live_sets.start_identify(live_set_id, created)
    try:
        _assert_nessie_agrees(client, clock)
        with phases.phase("identify") as step:
            found = identify(
                client,
                request.policies,
                keep_state_at_cutoff=request.keep_state_at_cutoff,
                collect_dropped=collect_dropped(request, created),
                parallelism=request.parallelism,
                on_progress=phases.advance,
            )
            stored = live_sets.add_contents(live_set_id, found.references)
            step.items = found.commits_read
            step.said = (
                f"{found.commits_read} commits read, {found.commits_live} live in "
                f"{found.references_walked} references, {stored} contents"
            )
        finished = clock()
        live_sets.finish_identify(live_set_id, finished, facts_of(client, request, found))
    except BaseException as error:
        save_failure(live_sets.fail_identify, live_set_id, clock(), said_of(error))
        raise
    return Marked(
        live_set_id=live_set_id,
        status=LiveSetStatus.IDENTIFY_SUCCESS,
        created=created,
        seconds=finished - created,
        references=stored,
        commits_read=found.commits_read,
        dropped=found.dropped,
        others=found.others,
    )


def _assert_nessie_agrees(client: NessieClient, clock: Callable[[], datetime]) -> None:
    """Refuse a mark whose time Nessie would not know again: by it, commits and files are compared later."""
    server = client.server_time()
    if server is not None:
        assert_clocks_agree(clock(), server, NESSIE_CLOCK, than="this machine")


def facts_of(client: NessieClient, request: MarkRequest, found: Identified) -> MarkFacts:
    """What a live set stores of its mark beside the contents: policies, heads, dropped tables, other contents."""
    return MarkFacts(
        catalog_uri=client.uri,
        reference_time=request.reference_time,
        default_policy=request.default_policy,
        policies=request.policy_texts,
        keep_state_at_cutoff=request.keep_state_at_cutoff,
        heads=found.heads,
        others=found.others,
        dropped=found.dropped,
        head_contents=HeadContents.of(found.head_locations),
        dropped_grace=request.dropped_grace,
    )


def collect_dropped(request: MarkRequest, created: datetime) -> CollectDropped | None:
    """Which dropped tables a mark that began then collects; None for none of them."""
    if request.dropped_grace is None:
        return None
    # A reference time that lies ahead must not make tables look as if they had been gone for longer.
    return CollectDropped(min(request.reference_time, created), request.dropped_grace)


def _refuse_unmatched(client: NessieClient, policies: CutoffPolicies) -> None:
    """A pattern that matches nothing may be a misspelt one that was to keep something."""
    if not policies.by_pattern:
        return
    names = sorted(reference.name for reference in client.references())
    for pattern in policies.unmatched(names):
        near = difflib.get_close_matches(pattern, names, n=5, cutoff=0.4) or names[:5]
        raise ConfigError(
            f"--cutoff: the pattern {pattern!r} matches no reference. Nothing was marked. The nearest are "
            f"{', '.join(near)}.",
            kind="unmatched-cutoff",
        )


def said_of(error: BaseException) -> str:
    """What is said of a run that ended so."""
    if isinstance(error, LakesweepError):
        return error.message
    return f"{type(error).__name__}: {error}"


def save_failure(
    fail: Callable[[LiveSetId, datetime, str], None],
    live_set_id: LiveSetId,
    at: datetime,
    said: str,
) -> None:
    """Let the set say why its run ended, with a method of its store."""
    try:
        fail(live_set_id, at, said)
    except LakesweepError as failure:
        logger.warning("set#%s its failure could not be recorded: %s", live_set_id, failure)
