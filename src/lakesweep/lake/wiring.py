"""Puts the lake's parts together."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.lake.addresses import Addresses
from lakesweep.lake.branches import Branches
from lakesweep.lake.commits import Commits
from lakesweep.lake.committed import Committed
from lakesweep.lake.committing import Committing
from lakesweep.lake.context import LakeContext
from lakesweep.lake.copies import TrackedCopies
from lakesweep.lake.copying import Copying
from lakesweep.lake.credentials import CredentialStore
from lakesweep.lake.diffing import Diffing
from lakesweep.lake.dropped_tokens import DroppedTokens
from lakesweep.lake.dumping import Dumping
from lakesweep.lake.entries import Entries
from lakesweep.lake.gc_commits import GcCommits
from lakesweep.lake.gc_uncommitted import GcUncommitted
from lakesweep.lake.head_moves import HeadMoves
from lakesweep.lake.housekeeping import Housekeeping
from lakesweep.lake.importing import Importing
from lakesweep.lake.kv.interface import KeyValueStore
from lakesweep.lake.linking import Linking
from lakesweep.lake.log import Log
from lakesweep.lake.merging import Merging
from lakesweep.lake.multipart import Multipart
from lakesweep.lake.multipart_parts import Parts
from lakesweep.lake.namespaces import NamespaceClaims
from lakesweep.lake.objects import Objects
from lakesweep.lake.pending_uploads import PendingUploads
from lakesweep.lake.ref_expressions import Refs
from lakesweep.lake.repositories import Repositories
from lakesweep.lake.resetting import Resetting
from lakesweep.lake.retention_rules import RetentionRulesStore
from lakesweep.lake.reverting import Reverting
from lakesweep.lake.slices import Slices
from lakesweep.lake.staging import Staging
from lakesweep.lake.tags import Tags
from lakesweep.lake.tasks import Tasks
from lakesweep.lake.upload_streams import UploadStreams
from lakesweep.lake.values import Clock, LakeSettings


@dataclass(frozen=True, slots=True)
class LakeParts:
    """Every part that the lake's operations speak to."""

    repositories: Repositories
    branches: Branches
    tags: Tags
    commits: Commits
    refs: Refs
    log: Log
    committing: Committing
    merging: Merging
    reverting: Reverting
    resetting: Resetting
    diffing: Diffing
    objects: Objects
    linking: Linking
    multipart: Multipart
    copying: Copying
    importing: Importing
    dumping: Dumping
    head_moves: HeadMoves
    rules: RetentionRulesStore
    gc_commits: GcCommits
    gc_uncommitted: GcUncommitted
    credentials: CredentialStore
    housekeeping: Housekeeping
    tasks: Tasks
    kv: KeyValueStore


def wire_parts(kv: KeyValueStore, settings: LakeSettings, clock: Clock) -> LakeParts:
    """Build every part over one ref store."""
    context = LakeContext(kv, settings, clock)
    claims = NamespaceClaims(context)
    head_moves = HeadMoves(context)
    dropped_tokens = DroppedTokens(context)
    branches = Branches(context, head_moves, dropped_tokens)
    tags = Tags(context)
    commits = Commits(context)
    refs = Refs(branches, tags, commits)
    repositories = Repositories(context, claims, branches, commits)
    committed = Committed(context, commits)
    entries = Entries(context, branches, committed, refs)
    staging = Staging(context, branches, entries)
    committing = Committing(context, branches, commits, committed, entries, staging, dropped_tokens)
    merging = Merging(context, refs, branches, commits, committed, committing)
    copies = TrackedCopies(context)
    pending = PendingUploads(context)
    slices = Slices(context)
    streams = UploadStreams(context, pending)
    addresses = Addresses(context, claims)
    credentials = CredentialStore(context)
    tasks = Tasks(context)
    rules = RetentionRulesStore(context)
    multipart = Multipart(context, branches, staging, slices, pending, Parts(context))
    return LakeParts(
        repositories=repositories,
        branches=branches,
        tags=tags,
        commits=commits,
        refs=refs,
        log=Log(refs, commits, committed),
        committing=committing,
        merging=merging,
        reverting=Reverting(context, refs, branches, commits, committing, merging),
        resetting=Resetting(
            context, refs, branches, entries, staging, head_moves, dropped_tokens, copies
        ),
        diffing=Diffing(refs, branches, commits, committed, entries),
        objects=Objects(context, branches, entries, staging, slices, streams, pending, addresses),
        linking=Linking(context, branches, staging, slices, pending, addresses, credentials),
        multipart=multipart,
        copying=Copying(context, branches, entries, staging, slices, copies, addresses),
        importing=Importing(context, branches, commits, committed, committing, addresses, tasks),
        dumping=Dumping(context, branches, tags, commits),
        head_moves=head_moves,
        rules=rules,
        gc_commits=GcCommits(context, branches, commits, head_moves, rules, tasks),
        gc_uncommitted=GcUncommitted(context, branches, pending, copies),
        credentials=credentials,
        housekeeping=Housekeeping(
            context, repositories, pending, multipart, copies, dropped_tokens, tasks
        ),
        tasks=tasks,
        kv=kv,
    )
