"""Repositories, their names and namespaces; users."""

from __future__ import annotations

import itertools
import stat
from pathlib import Path

import pytest

from lakesweep.errors import ConfigError, ObjectNotFoundError
from lakesweep.lake.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidRequestError,
    LakeError,
    MissingError,
)
from lakesweep.lake.kv.sql import open_sql_store
from lakesweep.storage import ObjectStore
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo(namespace=f"mem://repositories-{next(_numbers)}/team/ns").create()


_numbers = itertools.count()


def test_new_repository_has_a_first_commit_and_a_marker() -> None:
    """As lakeFS makes it: an empty commit by nobody, the default branch, `_lakefs/dummy`."""
    repo = LakeRepo()
    created = repo.lake.repositories.create(repo.id, repo.namespace, default_branch="trunk")
    assert repo.record == created
    first = repo.lake.refs.commit(repo.record, "trunk")
    assert (first.message, first.committer, first.parents) == ("Repository created", "", ())
    assert (first.meta_range_id, first.generation, first.version) == ("", 1, 1)
    assert repo.store.read("_lakefs/dummy")


@pytest.mark.parametrize("name", ["", "ab", "-abc", "Abc", "a_c", "a" * 64, "a/b", "äbc"])
def test_bad_names_are_refused(name: str) -> None:
    """3 to 63 of a-z, 0-9 and '-'."""
    with pytest.raises(InvalidRequestError):
        LakeRepo().lake.repositories.create(name, "mem://names/ns")


@pytest.mark.parametrize(
    "namespace",
    [
        "",
        "mem://",
        "file:///tmp/x",
        "ftp://x",
        "local://../x",
        "local://a/../../x",
        "local:///etc",
        "local://",
        "s3://",
        "s3://bucket//x",
    ],
)
def test_bad_namespaces_are_refused(namespace: str, tmp_path: Path) -> None:
    """Nothing that is no store's, and no folder outside the server's own."""
    with pytest.raises((InvalidRequestError, ForbiddenError)):
        LakeRepo(data_dir=tmp_path).lake.repositories.create("repo", namespace)


@pytest.mark.parametrize(
    "other", ["team/ns", "team/ns/", "team", "", "team/ns/in", "team/ns/data/x"]
)
def test_namespaces_of_two_repositories_never_overlap(repo: LakeRepo, other: str) -> None:
    """Neither the same, nor inside, nor around another's."""
    container = repo.namespace.removesuffix("team/ns")
    with pytest.raises(InvalidRequestError):
        repo.lake.repositories.create("other", container + other)
    with pytest.raises(MissingError):
        repo.lake.repositories.get("other")
    repo.lake.repositories.create("other", container + "team/ns2")


def test_namespaces_that_meet_through_a_link_on_disk_overlap(tmp_path: Path) -> None:
    """Two names of one folder are one namespace."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    repo = LakeRepo(data_dir=tmp_path, namespace="local://real/ns").create()
    with pytest.raises(InvalidRequestError) as refused:
        repo.lake.repositories.create("other", "local://link/ns/inside")
    assert refused.value.kind == "namespace-in-use"


def test_namespaces_overlap_in_a_folder_that_was_moved(tmp_path: Path) -> None:
    """A copy of a lake that was brought back elsewhere knows its namespaces, for new repositories and for imports."""
    repo = LakeRepo(data_dir=tmp_path / "old", namespace="local://ns").create()
    moved = LakeRepo(data_dir=tmp_path / "new", kv=repo.kv)
    with pytest.raises(InvalidRequestError) as refused:
        moved.lake.repositories.create("other", "local://ns/inside")
    assert refused.value.kind == "namespace-in-use"


def test_namespace_marked_by_another_server_is_in_use() -> None:
    """The marker in the store counts, today's and the old one."""
    for key in ("_lakefs/dummy", "dummy"):
        repo = LakeRepo()
        repo.store.write(key, b"somebody's")
        with pytest.raises(InvalidRequestError) as refused:
            repo.create()
        assert refused.value.kind == "namespace-in-use"
        assert repo.store.read(key) == b"somebody's"
        repo.store.delete_many([key])
        repo.create()


