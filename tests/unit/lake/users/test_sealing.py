"""Secrets in the ref store: unreadable without the key file, and bound to their place."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lakesweep.errors import ConfigError
from lakesweep.lake.context import LakeContext
from lakesweep.lake.kv.interface import KeyValueStore
from lakesweep.lake.users.sealing import PARTITION, SealedRecords
from lakesweep.lake.values import LakeSettings
from lakesweep_testing.lakes import SetClock
from lakesweep_testing.memory_kv import MemoryKeyValueStore


@pytest.fixture
def kv() -> KeyValueStore:
    return MemoryKeyValueStore()


def records(kv: KeyValueStore, folder: Path, key_file: Path | None = None) -> SealedRecords:
    return SealedRecords(LakeContext(kv, LakeSettings(folder, key_file=key_file), SetClock()))


def reopened(kv: KeyValueStore, folder: Path, key: bytes = b"k") -> bytes:
    sealed = kv.get(PARTITION, key)
    assert sealed is not None
    return records(kv, folder).open(key, sealed)


def test_what_is_stored_does_not_show_the_secret(kv: KeyValueStore, tmp_path: Path) -> None:
    """Whoever reads the ref store alone reads no secret; with the key file it is read back."""
    assert records(kv, tmp_path).set_if(b"k", b"the secret", None)
    assert b"the secret" not in (kv.get(PARTITION, b"k") or b"")
    assert reopened(kv, tmp_path) == b"the secret"
    assert not records(kv, tmp_path).set_if(b"k", b"another", None)


def test_key_file_is_its_owners_alone(kv: KeyValueStore, tmp_path: Path) -> None:
    """Made with 0600, whatever the umask; one that others may read is not used."""
    records(kv, tmp_path).set_if(b"k", b"x", None)
    path = tmp_path / "secrets.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["secrets.key"]
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        reopened(kv, tmp_path)


def test_missing_key_file_is_not_made_anew(kv: KeyValueStore, tmp_path: Path) -> None:
    """A new one would open nothing, and hide that the old one is needed."""
    records(kv, tmp_path).set_if(b"k", b"x", None)
    (tmp_path / "secrets.key").unlink()
    with pytest.raises(ConfigError, match="missing"):
        reopened(kv, tmp_path)
    assert not (tmp_path / "secrets.key").exists()


def test_another_key_file_opens_nothing(kv: KeyValueStore, tmp_path: Path) -> None:
    """A server with a key file of its own says what is wrong instead of refusing every user."""
    records(kv, tmp_path).set_if(b"k", b"x", None)
    (tmp_path / "secrets.key").write_bytes(bytes(32))
    with pytest.raises(ConfigError, match="same key file"):
        reopened(kv, tmp_path)


def test_other_files_are_no_key_files(kv: KeyValueStore, tmp_path: Path) -> None:
    """A file that was named by mistake is neither used nor overwritten."""
    path = tmp_path / "notes"
    path.write_bytes(b"notes")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="not a key file"):
        records(kv, tmp_path, path).set_if(b"k", b"x", None)
    assert path.read_bytes() == b"notes"


def test_record_can_not_be_moved_to_another_place(kv: KeyValueStore, tmp_path: Path) -> None:
    """Whoever can write the ref store can't put one secret in another's place."""
    records(kv, tmp_path).set_if(b"k", b"x", None)
    kv.set(PARTITION, b"other", kv.get(PARTITION, b"k") or b"")
    with pytest.raises(ConfigError):
        reopened(kv, tmp_path, b"other")
