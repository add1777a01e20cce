"""Access keys, and secrets that the server processes share. They lie in the ref store, which only its owner may read."""

from __future__ import annotations

import secrets
import string

from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import ConflictError, InvalidRequestError
from lakesweep.lake.records import decode_record, encode_record, from_micros, to_micros
from lakesweep.lake.values import Credentials

_PARTITION = "auth"
# The first user's whole record, so that "is there one?" and "who is it?" are one compare-and-set.
_INSTALLATION = b"installation"
_KEY_CHARACTERS = string.ascii_uppercase + "234567"
_SECRET_BYTES = 32


class CredentialStore:
    """The first user's keys and the lake's own secrets."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context
        self._signing_secrets: dict[str, bytes] = {}

    def is_initialized(self) -> bool:
        """Whether there is a first user."""
        return self._context.kv.get(_PARTITION, _INSTALLATION) is not None

    def setup_first_user(
        self, username: str, access_key_id: str | None = None, secret_access_key: str | None = None
    ) -> Credentials:
        """Create the first user, with new keys unless given."""
        if not username:
            raise InvalidRequestError("a user needs a name; nobody was set up")
        if (access_key_id is None) != (secret_access_key is None):
            raise InvalidRequestError(
                "give both an access key and its secret, or neither; nobody was set up"
            )
        credentials = Credentials(
            access_key_id=access_key_id or _new_access_key(),
            secret_access_key=secret_access_key or secrets.token_urlsafe(30),
            username=username,
            creation_date=self._context.now(),
        )
        record = encode_record(
            {
                "access_key_id": credentials.access_key_id,
                "secret_access_key": credentials.secret_access_key,
                "username": credentials.username,
                "creation_date": to_micros(credentials.creation_date),
            }
        )
        if not self._context.kv.set_if(_PARTITION, _INSTALLATION, record, None):
            raise ConflictError("the first user was set up already", kind="user-exists")
        return credentials

    def find(self, access_key_id: str) -> Credentials | None:
        """The credentials with this access key, or None."""
        raw = self._context.kv.get(_PARTITION, _INSTALLATION)
        if raw is None:
            return None
        fields = decode_record(raw)
        if not secrets.compare_digest(
            fields["access_key_id"].encode(), access_key_id.encode(errors="replace")
        ):
            return None
        return Credentials(
            access_key_id=fields["access_key_id"],
            secret_access_key=fields["secret_access_key"],
            username=fields["username"],
            creation_date=from_micros(fields["creation_date"]),
        )

    def signing_secret(self, purpose: str) -> bytes:
        """A secret for one purpose; whichever process asks first makes it, all others get the same."""
        known = self._signing_secrets.get(purpose)
        if known is None:
            key = f"secrets/{purpose}".encode()
            self._context.kv.set_if(_PARTITION, key, secrets.token_bytes(_SECRET_BYTES), None)
            known = self._context.kv.get(_PARTITION, key)
            assert known is not None
            self._signing_secrets[purpose] = known
        return known


def _new_access_key() -> str:
    return "AKIA" + "".join(secrets.choice(_KEY_CHARACTERS) for _ in range(16))
