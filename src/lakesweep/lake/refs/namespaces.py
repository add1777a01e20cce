"""Who owns which storage namespace. No two repositories' namespaces may lie in one another.

All claims stand in one record, so that looking for an overlap and adding a claim are one compare-and-set. A claim whose
repository never came to be (its creator died) may be taken over after a minute.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakesweep.domain.location import Location
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import ConflictError, InvalidRequestError, TooManyTriesError
from lakesweep.lake.records import decode_record, encode_record, from_micros, to_micros

_PARTITION = "graveler"
_KEY = b"namespaces"
_REPOSITORY_PREFIX = b"repos/"
_MAX_TRIES = 50
_CREATION_TAKES_AT_MOST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Claim:
    """One repository's hold on a namespace."""

    repository_id: str
    instance_uid: str
    namespace: str
    """As its user wrote it: the folder that `local://NAME` means moves with the lake."""
    location: Location
    at: datetime


class NamespaceClaims:
    """The record of all claims."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def take(
        self, repository_id: str, storage_namespace: str, instance_uid: str, now: datetime
    ) -> Claim:
        """Claim a namespace for a repository about to be created.

        Raises:
            InvalidRequestError: it is no namespace, or is in use, or lies inside or around another repository's.
            ForbiddenError: the operator's list does not have it.
            ConflictError: somebody is creating a repository there at this moment.
        """
        location = self._context.reach.check_namespace(storage_namespace)
        claim = Claim(repository_id, instance_uid, storage_namespace, location, now)

        def add(claims: list[Claim]) -> list[Claim]:
            nonlocal claim
            others = []
            for other in claims:
                if not _overlap(other.location, location):
                    others.append(other)
                elif self._is_alive(other):
                    raise InvalidRequestError(
                        f"the storage namespace {storage_namespace} lies in, at or around that of"
                        f" repository {other.repository_id}; nothing was created",
                        kind="namespace-in-use",
                    )
                elif other.at + _CREATION_TAKES_AT_MOST > now:
                    raise ConflictError(
                        f"repository {other.repository_id} is being created in, at or around"
                        f" {storage_namespace}; try again in a minute",
                        kind="repository-exists",
                    )
                elif other.location == location and other.repository_id == repository_id:
                    # Its creator died half-way; the marker it may have left names this instance.
                    claim = replace(claim, instance_uid=other.instance_uid)
            return [*others, claim]

        self._change(add)
        return claim

    def renew(self, claim: Claim, now: datetime) -> Claim | None:
        """The claim, which nobody may take over for a minute; None when somebody did, or its repository came to be."""
        renewed = replace(claim, at=now)
        is_ours = False

        def put_in_place(claims: list[Claim]) -> list[Claim]:
            nonlocal is_ours
            is_ours = claim in claims
            return [renewed if one == claim else one for one in claims]

        self._change(put_in_place)
        return renewed if is_ours and not self._is_alive(claim) else None

    def release(self, claim: Claim) -> None:
        """Give back this very claim; one that was taken over belongs to somebody else, though its instance is the same."""
        self._change(lambda claims: [one for one in claims if one != claim])

    def release_instance(self, instance_uid: str) -> None:
        """Give back the claim of a repository that was deleted."""
        self._change(lambda claims: [c for c in claims if c.instance_uid != instance_uid])

    def all(self) -> list[Claim]:
        """Every claim there is."""
        raw = self._context.kv.get(_PARTITION, _KEY)
        return [] if raw is None else self._decode(raw)

    def _change(self, change: Callable[[list[Claim]], list[Claim]]) -> None:
        for _ in range(_MAX_TRIES):
            raw = self._context.kv.get(_PARTITION, _KEY)
            changed = _encode(change([] if raw is None else self._decode(raw)))
            if changed == raw or self._context.kv.set_if(_PARTITION, _KEY, changed, raw):
                return
        raise TooManyTriesError("others kept creating repositories; this one was not; try again")

    def _decode(self, raw: bytes) -> list[Claim]:
        return [
            Claim(
                fields["repository"],
                fields["uid"],
                fields["location"],
                self._context.locate(fields["location"]),
                from_micros(fields["at"]),
            )
            for fields in decode_record(raw)["claims"]
        ]

    def _is_alive(self, claim: Claim) -> bool:
        key = _REPOSITORY_PREFIX + claim.repository_id.encode()
        raw = self._context.kv.get(_PARTITION, key)
        return raw is not None and decode_record(raw)["instance_uid"] == claim.instance_uid


def _overlap(left: Location, right: Location) -> bool:
    left, right = folded(left), folded(right)
    return left.contains(right) or right.contains(left)


def folded(location: Location) -> Location:
    """The place with all that some store or disk does not tell apart made alike."""
    container, key = location.container.casefold(), location.key
    if location.kind == "local":
        key = os.path.realpath(f"/{key}").casefold().lstrip("/")
    return Location(
        location.kind, container, key, location.account.casefold(), location.endpoint.casefold()
    )


def _encode(claims: list[Claim]) -> bytes:
    return encode_record(
        {
            "claims": [
                {
                    "repository": claim.repository_id,
                    "uid": claim.instance_uid,
                    "location": claim.namespace,
                    "at": to_micros(claim.at),
                }
                for claim in claims
            ]
        }
    )