def test_marker_written_by_another_server_meanwhile_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two servers with ref stores of their own look at the same time: create-if-absent tells who came first."""
    repo = LakeRepo()
    store = repo.store
    answers = iter([ObjectNotFoundError("not yet"), ObjectNotFoundError("not yet")])
    read = type(store).read

    def read_too_early(self: ObjectStore, key: str) -> bytes:
        error = next(answers, None)
        if error is not None:
            self.write("_lakefs/dummy", b"somebody's")
            raise error
        return read(self, key)

    monkeypatch.setattr(type(store), "read", read_too_early)
    with pytest.raises(InvalidRequestError) as refused:
        repo.create()
    assert refused.value.kind == "namespace-in-use"
    assert store.read("_lakefs/dummy") == b"somebody's"


def test_name_is_taken_once(repo: LakeRepo) -> None:
    """A second repository of the name is refused, and leaves no claim on its namespace."""
    with pytest.raises(ConflictError):
        repo.lake.repositories.create(repo.id, f"{repo.namespace}-2")
    repo.lake.repositories.create("two", f"{repo.namespace}-2")


def test_deleted_repository_keeps_its_objects(repo: LakeRepo) -> None:
    """The records go; the namespace stays marked; the name is free for another namespace."""
    repo.put("a", b"x")
    address = repo.address("a")
    repo.lake.repositories.delete(repo.id)
    with pytest.raises(MissingError):
        repo.lake.repositories.get(repo.id)
    assert repo.store.read(address) == b"x"
    with pytest.raises(InvalidRequestError):
        repo.create()
    repo.lake.repositories.create(repo.id, f"{repo.namespace}-3")
    assert repo.paths() == []


def test_repository_in_deletion_is_gone(repo: LakeRepo) -> None:
    """Half deleted is not there for anybody."""
    repositories = repo.lake.repositories
    kv = repo.kv
    real = kv.delete_partition
    kv.delete_partition = lambda _: (_ for _ in ()).throw(RuntimeError)  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        repo.lake.repositories.delete(repo.id)
    with pytest.raises(GoneError):
        repo.put("a")
    assert list(repositories.all()) == []
    kv.delete_partition = real  # type: ignore[method-assign]
    repo.lake.repositories.delete(repo.id)
    with pytest.raises(MissingError):
        repo.put("a")


def test_read_only_repository_takes_no_writes() -> None:
    """Unless forced."""
    repo = LakeRepo()
    repo.lake.repositories.create(repo.id, repo.namespace, is_read_only=True)
    for call in (
        lambda: repo.put("a"),
        lambda: repo.commit(),
        lambda: repo.lake.writable(repo.id),
        lambda: repo.lake.repositories.delete(repo.id),
    ):
        with pytest.raises(ForbiddenError):
            call()
    repo.lake.objects.upload(repo.lake.writable(repo.id, force=True), "main", "a", [b"x"])
    assert repo.paths() == ["a"]


def test_repositories_are_listed_in_pages(repo: LakeRepo) -> None:
    """By prefix and by part of the name."""
    for name in ("abc-1", "abc-2", "xyz"):
        repo.lake.repositories.create(name, f"{repo.namespace}-{name}")
    page = repo.lake.repositories.page(prefix="abc", amount=1)
    assert ([r.id for r in page.results], page.has_more) == (["abc-1"], True)
    rest = repo.lake.repositories.page(prefix="abc", after=page.next_offset)
    assert [r.id for r in rest.results] == ["abc-2"]
    assert [r.id for r in repo.lake.repositories.page(search="-").results] == ["abc-1", "abc-2"]


def test_first_user_is_set_up_once(repo: LakeRepo) -> None:
    """With keys of its own unless given; a secret never shows in a repr."""
    assert not repo.lake.credentials.is_initialized()
    for wrong in ({"username": ""}, {"username": "a", "access_key_id": "k"}):
        with pytest.raises(InvalidRequestError):
            repo.lake.credentials.setup_first_user(**wrong)
    made = repo.lake.credentials.setup_first_user("admin")
    assert repo.lake.credentials.find(made.access_key_id) == made
    assert repo.lake.credentials.find("other") is None
    assert made.secret_access_key not in repr(made)
    with pytest.raises(ConflictError):
        repo.server().credentials.setup_first_user(
            "again", access_key_id="k", secret_access_key="s"
        )


def test_servers_share_their_signing_secrets(repo: LakeRepo) -> None:
    """One secret for one purpose, whichever process asks."""
    mine = repo.lake.credentials.signing_secret("login")
    assert len(mine) >= 32
    assert repo.server().credentials.signing_secret("login") == mine
    assert repo.lake.credentials.signing_secret("other") != mine


def test_sqlite_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """Secrets lie in it, and in the files SQLite puts beside it."""
    path = tmp_path / "new" / "refs.db"
    kv = open_sql_store(f"sqlite:///{path}")
    kv.set("p", b"k", b"v")
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    kv.close()


@pytest.mark.parametrize("url", ["nonsense", "mysql://x/y", "sqlite://", "sqlite:///:memory:"])
def test_unusable_ref_store_is_a_configuration_error(url: str) -> None:
    """Only SQLite files and PostgreSQL keep what processes share."""
    with pytest.raises(ConfigError):
        open_sql_store(url)


def test_unreachable_ref_store_says_so_without_its_password() -> None:
    """The message names the store, never the secret."""
    with pytest.raises(LakeError) as failed:
        open_sql_store("postgresql://user:hunter2@127.0.0.1:1/none?connect_timeout=2")
    assert failed.value.kind == "ref-store"
    assert "hunter2" not in str(failed.value)
