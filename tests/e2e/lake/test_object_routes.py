"""Objects over REST: every way in, every way out."""

from __future__ import annotations

import hashlib

import pytest


def test_object_comes_back_as_it_went_in(repo) -> None:
    """Bytes, checksum, type, metadata, time."""
    stats = repo.put(
        "dir/a b ü.txt",
        b"hello world",
        **{"Content-Type": "text/plain", "X-Lakefs-Meta-Foo-Bar": "Baz"},
    )
    assert stats["checksum"] == hashlib.md5(b"hello world").hexdigest()
    assert (stats["size_bytes"], stats["content_type"]) == (11, "text/plain")
    assert stats["metadata"] == {"foo-bar": "Baz"}
    assert isinstance(stats["mtime"], int)
    reply = repo.get("dir/a b ü.txt")
    assert (reply.status_code, reply.content) == (200, b"hello world")
    assert reply.headers["etag"] == f'"{stats["checksum"]}"'
    assert reply.headers["content-type"] == "text/plain"
    assert reply.headers["content-length"] == "11"
    assert reply.headers["last-modified"].endswith("GMT")
    query = {"path": "dir/a b ü.txt"}
    assert repo.ok("GET", "/refs/main/objects/stat", params=query) == stats
    bare = repo.ok("GET", "/refs/main/objects/stat", params=query | {"user_metadata": "false"})
    assert bare["metadata"] == {}


def test_form_upload_stores_its_content_part(repo) -> None:
    """As lakectl sends it; the part's type is kept."""
    files = {"content": ("f.csv", b"1,2\n", "text/csv")}
    reply = repo.send("POST", "/branches/main/objects", params={"path": "f"}, files=files)
    assert (reply.status_code, reply.json()["content_type"]) == (201, "text/csv")
    assert repo.get("f").content == b"1,2\n"
    other = {"other": ("f", b"x")}
    wrong = repo.send("POST", "/branches/main/objects", params={"path": "g"}, files=other)
    assert wrong.status_code == 400
    assert repo.get("g").status_code == 404


