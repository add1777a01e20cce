"""The lake: every part over one ref store. The REST routes and the S3 gateway call the parts."""

from __future__ import annotations

from lakesweep.lake.addresses.outside import Addresses
from lakesweep.lake.addresses.slices import Slices
from lakesweep.lake.collection.address_holders import AddressHolders
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
from lakesweep.lake.hard_delete.batches import FenceBatches
from lakesweep.lake.hard_delete.dropped_entries import DroppedEntries
from lakesweep.lake.hard_delete.fence import Fence
from lakesweep.lake.hard_delete.ledger import DeleteLedger
from lakesweep.lake.hard_delete.queue import Queue
from lakesweep.lake.hard_delete.references import References
from lakesweep.lake.hard_delete.reviewer import Reviewer
from lakesweep.lake.hard_delete.revivals import Revivals
from lakesweep.lake.hard_delete.tombs import Tombs
from lakesweep.lake.housekeeping import Housekeeping
from lakesweep.lake.kv.interface import KeyValueStore
from lakesweep.lake.objects.copying import Copying
from lakesweep.lake.objects.objects import Objects
from lakesweep.lake.objects.signed_urls import SignedUrls
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
from lakesweep.lake.uploads.presigned_multipart import PresignedMultipart
from lakesweep.lake.uploads.streams import UploadStreams
from lakesweep.lake.uploads.together import SmallUploads
from lakesweep.lake.users.credentials import CredentialStore
from lakesweep.lake.values import Clock, LakeSettings, Repository


class Lake:
    """A versioned store: refs and staging in a key-value store, data and commits in object stores.

    Thread-safe. Several processes may hold a `Lake` over one PostgreSQL; nothing is kept in memory but caches of
    immutable files and each process's own slice.
    """

    def __init__(self, kv: KeyValueStore, settings: LakeSettings, clock: Clock) -> None:
        self.settings = settings
        self.now = clock
        context = LakeContext(kv, settings, clock)
        claims = NamespaceClaims(context)
        self.fence = fence = Fence(context)
        self.delete_queue = queue = Queue(context)
        self.head_moves = HeadMoves(context)
        dropped_tokens = DroppedTokens(context)
        self.branches = Branches(context, self.head_moves, dropped_tokens)
        self.tags = Tags(context)
        self.commits = Commits(context, fence)
        committed = Committed(context, self.commits)
        revivals = Revivals(fence, committed)
        self.refs = Refs(self.branches, self.tags, self.commits, revivals)
        self.fence_batches = FenceBatches(context, fence)
        self.repositories = Repositories(
            context, claims, self.branches, self.commits, self.fence_batches
        )
        entries = Entries(context, self.branches, committed, self.refs)
        staging = Staging(context, self.branches, entries, fence, queue)
        self.committing = Committing(
            context,
            self.branches,
            self.commits,
            committed,
            entries,
            staging,
            dropped_tokens,
            fence,
            revivals,
        )
        self.merging = Merging(
            context, self.refs, self.branches, self.commits, committed, self.committing
        )
        copies = TrackedCopies(context)
        self.pending = pending = PendingUploads(context, queue)
        self.slices = slices = Slices(context)
        streams = UploadStreams(context, pending)
        addresses = Addresses(context, claims)
        self.credentials = CredentialStore(context)
        self.tasks = Tasks(context)
        self.rules = RetentionRulesStore(context, fence)
        self.multipart = Multipart(context, self.branches, staging, slices, pending, Parts(context))
        self.presigned_multipart = PresignedMultipart(
            context, self.branches, staging, slices, pending
        )
        self.signed_urls = SignedUrls(context, addresses)
        self.log = Log(self.refs, self.commits, committed)
        self.reverting = Reverting(
            context, self.refs, self.branches, self.commits, self.committing, self.merging
        )
        self.resetting = Resetting(
            context,
            self.refs,
            self.branches,
            entries,
            staging,
            self.head_moves,
            dropped_tokens,
            copies,
            revivals,
        )
        self.diffing = Diffing(self.refs, self.branches, self.commits, committed, entries)
        self.objects = Objects(
            context, self.branches, entries, staging, slices, streams, pending, addresses
        )
        self.small_uploads = SmallUploads(context, self.branches, staging, slices)
        self.linking = Linking(
            context, self.branches, staging, slices, pending, addresses, self.credentials
        )
        self.copying = Copying(context, self.branches, entries, staging, slices, copies, addresses)
        self.importing = Importing(
            context, self.branches, self.commits, committed, self.committing, addresses, self.tasks
        )
        self.dumping = Dumping(context, self.branches, self.tags, self.commits, self.refs)
        self.retained_commits = GcCommits(
            context, self.branches, self.commits, self.head_moves, self.rules, self.tasks
        )
        self.uncommitted_list = GcUncommitted(context, self.branches, pending, copies)
        self.address_holders = AddressHolders(context, self.branches, pending, copies)
        self.delete_ledger = DeleteLedger(context)
        self.tombs = Tombs(context, staging, slices)
        self.reviewer = Reviewer(
            context,
            self.repositories,
            fence,
            queue,
            References(context, self.branches, self.tags, self.commits, committed, pending, copies),
            DroppedEntries(context, committed, dropped_tokens, queue),
            self.delete_ledger,
            self.tombs,
        )
        self.housekeeping = Housekeeping(
            context,
            self.repositories,
            self.commits,
            self.head_moves,
            self.rules,
            pending,
            self.multipart,
            self.presigned_multipart,
            copies,
            dropped_tokens,
            self.tasks,
            self.delete_ledger,
            self.tombs,
            self.fence_batches,
        )
        self.kv = kv

    def writable(self, repository_id: str, *, force: bool = False) -> Repository:
        """The repository, when it may be changed; a read-only one only with `force`."""
        return self.repositories.writable(repository_id, force=force)

    def close(self) -> None:
        """Wait for background tasks and let go of the ref store."""
        self.tasks.close()
        self.kv.close()
