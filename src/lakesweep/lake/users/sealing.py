"""Encryption of what is secret in the ref store, under a key file that lies outside of it.

Request signatures (SigV4) are checked with the secret itself, so a hash of it would not do.
"""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lakesweep.errors import ConfigError
from lakesweep.lake.context import LakeContext
from lakesweep.lake.folders import making_a_file

PARTITION = "auth"
KEY_FILE_NAME = "secrets.key"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_OTHERS = 0o077


class SealedRecords:
    """Records of the ref store that only a holder of the key file can read, change or put elsewhere."""

    def __init__(self, context: LakeContext) -> None:
        self._kv = context.kv
        settings = context.settings
        self._key_file = settings.key_file or settings.data_dir / KEY_FILE_NAME
        self._cipher: AESGCM | None = None
        self._cipher_lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        """The stored bytes, still sealed, or None."""
        return self._kv.get(PARTITION, key)

    def open(self, key: bytes, sealed: bytes) -> bytes:
        """What was sealed for this key.

        Raises:
            ConfigError: the key file is another one, or the record was tampered with.
        """
        nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._load_cipher().decrypt(nonce, body, key)
        except InvalidTag:
            raise ConfigError(
                f"The key file {self._key_file} does not open the keys in the ref store, so nobody can be let in."
                " Servers that share a ref store need the same key file; name it with --key-file."
            ) from None

    def set_if(self, key: bytes, plain: bytes, expected: bytes | None) -> bool:
        """Seal and store if the stored bytes equal `expected` (None: there are none); say whether it was done."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._load_cipher().encrypt(nonce, plain, key)
        return self._kv.set_if(PARTITION, key, sealed, expected)

    def _load_cipher(self) -> AESGCM:
        with self._cipher_lock:
            if self._cipher is None:
                self._cipher = AESGCM(self._read_key())
            return self._cipher

    def _read_key(self) -> bytes:
        path = self._key_file
        if not path.exists():
            if self._kv.page(PARTITION, limit=1):
                raise ConfigError(
                    f"The key file {path} is missing, and the keys in the ref store can't be read without it."
                    " No new one was made; put the file back, or name its place with --key-file."
                )
            with making_a_file(path, "No key was made"):
                create_key_file(path)
        try:
            mode, key = path.stat().st_mode, path.read_bytes()
        except OSError as error:
            raise ConfigError(f"The key file {path} can't be read: {error.strerror}.") from error
        if mode & _OTHERS:
            raise ConfigError(
                f"The key file {path} may be read or written by others, so it was not used. Try: chmod 600 {path}"
            )
        if len(key) != _KEY_BYTES:
            raise ConfigError(
                f"The file {path} is not a key file of a lake: it has {len(key)} bytes, not {_KEY_BYTES}."
                " It was left as it is."
            )
        return key


def create_key_file(path: Path) -> None:
    """Make a key file for its owner alone, unless another process was quicker."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, secrets.token_bytes(_KEY_BYTES))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, path)  # whole or not at all, and never over another
    except FileExistsError:
        pass
    finally:
        draft.unlink()
