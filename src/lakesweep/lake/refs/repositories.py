"""Repository records, and who owns which storage namespace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from lakesweep.domain.commits import MetaRangeId
from lakesweep.errors import (
    LakesweepError,
    ObjectExistsError,
    ObjectNotFoundError,
    UnsupportedStoreError,
)
from lakesweep.formats.xid import new_xid
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidRequestError,
    MissingError,
)
from lakesweep.lake.hard_delete.batches import FenceBatches
from lakesweep.lake.kv.interface import Held, scan
from lakesweep.lake.names import check_branch_id, check_repository_id, check_storage_namespace
from lakesweep.lake.records import (
    cut_page,
    decode_record,
    encode_record,
    from_micros,
    page_size,
    to_micros,
)
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.refs.namespaces import Claim, NamespaceClaims
from lakesweep.lake.values import Credentials, Page, Repository

_PARTITION = "graveler"
_PREFIX = b"repos/"
_MARKER = "_lakefs/dummy"
_OLD_MARKER = "dummy"


@dataclass(eq=False, repr=False)
class Repositories:
    """All repositories of this lake."""

    _context: LakeContext
    _claims: NamespaceClaims
    _branches: Branches
    _commits: Commits
    _fence_batches: FenceBatches

    def create(
        self,
        repository_id: str,
        storage_namespace: str,
        *,
        default_branch: str = "main",
        is_read_only: bool = False,
        is_bare: bool = False,
    ) -> Repository:
        """A new repository. Its record is written last: until then a crash leaves only what a retry takes over."""
        check_repository_id(repository_id)
        check_branch_id(default_branch)
        check_storage_namespace(storage_namespace)
        self._assert_absent(repository_id)
        now = self._context.now()
        claim = self._claims.take(repository_id, storage_namespace, new_xid(now), now)
        repository = Repository(
            repository_id,
            storage_namespace,
            default_branch,
            now,
            claim.instance_uid,
            is_read_only=is_read_only,
        )
        try:
            if not (is_bare or repository.is_read_only):
                self._mark_namespace(repository)
            if not is_bare:
                self._create_first_branch(repository)
        except LakesweepError:
            self._take_back(repository, claim)
            raise
        # Where nobody knows whether this was done, the claim stays, and creating again takes over what is there.
        record = _encode(repository)
        if not self._context.kv.set_if(_PARTITION, _key(repository_id), record, None):
            self._take_back(repository, claim)
            raise _exists(repository_id)
        return repository

    def get(self, repository_id: str) -> Repository:
        """The repository; `MissingError` without it, `GoneError` while it is being deleted."""
        repository = self._find(repository_id)
        if repository is None:
            raise _missing(repository_id)
        if repository.is_in_deletion:
            raise GoneError(f"repository {repository_id} is being deleted", kind="in-deletion")
        return repository

    def as_it_is(self, repository: Repository) -> Repository | None:
        """A repository with its present settings; None once it is deleted, or about to be."""
        found = self._find(repository.id)
        if found is None or found.is_in_deletion or found.instance_uid != repository.instance_uid:
            return None
        return found

    def held(self, repository: Repository) -> Held:
        """The condition that the repository is as it was read: none of its records has been removed with it."""
        return _PARTITION, _key(repository.id), _encode(repository)

    def writable(self, repository_id: str, *, force: bool = False) -> Repository:
        """The repository; `ForbiddenError` when it is read-only and `force` is not set."""
        repository = self.get(repository_id)
        if repository.is_read_only and not force:
            raise ForbiddenError(
                f"repository {repository_id} is read-only; nothing was changed", kind="read-only"
            )
        return repository

    def all(self, *, prefix: str = "", after: str = "") -> Iterator[Repository]:
        """Every repository in id order, but those being deleted."""
        rows = scan(
            self._context.kv,
            _PARTITION,
            prefix=_key(prefix),
            after=_key(after) if after else None,
        )
        decoded = (_decode(raw) for _, raw in rows)
        return (repository for repository in decoded if not repository.is_in_deletion)

    def page(
        self,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        search: str = "",
        caller: Credentials | None = None,
    ) -> Page[Repository]:
        """Repositories in id order, but those that the caller's key does not reach."""
        found = (
            (r.id, r)
            for r in self.all(prefix=prefix, after=after)
            if search in r.id and (caller is None or caller.reaches(r.id))
        )
        return cut_page(found, page_size(amount))

    def delete(self, repository_id: str, *, force: bool = False) -> None:
        """Remove the records. The first step hides the repository; after a crash, deleting again goes on."""
        repository = self._find(repository_id)
        if repository is None:
            raise _missing(repository_id)
        if repository.is_read_only and not force:
            raise ForbiddenError(f"repository {repository_id} is read-only; it was not deleted")
        kv = self._context.kv
        hidden = replace(repository, is_in_deletion=True)
        if not kv.set_if(_PARTITION, _key(repository_id), _encode(hidden), _encode(repository)):
            raise ConflictError(f"repository {repository_id} was changed meanwhile; try again")
        for record in list(self._branches.all(repository)):
            for token in record.tokens:
                kv.delete_partition(token)
        self._fence_batches.remove_all(repository)
        kv.delete_partition(partition_of(repository))
        kv.delete_if(_PARTITION, _key(repository_id), _encode(hidden))
        self._claims.release_instance(repository.instance_uid)

    def set_hard_delete(self, repository_id: str, value: bool | None) -> Repository:
        """Switch online hard delete for one repository; None leaves it to the server's setting."""
        repository = self.writable(repository_id)
        changed = replace(repository, hard_delete=value)
        kv = self._context.kv
        if not kv.set_if(_PARTITION, _key(repository_id), _encode(changed), _encode(repository)):
            raise ConflictError(f"repository {repository_id} was changed meanwhile; try again")
        return changed

    def _take_back(self, repository: Repository, claim: Claim) -> None:
        """Remove the marker of a repository that did not come to be, which would keep the namespace from everybody.

        Where that fails, too, the claim stays, and creating it again after a minute takes over what is there. Its records
        are left: they are few, and whoever took the creation over meanwhile has them.
        """
        with suppress(LakesweepError):
            renewed = self._claims.renew(claim, self._context.now())
            if renewed is None:
                return
            store = self._context.store(repository)
            with suppress(ObjectNotFoundError):
                if store.read(_MARKER) == _marker_of(repository):
                    store.delete_many([_MARKER])
            self._claims.release(renewed)

    def _create_first_branch(self, repository: Repository) -> None:
        first = self._commits.make(
            repository,
            committer="",
            message="Repository created",
            meta_range_id=MetaRangeId(""),
            creation_date=repository.creation_date,
            parents=(),
            metadata={},
        )
        if self._branches.find(repository, repository.default_branch) is None:
            self._branches.create(repository, repository.default_branch, first.id)

    def _mark_namespace(self, repository: Repository) -> None:
        """Leave the marker by which any lakeFS server sees that the namespace is taken.

        The marker names the repository's instance, so that creating again after a crash knows its own.
        """
        store = self._context.store(repository)
        marker = _marker_of(repository)
        for key in (_MARKER, _OLD_MARKER):
            try:
                if store.read(key) != marker:
                    raise InvalidRequestError(
                        f"the storage namespace {repository.storage_namespace} is in use: it holds {key};"
                        " the repository was not created",
                        kind="namespace-in-use",
                    )
            except ObjectNotFoundError:
                continue
        try:
            store.write(_MARKER, marker, create=True)
        except ObjectExistsError:
            if store.read(_MARKER) != marker:
                raise InvalidRequestError(
                    f"the storage namespace {repository.storage_namespace} was taken meanwhile;"
                    " the repository was not created",
                    kind="namespace-in-use",
                ) from None
        except UnsupportedStoreError:
            store.write(_MARKER, marker)

    def _find(self, repository_id: str) -> Repository | None:
        raw = self._context.kv.get(_PARTITION, _key(repository_id))
        return None if raw is None else _decode(raw)

    def _assert_absent(self, repository_id: str) -> None:
        if self._find(repository_id) is not None:
            raise _exists(repository_id)


