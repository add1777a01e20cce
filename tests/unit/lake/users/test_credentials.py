"""Keys of users: given, limited, rotated and revoked, in one process and seen at once in another."""

from __future__ import annotations

import pytest

from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import ConflictError, InvalidRequestError, MissingError
from lakesweep.lake.users.credentials import CredentialStore
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def lake() -> LakeRepo:
    return LakeRepo()


def store(lake: LakeRepo) -> CredentialStore:
    """Another process's view of the keys."""
    return CredentialStore(LakeContext(lake.kv, lake.settings, lake.clock))


def test_added_key_is_found_with_its_rights(lake: LakeRepo) -> None:
    """A server that was already running finds it, too."""
    server = store(lake)
    first = server.setup_first_user("admin", None, None)
    assert server.find("AKIANEW") is None
    added = store(lake).add("ana", is_read_only=True, repositories=["sales", "hr-data"])
    assert server.find(added.access_key_id) == added
    assert (added.is_read_only, added.repositories) == (True, frozenset({"sales", "hr-data"}))
    assert (first.is_read_only, first.repositories) == (False, None)
    assert [key.username for key in server.list()] == ["admin", "ana"]


def test_limits_of_nothing_reach_nothing(lake: LakeRepo) -> None:
    """An empty list of repositories is not "all"."""
    added = store(lake).add("ana", repositories=[])
    found = store(lake).find(added.access_key_id)
    assert found is not None
    assert not found.reaches("sales")


def test_revoked_key_is_gone_at_once(lake: LakeRepo) -> None:
    """Also from a server that had just looked it up."""
    server = store(lake)
    added = server.add("ana")
    assert server.find(added.access_key_id) is not None
    assert store(lake).revoke("ana") == added
    assert server.find(added.access_key_id) is None


def test_rotated_key_keeps_the_rights_and_ends_the_old_one(lake: LakeRepo) -> None:
    """Id and secret are new."""
    old = store(lake).add("ana", is_read_only=True, repositories=["sales"])
    new = store(lake).rotate("ana")
    assert {old.access_key_id, old.secret_access_key}.isdisjoint(
        {new.access_key_id, new.secret_access_key}
    )
    assert (new.is_read_only, new.repositories) == (True, frozenset({"sales"}))
    assert store(lake).find(old.access_key_id) is None
    assert store(lake).find(new.access_key_id) == new


def test_one_name_has_one_key(lake: LakeRepo) -> None:
    """A second `add` changes nothing; a name without a key can be neither revoked nor rotated."""
    added = store(lake).add("ana")
    with pytest.raises(ConflictError, match="rotate"):
        store(lake).add("ana", is_read_only=True)
    assert store(lake).list() == [added]
    for change in (store(lake).revoke, store(lake).rotate):
        with pytest.raises(MissingError, match="'bob'"):
            change("bob")


@pytest.mark.parametrize("name", ["", "a b", "-x", "a\nb", "é", "x" * 129])
def test_odd_names_are_refused(lake: LakeRepo, name: str) -> None:
    """A name goes into commits, logs and tables."""
    with pytest.raises(InvalidRequestError):
        store(lake).add(name)
    assert store(lake).list() == []


def test_repository_names_are_checked(lake: LakeRepo) -> None:
    """A key for a name that no repository can have would be a mistake that nobody notices."""
    with pytest.raises(InvalidRequestError):
        store(lake).add("ana", repositories=["lakefs://sales"])


def test_lake_whose_last_key_was_revoked_stays_set_up(lake: LakeRepo) -> None:
    """Else a stranger could become its first user."""
    store(lake).setup_first_user("admin", None, None)
    store(lake).revoke("admin")
    assert store(lake).is_initialized()
    with pytest.raises(ConflictError):
        store(lake).setup_first_user("mallory", None, None)


def test_change_of_another_process_in_between_is_kept(lake: LakeRepo) -> None:
    """Adding is a compare-and-set: what came between reading and writing is read again."""
    mine, set_if = store(lake), lake.kv.set_if
    rivals = iter(["bob"])

    def interrupted(partition: str, key: bytes, value: bytes, expected: bytes | None) -> bool:
        for rival in rivals:
            store(lake).add(rival)
        return set_if(partition, key, value, expected)

    lake.kv.set_if = interrupted  # type: ignore[method-assign]
    mine.add("ana")
    assert [key.username for key in mine.list()] == ["ana", "bob"]