def test_large_object_streams_through(repo) -> None:
    """Many pieces in, many pieces out, of unknown length."""
    piece = bytes(range(256)) * 1024
    size = 40 * len(piece)
    reply = repo.send(
        "POST",
        "/branches/main/objects",
        params={"path": "big"},
        content=(piece for _ in range(40)),
    )
    assert reply.json()["size_bytes"] == size
    assert reply.json()["checksum"] == hashlib.md5(piece * 40).hexdigest()
    got = repo.get("big")
    assert got.headers["content-length"] == str(size)
    assert got.content == piece * 40
    middle = repo.get("big", Range=f"bytes={size // 2 - 5}-{size // 2 + 4}")
    assert middle.content == (piece * 40)[size // 2 - 5 : size // 2 + 5]


@pytest.mark.parametrize(
    ("header", "status", "content"),
    [
        ("bytes=0-3", 206, b"hell"),
        ("bytes=-3", 206, b"rld"),
        ("bytes=6-", 206, b"world"),
        ("bytes=0-999", 206, b"hello world"),
        ("bytes=11-", 416, None),
        ("bytes=3-1", 416, None),
        ("bytes=0-1,4-5", 416, None),
        ("lines=1", 400, None),
    ],
)
def test_ranges(repo, header: str, status: int, content: bytes | None) -> None:
    """GET and HEAD agree on what a range is."""
    repo.put("a", b"hello world")
    got = repo.get("a", Range=header)
    assert got.status_code == status
    head = repo.send("HEAD", "/refs/main/objects", params={"path": "a"}, headers={"Range": header})
    assert head.status_code == status
    if content is not None:
        assert got.content == content
        assert got.headers["content-range"] == head.headers["content-range"]
        assert head.headers["content-length"] == str(len(content))
    if header == "bytes=11-":
        assert got.headers["content-range"] == "bytes */11"


def test_head_and_conditional_get(repo) -> None:
    """HEAD has GET's headers and no body; a known ETag is 304."""
    stats = repo.put("a", b"hello")
    head = repo.send("HEAD", "/refs/main/objects", params={"path": "a"})
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == "5"
    assert head.headers["accept-ranges"] == "bytes"
    assert repo.send("HEAD", "/refs/main/objects", params={"path": "no"}).status_code == 404
    assert repo.get("a", **{"If-None-Match": f'"{stats["checksum"]}"'}).status_code == 304
    assert repo.get("a", **{"If-None-Match": '"other"'}).content == b"hello"


def test_hard_deleted_bytes_are_gone_and_the_commit_stays(repo) -> None:
    """410 for the bytes; stat, HEAD, listing and log go on as if nothing had happened."""
    address = repo.put("a")["physical_address"]
    commit = repo.commit()
    repo.bytes_of(address).unlink()
    for ref in ("main", commit["id"]):
        gone = repo.get("a", ref)
        assert (gone.status_code, gone.json()) == (410, {"message": "No data"})
        assert repo.get("a", ref, Range="bytes=0-1").status_code == 410
    assert repo.send("HEAD", "/refs/main/objects", params={"path": "a"}).status_code == 200
    assert repo.paths() == ["a"]
    repo.put("b")
    assert repo.commit()["parents"] == [commit["id"]]


def test_upload_if_absent(repo) -> None:
    """`If-None-Match: *` is 412 on a path that exists; other conditions are not supported."""
    repo.put("a", b"first", **{"If-None-Match": "*"})
    for header, value, status in (
        ("If-None-Match", "*", 412),
        ("If-None-Match", '"x"', 501),
        ("If-Match", '"x"', 501),
    ):
        reply = repo.send(
            "POST",
            "/branches/main/objects",
            params={"path": "a"},
            content=b"second",
            headers={header: value},
        )
        assert reply.status_code == status
    assert repo.get("a").content == b"first"


@pytest.mark.parametrize(
    ("branch", "query", "status"),
    [
        ("main", {}, 400),
        ("main", {"path": ""}, 400),
        ("main", {"path": "x" * 1025}, 400),
        ("nope", {"path": "x"}, 404),
    ],
)
def test_upload_to_nowhere(repo, branch: str, query: dict[str, str], status: int) -> None:
    """No path, too long a path, no branch."""
    reply = repo.send("POST", f"/branches/{branch}/objects", params=query, content=b"x")
    assert reply.status_code == status
    assert set(reply.json()) == {"message"}


def test_path_with_dots_is_a_name_like_any_other(repo) -> None:
    """Paths are keys: they never become file names."""
    for path in ("../../../../etc/passwd", "a/../b", "/lead", "a//b", ".", "_lakefs/dummy"):
        address = repo.put(path, path.encode())["physical_address"]
        assert repo.bytes_of(address).is_relative_to(repo.folder / "data")
        assert repo.get(path).content == path.encode()


def test_listing_folds_pages_and_skips(repo) -> None:
    """Delimiter, prefix, pages; common prefixes carry nothing but a name."""
    for path in ("a/1", "a/2", "b", "c/1"):
        repo.put(path)
    repo.commit()
    repo.put("a/0", **{"X-Lakefs-Meta-K": "v"})
    assert repo.paths() == ["a/0", "a/1", "a/2", "b", "c/1"]
    assert repo.paths("main@") == ["a/1", "a/2", "b", "c/1"]
    folded = repo.ok("GET", "/refs/main/objects/ls", params={"delimiter": "/"})["results"]
    assert [row["path"] for row in folded] == ["a/", "b", "c/"]
    assert folded[0] == {
        "path": "a/",
        "path_type": "common_prefix",
        "physical_address": "",
        "checksum": "",
        "mtime": 0,
    }
    page = repo.ok("GET", "/refs/main/objects/ls", params={"prefix": "a/", "amount": 1})
    assert page["results"][0]["metadata"] == {"k": "v"}
    assert page["pagination"] == {
        "has_more": True,
        "next_offset": "a/0",
        "results": 1,
        "max_per_page": 1000,
    }
    rest = repo.ok("GET", "/refs/main/objects/ls", params={"prefix": "a/", "after": "a/0"})
    assert [row["path"] for row in rest["results"]] == ["a/1", "a/2"]
    assert repo.send("GET", "/refs/nope/objects/ls").status_code == 404


def test_deleting_one_and_many(repo) -> None:
    """Absent paths are no errors; a batch has a bound."""
    for path in ("a", "b", "c"):
        repo.put(path)
    repo.commit()
    gone = repo.send("DELETE", "/branches/main/objects", params={"path": "a"})
    assert gone.status_code == 204
    absent = repo.send("DELETE", "/branches/main/objects", params={"path": "never"})
    assert absent.status_code == 204
    many = repo.ok("POST", "/branches/main/objects/delete", json={"paths": ["b", "never"]})
    assert many == {"errors": []}
    assert repo.paths() == ["c"]
    too_many = {"paths": ["x"] * 1001}
    assert repo.send("POST", "/branches/main/objects/delete", json=too_many).status_code == 400
    nowhere = repo.send("POST", "/branches/nope/objects/delete", json={"paths": ["x"]})
    assert nowhere.status_code == 404


def test_copies_within_a_branch_share_bytes_and_others_do_not(repo) -> None:
    """A staged object copied on its branch is shallow; a committed one, or one from elsewhere, is not."""
    staged = repo.put("a")

    def copy(**body: str) -> dict[str, object]:
        made: dict[str, object] = repo.ok(
            "POST", "/branches/main/objects/copy", params={"dest_path": "to"}, json=body
        )
        return made

    assert copy(src_path="a")["physical_address"] == staged["physical_address"]
    repo.commit()
    assert copy(src_path="a")["physical_address"] != staged["physical_address"]
    assert copy(src_path="a", src_ref="main~0")["checksum"] == staged["checksum"]
    assert repo.get("to").content == b"data"
    for body, status in (
        ({"src_path": "nope"}, 404),
        ({"src_path": "a", "src_ref": "nope"}, 404),
        ({"src_path": "a", "shallow": True}, 501),
        ({}, 400),
    ):
        query = {"dest_path": "x"}
        reply = repo.send("POST", "/branches/main/objects/copy", params=query, json=body)
        assert reply.status_code == status


def test_user_metadata_is_replaced(repo) -> None:
    """The bytes and their address stay."""
    before = repo.put("a", **{"X-Lakefs-Meta-Old": "1"})
    reply = repo.send(
        "PUT",
        "/branches/main/objects/stat/user_metadata",
        params={"path": "a"},
        json={"set": {"new": "2"}},
    )
    assert reply.status_code == 204
    after = repo.ok("GET", "/refs/main/objects/stat", params={"path": "a"})
    assert after["metadata"] == {"new": "2"}
    assert after["physical_address"] == before["physical_address"]


def test_presigned_urls_are_not_made(repo) -> None:
    """The configuration says so; asking anyway is a wrong request."""
    repo.put("a")
    query = {"path": "a", "presign": "true"}
    for path in ("/refs/main/objects", "/refs/main/objects/stat", "/branches/main/staging/backing"):
        assert repo.send("GET", path, params=query).status_code == 400
    pmpu = repo.send("POST", "/branches/main/staging/pmpu", params={"path": "a", "parts": 2})
    assert pmpu.status_code == 501


def test_small_questions(repo) -> None:
    """May I upload? Which storage class?"""
    repo.put("a")
    allowed = repo.send("GET", "/branches/main/objects/stage_allowed", params={"path": "a"})
    assert allowed.status_code == 204
    properties = repo.ok("GET", "/refs/main/objects/underlyingProperties", params={"path": "a"})
    assert properties == {"storage_class": None}