def _marker_of(repository: Repository) -> bytes:
    text = f"This storage namespace belongs to repository {repository.id} ({repository.instance_uid}).\n"
    return text.encode()


def _key(repository_id: str) -> bytes:
    return _PREFIX + repository_id.encode(errors="surrogatepass")


def _encode(repository: Repository) -> bytes:
    return encode_record(
        {
            "id": repository.id,
            "storage_namespace": repository.storage_namespace,
            "default_branch": repository.default_branch,
            "creation_date": to_micros(repository.creation_date),
            "instance_uid": repository.instance_uid,
            "read_only": repository.is_read_only,
            "in_deletion": repository.is_in_deletion,
            "storage_id": repository.storage_id,
            # Not said, it is not written: records of earlier versions stay what they are.
            **({} if repository.hard_delete is None else {"hard_delete": repository.hard_delete}),
        }
    )


# Every request reads its repository's record, and most find it unchanged.
@lru_cache(maxsize=1024)
def _decode(raw: bytes) -> Repository:
    fields = decode_record(raw)
    return Repository(
        id=fields["id"],
        storage_namespace=fields["storage_namespace"],
        default_branch=fields["default_branch"],
        creation_date=from_micros(fields["creation_date"]),
        instance_uid=fields["instance_uid"],
        is_read_only=fields["read_only"],
        is_in_deletion=fields["in_deletion"],
        storage_id=fields["storage_id"],
        hard_delete=fields.get("hard_delete"),
    )


def _missing(repository_id: str) -> MissingError:
    return MissingError(f"there is no repository {repository_id!r}", kind="repository-not-found")


def _exists(repository_id: str) -> ConflictError:
    return ConflictError(
        f"there is a repository {repository_id!r} already", kind="repository-exists"
    )
