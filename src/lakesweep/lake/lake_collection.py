"""The lake's operations for collectors, for moving refs, and for its own upkeep."""

from __future__ import annotations

from datetime import datetime

from lakesweep.domain.commits import HeadMove
from lakesweep.domain.rules import RetentionRules
from lakesweep.lake.lake_base import LakeBase
from lakesweep.lake.values import (
    Credentials,
    Page,
    PreparedCommits,
    PrepareStatus,
    RefsManifest,
    UncommittedPage,
)


class CollectionOperations(LakeBase):
    """What a garbage collector asks, and what keeps the lake itself in order."""

    # -- retention

    def get_rules(self, repository_id: str) -> RetentionRules:
        """The retention rules; `MissingError` (`rules-not-found`)."""
        return self._parts.rules.get(self._repository(repository_id))

    def set_rules(self, repository_id: str, rules: RetentionRules, *, force: bool = False) -> None:
        """Set the rules; `InvalidRequestError` for negative days."""
        self._parts.rules.set(self._writable(repository_id, force=force), rules)

    def delete_rules(self, repository_id: str, *, force: bool = False) -> None:
        """Remove the rules: nothing expires any more."""
        self._parts.rules.delete(self._writable(repository_id, force=force))

    def list_head_moves(
        self, repository_id: str, *, after: str = "", amount: int = 1000
    ) -> Page[HeadMove]:
        """Heads that branches left by deletion or hard reset. Pass `next_offset` as `after`."""
        return self._parts.head_moves.page(
            self._repository(repository_id), after=after, amount=amount
        )

    def prepare_commits(self, repository_id: str) -> PreparedCommits:
        """Write the list of retained commits; `MissingError` (`rules-not-found`) without rules."""
        return self._parts.gc_commits.prepare(self._writable(repository_id))

    def prepare_commits_start(self, repository_id: str) -> str:
        """Do so in the background, and give the task's id. Failure shows in the task's status."""
        return self._parts.gc_commits.start(self._writable(repository_id))

    def prepare_commits_status(self, repository_id: str, task_id: str) -> PrepareStatus:
        """How far the task has come; `MissingError` (`task-not-found`)."""
        return self._parts.gc_commits.status(self._repository(repository_id), task_id)

    def prepare_uncommitted(
        self, repository_id: str, continuation_token: str | None = None
    ) -> UncommittedPage:
        """Write one page of the list of uncommitted addresses; call again with its token until there is none.

        Pending uploads are read first, then every branch's staging tokens, then tracked copies.

        Raises:
            InvalidRequestError: the continuation token is not one of ours.
        """
        return self._parts.gc_uncommitted.prepare(self._writable(repository_id), continuation_token)

    # -- refs in bulk

    def dump_refs(self, repository_id: str) -> RefsManifest:
        """Write all commits, branches and tags under `_lakefs/`, with a manifest; staged data is not part of it."""
        return self._parts.dumping.dump(self._repository(repository_id))

    def restore_refs(
        self, repository_id: str, manifest: RefsManifest, *, force: bool = False
    ) -> None:
        """Load a dump into a bare repository; `InvalidRequestError` when it has branches already."""
        self._parts.dumping.restore(self._writable(repository_id, force=force), manifest)

    def metadata_location(self, repository_id: str, object_id: str) -> str:
        """Where a range or metarange lies, relative to the namespace. Does not look whether it is there."""
        self._repository(repository_id)
        return self._parts.dumping.metadata_location(object_id)

    def read_metadata_object(self, repository_id: str, object_id: str) -> bytes:
        """The bytes of a range or metarange; `MissingError` (`metarange-not-found`)."""
        return self._parts.dumping.read_metadata_object(self._repository(repository_id), object_id)

    # -- users

    def is_initialized(self) -> bool:
        """Whether the first user was set up."""
        return self._parts.credentials.is_initialized()

    def setup_first_user(
        self,
        username: str,
        *,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
    ) -> Credentials:
        """Create the first user, with new keys unless given; `ConflictError` (`user-exists`) the second time."""
        return self._parts.credentials.setup_first_user(username, access_key_id, secret_access_key)

    def authenticate(self, access_key_id: str) -> Credentials | None:
        """The credentials of an access key, for the caller to check the request against."""
        return self._parts.credentials.find(access_key_id)

    def signing_secret(self, purpose: str) -> bytes:
        """A secret all processes on one ref store share (`login-token`, …); made on first use."""
        return self._parts.credentials.signing_secret(purpose)

    # -- upkeep

    def run_housekeeping(self, now: datetime | None = None) -> None:
        """Remove what has had its time: expired uploads with their parts, old tracked copies, dropped staging tokens.

        Meant to be called every few minutes by each server process; safe to run in several at once.
        """
        self._parts.housekeeping.run(now)
