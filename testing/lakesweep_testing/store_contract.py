"""What every object store must do alike: one suite, run by a test class per store.

A test class names the groups it takes part in and brings their fixtures: `store` (empty, with a root of its own) and
`put_object` (how objects get there), and for remote stores `store_without_container` and `store_denied`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionError,
    StorageDeniedError,
    UnsupportedStoreError,
)
from lakesweep.storage import (
    LISTING_SCHEMA,
    DeleteStatus,
    KeyRange,
    ObjectInfo,
    ObjectStore,
    ranges_after,
)

PutObject = Callable[[str, bytes], object]

# Plain keys that clients like to change on the way: each must come back as it went in.
AWKWARD_KEYS = (
    "awkward/a b",
    "awkward/a%20b",
    "awkward/a%2Fb",
    "awkward/a+b",
    "awkward/a&b<c>'d'\"e\"",
    "awkward/a=b?c#d;e:f@g",
    "awkward/~tilde*star!(paren)[bracket]{brace}|pipe^caret`tick",
    "awkward/ünïcödé/日本語/😀",
    "awkward/...",
    "awkward/.hidden",
    "awkward/" + "/".join(["d" * 90] * 11) + "/" + "x" * 14,  # 1,024 bytes
)


def keys_of(store: ObjectStore, prefix: str = "", **bounds: str | None) -> list[str]:
    """All keys under `prefix`, as listed."""
    return [
        key for batch in store.list(prefix, **bounds) for key in batch.column("key").to_pylist()
    ]


class ListingContract:
    """Listing, on any store that holds objects."""

    def test_listing_an_empty_place_gives_nothing(self, store: ObjectStore) -> None:
        """No objects is a result of its own, not an error."""
        assert keys_of(store) == []
        assert store.list_folder().folders == ()
        assert store.list_folder().objects.num_rows == 0

    def test_listing_tells_key_size_time_and_etag(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """A listed row says what `stat` says."""
        before = datetime.now(UTC) - timedelta(minutes=5)
        put_object("data/s/o", b"12345")
        (batch,) = store.list("data/")
        assert batch.schema == LISTING_SCHEMA
        (row,) = batch.to_pylist()
        assert (row["key"], row["size"], row["is_odd"]) == ("data/s/o", 5, False)
        assert before < row["last_modified"] < datetime.now(UTC) + timedelta(minutes=5)
        assert row["etag"] == store.stat("data/s/o").etag

    def test_keys_come_in_byte_order(self, store: ObjectStore, put_object: PutObject) -> None:
        """`/` sorts between `.` and `0`, in folders too, and capitals before small letters."""
        # No key is another's folder: local files and MinIO can't hold both.
        keys = ["a.b", "a/b.c", "a/b/c", "a0", "B", "z/1", "z/10", "z/2", "é", "ÿ"]
        for key in reversed(keys):
            put_object(key, b"x")
        assert keys_of(store) == sorted(keys, key=lambda key: key.encode())

    def test_a_prefix_is_text_not_a_folder(self, store: ObjectStore, put_object: PutObject) -> None:
        """`data/a` finds `data/ab` and `data/a/x`, and not `data/b`."""
        for key in ["data/a/x", "data/ab", "data/b", "dat"]:
            put_object(key, b"x")
        assert keys_of(store, "data/a") == ["data/a/x", "data/ab"]
        assert keys_of(store, "data/a/") == ["data/a/x"]
        assert keys_of(store, "data/none") == []

    def test_bounds_are_exclusive_below_and_inclusive_above(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """`start_after` leaves its key out, `end_at` takes it in; neither need exist."""
        for name in "abcdef":
            put_object(f"p/{name}", b"x")
        assert keys_of(store, "p/", start_after="p/b") == ["p/c", "p/d", "p/e", "p/f"]
        assert keys_of(store, "p/", end_at="p/b") == ["p/a", "p/b"]
        assert keys_of(store, "p/", start_after="p/aa", end_at="p/dd") == ["p/b", "p/c", "p/d"]

    def test_more_keys_than_a_page_are_all_listed(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """Paging loses no key and repeats none."""
        expected = [f"many/{number:05}" for number in range(1205)]
        for key in expected:
            put_object(key, b"")
        assert keys_of(store, "many/") == expected
        if not store.backend.is_key_ordered:
            return
        begin = [key for key in expected if key <= "many/00299"]
        ranges = ranges_after(KeyRange("many/"), begin[0], begin[-1], 4)
        assert len(ranges) == 4
        split = [
            key
            for one in ranges
            for key in keys_of(store, one.prefix, start_after=one.start_after, end_at=one.end_at)
        ]
        assert [*begin, *split] == expected

    def test_many_prefixes_are_listed_together(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """Each prefix gets its own keys and no other's; an empty one is no error."""
        for number in range(30):
            put_object(f"data/s{number % 3}/o{number}", b"x")
        found: dict[str, list[str]] = {}
        folders = [KeyRange(f"data/s{number}/") for number in range(4)]
        for folder, batch in store.list_ranges(folders):
            found.setdefault(folder.prefix, []).extend(batch.column("key").to_pylist())
        assert sorted(found) == ["data/s0/", "data/s1/", "data/s2/"]
        assert all(len(keys) == 10 and keys == sorted(keys) for keys in found.values())
        assert all(key.startswith(prefix) for prefix, keys in found.items() for key in keys)

    def test_a_folder_lists_one_level(self, store: ObjectStore, put_object: PutObject) -> None:
        """Folders end in "/", objects below them are not named."""
        for key in ["dummy", "data/s1/a", "data/s1/b", "data/s2/c", "data/loose", "_lakefs/x"]:
            put_object(key, b"x")
        top = store.list_folder()
        assert top.folders == ("_lakefs/", "data/")
        assert top.objects.column("key").to_pylist() == ["dummy"]
        data = store.list_folder("data/")
        assert data.folders == ("data/s1/", "data/s2/")
        assert data.objects.column("key").to_pylist() == ["data/loose"]
        assert store.list_folder("nowhere/").folders == ()

    def test_stopping_a_listing_early_is_allowed(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """Whoever has seen enough may go; nothing hangs."""
        put_object("a/b", b"x")
        next(iter(store.list()))
        assert store.first_key() == "a/b"
        assert store.first_key("zzz") is None

    def test_a_page_begins_after_a_key(self, store: ObjectStore, put_object: PutObject) -> None:
        """In whatever order the store lists, nothing up to that key is on it, and nothing outside the prefix."""
        for key in ["data/a", "data/b", "data/c", "data/d", "other/a"]:
            put_object(key, b"x")
        page = store.list_page("data/", start_after="data/b")
        assert page is not None
        assert sorted(page.column("key").to_pylist()) == ["data/c", "data/d"]
        assert store.list_page("data/", start_after="data/d") is None


class ReadingContract:
    """Reading and looking up."""

    def test_awkward_keys_survive_list_read_and_delete(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """Spaces, percent signs, plus signs, XML's own characters, unicode and 1,024 bytes stay what they are."""
        base = len(store.root.key.encode()) + 1
        keys = [
            key if len(key) < 1000 or store.root.kind in ("local", "mem") else key[:-base]
            for key in AWKWARD_KEYS
        ]
        for number, key in enumerate(keys):
            put_object(key, b"%d" % number)
        assert keys_of(store, "awkward/") == sorted(keys, key=lambda key: key.encode())
        assert [data for _, data in store.read_many(keys)] == [b"%d" % n for n in range(len(keys))]
        assert [info.size for _, info in store.stat_many(keys) if info] == [
            len(str(n)) for n in range(len(keys))
        ]
        outcomes = store.delete_many(keys)
        assert [outcome.key for outcome in outcomes] == keys
        assert {outcome.status for outcome in outcomes} == {DeleteStatus.GONE}
        assert keys_of(store, "awkward/") == []

    def test_ranges_end_where_the_object_ends(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """A range gives what there is of it."""
        put_object("o", b"0123456789")
        assert store.read_range("o", 2, 3) == b"234"
        assert store.read_range("o", 8, 100) == b"89"
        assert store.read_range("o", 10, 5) == b""
        assert store.read_range("o", 3, 0) == b""
        assert b"".join(store.read_stream("o")) == b"0123456789"

    def test_what_is_not_there_is_not_found(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """A missing object is an error for one, None among many."""
        put_object("there", b"x")
        for action in (store.read, store.stat):
            with pytest.raises(ObjectNotFoundError):
                action("missing")
        with pytest.raises(ObjectNotFoundError):
            store.read_range("missing", 0, 1)
        found = dict(store.stat_many(["there", "missing"]))
        assert found["missing"] is None
        assert found["there"] is not None

    def test_odd_keys_are_refused(self, store: ObjectStore) -> None:
        """A key that could turn into another is not asked for."""
        for key in ["a//b", "/a", "a/", "a/./b", "a/../b", "a\nb", ""]:
            with pytest.raises(UnsupportedStoreError):
                store.read(key)
            with pytest.raises(UnsupportedStoreError):
                store.write(key, b"")


class DeletingContract:
    """Bulk deletion."""

    def test_each_key_has_one_outcome_in_order(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """Outcomes stand where their keys stood, repeated keys included; others stay."""
        for key in ["a", "b", "keep"]:
            put_object(key, b"x")
        outcomes = store.delete_many(["b", "a", "b"])
        assert [(o.key, o.status) for o in outcomes] == [
            ("b", DeleteStatus.GONE),
            ("a", DeleteStatus.GONE),
            ("b", DeleteStatus.GONE),
        ]
        assert keys_of(store) == ["keep"]
        assert not store.delete_many([])

    def test_an_absent_key_is_told_where_the_store_can(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """S3 says the same of absent and deleted keys; the others can tell."""
        put_object("there", b"x")
        (outcome,) = store.delete_many(["never"])
        told = DeleteStatus.GONE if store.root.kind == "s3" else DeleteStatus.ALREADY_ABSENT
        assert outcome.status is told
        there, never = store.delete_many(["there", "never"])
        assert there.status is DeleteStatus.GONE
        assert never.status is told

    def test_odd_keys_are_never_deleted(self, store: ObjectStore, put_object: PutObject) -> None:
        """`n/x/` must not take `n/x` with it."""
        put_object("n/x", b"x")
        odd = ["n/x/", "n//x", "/n/x", "n/./x", "n/../n/x", "n/x\n"]
        outcomes = store.delete_many([*odd, "absent"])
        assert {outcome.status for outcome in outcomes[:-1]} == {DeleteStatus.FAILED}
        assert all(outcome.detail for outcome in outcomes[:-1])
        assert keys_of(store) == ["n/x"]

    def test_more_keys_than_a_batch_are_all_deleted(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """Batches are the store's affair."""
        keys = [f"data/s{number % 3}/{number}" for number in range(1100)]
        for key in keys:
            put_object(key, b"")
        outcomes = store.delete_many(keys)
        assert [outcome.key for outcome in outcomes] == keys
        assert {outcome.status for outcome in outcomes} == {DeleteStatus.GONE}
        assert keys_of(store) == []

    def test_an_expected_object_is_deleted_and_another_is_kept(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """What is there must be what was listed; what was written anew since is kept, and what is gone is told."""
        for key in ["same", "anew", "gone", "unlisted"]:
            put_object(key, b"first")
        listed = {
            row["key"]: ObjectInfo(row["key"], row["size"], row["last_modified"], row["etag"])
            for batch in store.list()
            for row in batch.to_pylist()
            if row["key"] != "unlisted"
        }
        put_object("anew", b"another")
        store.delete_many(["gone"])
        outcomes = store.delete_many(["same", "anew", "gone", "unlisted"], expected=listed)
        assert [outcome.status for outcome in outcomes] == [
            DeleteStatus.GONE,
            DeleteStatus.CHANGED,
            DeleteStatus.ALREADY_ABSENT,
            DeleteStatus.GONE,
        ]
        assert keys_of(store) == ["anew"]
        assert store.read("anew") == b"another"

    def test_no_time_left_deletes_nothing(self, store: ObjectStore, put_object: PutObject) -> None:
        """Where deleting is not allowed any more, nothing is sent, whether or not the object is looked up first."""
        put_object("a", b"x")
        for expected in (None, {"a": store.stat("a")}):
            (outcome,) = store.delete_many(["a"], seconds_left=lambda: 0.0, expected=expected)
            assert outcome.status is DeleteStatus.NOT_TRIED
            assert outcome.detail
        assert keys_of(store) == ["a"]


class WritingContract:
    """Writing and copying."""

    def test_a_write_is_read_back_and_described(self, store: ObjectStore) -> None:
        """What `write` returns is what `stat` says."""
        written = store.write("a/b", b"first")
        assert store.read("a/b") == b"first"
        assert (written.key, written.size) == ("a/b", 5)
        assert written == store.stat("a/b")
        assert store.write("a/b", b"").size == 0
        assert store.read("a/b") == b""

    def test_create_refuses_what_exists(self, store: ObjectStore) -> None:
        """The second creator is told, and the first one's bytes stay."""
        store.write("lease", b"mine", create=True)
        with pytest.raises(ObjectExistsError):
            store.write("lease", b"yours", create=True)
        assert store.read("lease") == b"mine"

    def test_if_match_writes_over_that_version_only(self, store: ObjectStore) -> None:
        """A stale etag changes nothing."""
        first = store.write("lease", b"1")
        assert first.etag
        second = store.write("lease", b"2", if_match=first.etag)
        assert second.etag != first.etag
        with pytest.raises(PreconditionError):
            store.write("lease", b"3", if_match=first.etag)
        with pytest.raises(PreconditionError):
            store.write("absent", b"3", if_match=first.etag)
        assert store.read("lease") == b"2"
        assert keys_of(store) == ["lease"]

    def test_streams_of_any_size_are_written(self, store: ObjectStore) -> None:
        """None, one and many chunks give the same bytes back."""
        chunks = [bytes([number]) * 1_500_000 for number in range(12)]
        written = store.write_stream("big", iter(chunks))
        assert written.size == 18_000_000
        assert store.read("big") == b"".join(chunks)
        assert store.write_stream("none", iter([])).size == 0
        assert store.read("none") == b""

    def test_a_stream_that_fails_leaves_nothing(self, store: ObjectStore) -> None:
        """Half an object is no object."""

        def failing() -> object:
            yield b"x" * 1000
            raise RuntimeError("the source broke")

        with pytest.raises(Exception, match="the source broke"):
            store.write_stream("half", failing())  # type: ignore[arg-type]
        assert keys_of(store) == []

    def test_copies_are_whole_and_independent(self, store: ObjectStore) -> None:
        """A copy outlives its source."""
        store.write("from/a b+%", b"bytes")
        store.copy("from/a b+%", "to/é")
        store.delete_many(["from/a b+%"])
        assert store.read("to/é") == b"bytes"
        with pytest.raises(ObjectNotFoundError):
            store.copy("from/a b+%", "to/other")

    def test_copies_from_another_kind_of_store_are_streamed(
        self, store: ObjectStore, other_store: ObjectStore
    ) -> None:
        """Where the server can't copy, the client does."""
        other_store.write("a", b"bytes" * 1000)
        store.copy_from(other_store, "a", "b")
        assert store.read("b") == b"bytes" * 1000
        with pytest.raises(ObjectNotFoundError):
            store.copy_from(other_store, "missing", "c")
        assert keys_of(store) == ["b"]


class RefusalContract:
    """Stores that answer no."""

    def test_a_missing_container_is_an_error(self, store_without_container: ObjectStore) -> None:
        """It is never taken for an empty one."""
        store = store_without_container
        with pytest.raises(ObjectNotFoundError):
            keys_of(store)
        with pytest.raises(ObjectNotFoundError):
            store.list_folder()
        with pytest.raises(ObjectNotFoundError):
            store.read("x")

    def test_deleting_in_a_missing_container_fails(
        self, store_without_container: ObjectStore
    ) -> None:
        """A key in no container is neither gone nor already absent: the name is wrong."""
        for keys in (["x"], ["x", "y"]):
            outcomes = store_without_container.delete_many(keys)
            assert [outcome.status for outcome in outcomes] == [DeleteStatus.FAILED] * len(keys)
            assert all(outcome.detail for outcome in outcomes)


class DenialContract:
    """Credentials that are not accepted."""

    def test_denied_credentials_are_told(self, store_denied: ObjectStore) -> None:
        """Every operation says so, and says no secret."""
        for action in (
            lambda: keys_of(store_denied),
            lambda: store_denied.list_folder(),
            lambda: store_denied.read("x"),
            lambda: store_denied.stat("x"),
            lambda: store_denied.write("x", b""),
            lambda: list(store_denied.stat_many(["x"])),
        ):
            with pytest.raises(StorageDeniedError) as caught:
                action()
            for secret in store_denied.options.secrets():
                assert secret not in str(caught.value)

    def test_denied_deletes_are_told_for_each_key(self, store_denied: ObjectStore) -> None:
        """Denied is an outcome, not an end."""
        for keys in (["x"], ["x", "y", "z"]):
            outcomes = store_denied.delete_many(keys)
            assert [(o.key, o.status) for o in outcomes] == [(k, DeleteStatus.DENIED) for k in keys]


class FullContract(ListingContract, ReadingContract, DeletingContract, WritingContract):
    """All that a store we may write to must do."""
