"""Every error the embedded lake answers with, grouped by the HTTP status its API maps it to.

    LakeError
    ├── InvalidRequestError          wrong value, name, path, reference or address     400  (also a ValueError)
    │   ├── NoChangesError           nothing to commit or merge                        400
    │   ├── DirtyBranchError         the branch has uncommitted changes                400
    │   └── InvalidAddressError      address or token wrong, used up or expired        400
    ├── ForbiddenError               protected branch, read-only repository            403  (also a PermissionError)
    ├── MissingError                 no such repository, branch, commit, entry, …      404  (also a LookupError)
    ├── ConflictError                it exists already, or two changes contradict      409
    │   ├── MergeConflictError       … both sides of a merge changed one path          409
    │   └── CondemnedError           … it would revive an object that is being deleted 409
    ├── GoneError                    the entry is there, its bytes were hard-deleted   410
    ├── PreconditionFailedError      `If-None-Match: *`, and the path exists           412
    ├── RangeNotSatisfiableError     no such bytes in the object                       416
    ├── TooManyTriesError            others kept changing the branch; try again        429
    ├── UnsupportedOperationError    the embedded lake does not do this                501
    └── RefStoreError                the ref store failed or could not be reached      503

`kind` tells members of a group apart: `MissingError` has `repository-not-found`, `branch-not-found`, `ref-not-found`,
`tag-not-found`, `commit-not-found`, `entry-not-found`, `rules-not-found`, `task-not-found`, `upload-not-found`,
`metarange-not-found`; `ConflictError` has `repository-exists`, `branch-exists`, `tag-exists`, `user-exists`,
`import-completed`, `upload-busy`, `merge-conflict`, `revert-of-merge`, `condemned`, `unknown-metarange`.
"""

from __future__ import annotations

from lakesweep.errors import LakesweepError

__all__ = [
    "CondemnedError",
    "ConflictError",
    "DirtyBranchError",
    "ForbiddenError",
    "GoneError",
    "InvalidAddressError",
    "InvalidRequestError",
    "LakeError",
    "MergeConflictError",
    "MissingError",
    "NoChangesError",
    "PreconditionFailedError",
    "RangeNotSatisfiableError",
    "RefStoreError",
    "TooManyTriesError",
    "UnsupportedOperationError",
]


class LakeError(LakesweepError):
    """The embedded lake did not do what was asked."""

    exit_status = 3
    default_kind = "lake"


class InvalidRequestError(LakeError, ValueError):
    """A value, name, path or reference is not acceptable; nothing was changed."""

    default_kind = "invalid-request"


class NoChangesError(InvalidRequestError):
    """There is nothing to commit or merge."""

    default_kind = "no-changes"


class DirtyBranchError(InvalidRequestError):
    """The branch holds uncommitted changes that the operation would lose or mix up."""

    default_kind = "dirty-branch"


class InvalidAddressError(InvalidRequestError):
    """A physical address or its token is wrong, used up, expired, or in a place it may not be."""

    default_kind = "invalid-address"


class ForbiddenError(LakeError, PermissionError):
    """The repository is read-only, or the branch is protected."""

    default_kind = "forbidden"


class MissingError(LakeError, LookupError):
    """There is no such thing; `kind` says of which sort."""

    default_kind = "not-found"


class ConflictError(LakeError):
    """It exists already, or contradicts what is there."""

    default_kind = "conflict"


class MergeConflictError(ConflictError):
    """Both sides changed the same path in different ways, and no strategy says which wins."""

    default_kind = "merge-conflict"


class CondemnedError(ConflictError):
    """It would make a new reference to an object that is being deleted for good; nothing was done."""

    default_kind = "condemned"


class GoneError(LakeError):
    """The entry exists, and its bytes were hard-deleted from the store."""

    default_kind = "gone"


class PreconditionFailedError(LakeError):
    """The caller asked for an absent path, and it exists."""

    default_kind = "precondition-failed"


class RangeNotSatisfiableError(LakeError):
    """The object has no byte in the range asked for; `size_bytes` says how long it is, where that is known."""

    default_kind = "range-not-satisfiable"

    def __init__(
        self, message: str, *, kind: str | None = None, size_bytes: int | None = None
    ) -> None:
        super().__init__(message, kind=kind)
        self.size_bytes = size_bytes


class TooManyTriesError(LakeError):
    """Other writers kept changing the branch; nothing of this call is visible."""

    default_kind = "too-many-tries"


class UnsupportedOperationError(LakeError):
    """The embedded lake does not support this, and did not pretend to."""

    default_kind = "unsupported"


class RefStoreError(LakeError):
    """The key-value store under the lake failed; its last change may or may not have been made."""

    default_kind = "ref-store"
