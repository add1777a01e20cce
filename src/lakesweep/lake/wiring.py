"""Puts the lake's parts together."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.lake.addresses.outside import Addresses
from lakesweep.lake.addresses.slices import Slices
from lakesweep.lake.collection.retained_commits import GcCommits
from lakesweep.lake.collection.retention_rules import RetentionRulesStore
from lakesweep.lake.collection.uncommitted_list import GcUncommitted
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.commits.committing import Committing
from lakesweep.lake.commits.diffing import Diffing
from lakesweep.lake.commits.log import Log
from lakesweep.lake.commits.merging import Merging
from lakesweep.lake.commits.reverting import Reverting
from lakesweep.lake.context import LakeContext
from lakesweep.lake.housekeeping import Housekeeping
from lakesweep.lake.kv.interface import KeyValueStore
from lakesweep.lake.objects.copying import Copying
from lakesweep.lake.objects.objects import Objects
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.refs.dumping import Dumping
from lakesweep.lake.refs.expressions import Refs
from lakesweep.lake.refs.head_moves import HeadMoves
from lakesweep.lake.refs.namespaces import NamespaceClaims
from lakesweep.lake.refs.repositories import Repositories
from lakesweep.lake.refs.tags import Tags
from lakesweep.lake.staging.dropped_tokens import DroppedTokens
from lakesweep.lake.staging.entries import Entries
from lakesweep.lake.staging.resetting import Resetting
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.tasks import Tasks
from lakesweep.lake.uploads.importing import Importing
from lakesweep.lake.uploads.linking import Linking
from lakesweep.lake.uploads.multipart import Multipart
from lakesweep.lake.uploads.multipart_parts import Parts
from lakesweep.lake.uploads.pending import PendingUploads
from lakesweep.lake.uploads.streams import UploadStreams
from lakesweep.lake.users.credentials import CredentialStore
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
