"""What a key may do: needs of an operation, compared with the rights of the caller's key."""

from __future__ import annotations

from enum import Enum

from lakesweep.lake.errors import ForbiddenError
from lakesweep.lake.values import Credentials


class Need(Enum):
    """What an operation asks of the caller's key."""

    OPEN = "open"
    """No key at all."""
    KEY = "key"
    """Any key. The operation reveals and changes nothing of a repository, or shows what the key reaches."""
    READ = "read"
    """A key that reaches the repository."""
    WRITE = "write"
    """A key that reaches the repository and may write."""
    MANAGE = "manage"
    """A key that may write and is limited to no repository."""


def check_access(caller: Credentials, need: Need, repository_id: str | None) -> None:
    """Refuse what the key may not do. The answer is the same whether or not the repository exists.

    Raises:
        ForbiddenError: the key may not; nothing was done.
    """
    if need in (Need.OPEN, Need.KEY):
        return
    if need is not Need.READ and caller.is_read_only:
        raise _refused(caller, "is read-only, and this would change something")
    if need is Need.MANAGE:
        if caller.repositories is not None:
            raise _refused(
                caller, "is limited to some repositories, and this needs one that is not"
            )
    elif repository_id is None or not caller.reaches(repository_id):
        raise _refused(caller, f"does not reach the repository {repository_id!r}")


def _refused(caller: Credentials, why: str) -> ForbiddenError:
    return ForbiddenError(
        f"The access key of {caller.username} {why}; nothing was done."
        " Use another key; `lakesweep keys list` shows what each may do.",
        kind="key-may-not",
    )
