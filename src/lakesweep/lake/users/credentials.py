"""Users' access keys, and secrets that the server processes share."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import (
    ConflictError,
    InvalidRequestError,
    MissingError,
    TooManyTriesError,
)
from lakesweep.lake.names import check_repository_id
from lakesweep.lake.records import decode_record, encode_record, fields_of, from_micros
from lakesweep.lake.users.sealing import SealedRecords
from lakesweep.lake.values import Credentials

# All keys are one record, so that the first setup, an added, a rotated and a revoked key are one compare-and-set each.
_KEYS = b"keys"
_KEY_CHARACTERS = string.ascii_uppercase + "234567"
_SECRET_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_MOST_TRIES = 20

Keys = dict[str, Credentials]
"""Credentials by user name."""


class CredentialStore:
    """Access keys, one a user, and the lake's own secrets. What another process changes counts from the next call on."""

    def __init__(self, context: LakeContext) -> None:
        self.is_remote = context.kv.is_remote
        self._now = context.now
        self._records = SealedRecords(context)
        self._signing_secrets: dict[str, bytes] = {}
        # The record as it was last read, and the keys in it by access key id.
        self._last_read: tuple[bytes, dict[str, Credentials]] = (b"", {})

    def is_initialized(self) -> bool:
        """Whether the first user was set up, also when no key is left."""
        return self._records.get(_KEYS) is not None

    def setup_first_user(
        self, username: str, access_key_id: str | None = None, secret_access_key: str | None = None
    ) -> Credentials:
        """Create the first user, who may do everything, with new keys unless given."""
        _check_name(username)
        if (access_key_id is None) != (secret_access_key is None):
            raise InvalidRequestError(
                "give both an access key and its secret, or neither; nobody was set up"
            )
        first = self._new_key(username)
        if access_key_id is not None and secret_access_key is not None:
            first = replace(first, access_key_id=access_key_id, secret_access_key=secret_access_key)
        if not self._records.set_if(_KEYS, _encode({username: first}), None):
            raise ConflictError("the first user was set up already", kind="user-exists")
        return first

    def find(self, access_key_id: str) -> Credentials | None:
        """The credentials with this access key, or None."""
        sealed = self._records.get(_KEYS)
        if sealed is None:
            return None
        read, by_id = self._last_read
        if read != sealed:
            by_id = {key.access_key_id: key for key in self._open(sealed).values()}
            self._last_read = (sealed, by_id)
        return by_id.get(access_key_id)

    def list(self) -> list[Credentials]:
        """Everybody's credentials, by name."""
        sealed = self._records.get(_KEYS)
        keys = self._open(sealed) if sealed is not None else {}
        return [keys[name] for name in sorted(keys)]

    def add(
        self,
        username: str,
        *,
        is_read_only: bool = False,
        repositories: Collection[str] | None = None,
    ) -> Credentials:
        """A new user with a key; `repositories` None reaches all of them, also those to come."""
        _check_name(username)
        for repository_id in repositories or ():
            check_repository_id(repository_id)
        limits = None if repositories is None else frozenset(repositories)
        added = replace(self._new_key(username), is_read_only=is_read_only, repositories=limits)

        def add(keys: Keys) -> None:
            if username in keys:
                raise ConflictError(
                    f"{username} has a key already; nothing was changed. `keys rotate` gives a new one.",
                    kind="user-exists",
                )
            keys[username] = added

        self._change(add)
        return added

    def revoke(self, username: str) -> Credentials:
        """Take a user's key away; neither it nor a token made from it is accepted from now on."""
        revoked: list[Credentials] = []

        def revoke(keys: Keys) -> None:
            revoked[:] = [_take(keys, username)]

        self._change(revoke)
        return revoked[0]

    def rotate(self, username: str) -> Credentials:
        """Give a user a new key with the rights of the old one, which ends."""
        fresh = self._new_key(username)

        def rotate(keys: Keys) -> None:
            old = _take(keys, username)
            keys[username] = replace(
                fresh, is_read_only=old.is_read_only, repositories=old.repositories
            )

        return self._change(rotate)[username]

    def signing_secret(self, purpose: str) -> bytes:
        """A secret for one purpose; whichever process asks first makes it, all others get the same."""
        known = self._signing_secrets.get(purpose)
        if known is None:
            key = f"secrets/{purpose}".encode()
            self._records.set_if(key, secrets.token_bytes(_SECRET_BYTES), None)
            sealed = self._records.get(key)
            assert sealed is not None
            known = self._signing_secrets[purpose] = self._records.open(key, sealed)
        return known

    def _change(self, change: Callable[[Keys], None]) -> Keys:
        for _ in range(_MOST_TRIES):
            sealed = self._records.get(_KEYS)
            keys = self._open(sealed) if sealed is not None else {}
            change(keys)
            if self._records.set_if(_KEYS, _encode(keys), sealed):
                return keys
        raise TooManyTriesError("Others kept changing the keys; nothing was changed. Try again.")

    def _open(self, sealed: bytes) -> Keys:
        documents = decode_record(self._records.open(_KEYS, sealed))["keys"]
        return {document["username"]: _decode(document) for document in documents}

    def _new_key(self, username: str) -> Credentials:
        return Credentials(
            access_key_id="AKIA" + "".join(secrets.choice(_KEY_CHARACTERS) for _ in range(16)),
            secret_access_key=secrets.token_urlsafe(30),
            username=username,
            creation_date=self._now(),
        )


def _take(keys: Keys, username: str) -> Credentials:
    if username not in keys:
        raise MissingError(
            f"{username!r} has no key; nothing was changed. `lakesweep keys list` shows who has.",
            kind="user-not-found",
        )
    return keys.pop(username)


def _check_name(username: str) -> None:
    if not _NAME.fullmatch(username):
        raise InvalidRequestError(
            f"{username[:200]!r} is not a user name: up to 128 letters, digits and . _ @ + -, the first a letter or"
            " a digit. Nobody was given a key."
        )


def _encode(keys: Keys) -> bytes:
    return encode_record({"keys": [fields_of(key) for key in keys.values()]})


def _decode(document: dict[str, Any]) -> Credentials:
    limits = document["repositories"]
    return Credentials(
        access_key_id=document["access_key_id"],
        secret_access_key=document["secret_access_key"],
        username=document["username"],
        creation_date=from_micros(document["creation_date"]),
        is_read_only=document["is_read_only"],
        repositories=None if limits is None else frozenset(limits),
    )
