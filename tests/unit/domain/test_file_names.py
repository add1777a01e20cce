"""Which spellings are one place, and which are refused."""

from __future__ import annotations

import pytest

from lakesweep.domain.file_names import fold, is_below
from lakesweep.errors import FormatError

SPELLINGS = {
    "s3://lake/t/data/a b": [
        "s3://lake/t/data/a b",
        "s3a://lake/t/data/a b",
        "s3n://lake/t/data/a b",
        "S3A://LAKE/t/data/a%20b",
        "s3://lake//t///data/./a%2520b/",
        "s3:/lake/t/data/a b",
        "s3:///lake/t/data/a b",
        "s3n://KEY:SECRET@lake/t/data/a b",
        "s3://lake/t%2Fdata/a b",
    ],
    "file:///lake/t/x": [
        "/lake/t/x",
        "//lake/t/x",
        "file:/lake/t/x",
        "file:///lake/t/x",
        "file:////lake/t/x",
        "FILE://LocalHost/lake/./t//x",
        "file:///l%61ke/t/x/",
    ],
    "abfss://c@acct.dfs.core.windows.net/t/x": [
        "abfs://c@acct.dfs.core.windows.net/t/x",
        "abfss://C@acct.blob.core.windows.net/t/x",
        "wasb://c@ACCT.blob.core.windows.net//t/x",
        "wasbs://c@acct.dfs.core.windows.net/t/x",
        "https://acct.blob.core.windows.net/c/t/x",
        "http://acct.dfs.core.windows.net/c/t//x",
    ],
    "abfss://c@acct.z5.dfs.storage.azure.net/x": [
        "abfss://c@acct.z5.dfs.storage.azure.net/x",
        "https://acct.z5.blob.storage.azure.net/c/x",
    ],
    "abfss://c@acct.dfs.store.example/x": [
        "abfs://c@acct.dfs.store.example/x",
        "wasb://c@acct.blob.store.example/x",
    ],
    "gs://lake/x": ["gs://lake/x", "GS://lake//x", "gcs://lake/x"],
    "hdfs://node:8020/x": ["hdfs://Node:8020/x", "hdfs://node:8020//x/."],
    "hdfs:///x": ["hdfs:///x", "hdfs:/x"],
    "https://127.0.0.1:10000/acct/c/x": [
        "http://127.0.0.1:10000/acct/c/x",
        "https://127.0.0.1:10000/acct/c/x/",
    ],
    "s3://lake": ["s3a://lake", "s3://lake/", "s3://lake/."],
}


@pytest.mark.parametrize(
    ("folded", "spelling"), [(name, one) for name, all_ in SPELLINGS.items() for one in all_]
)
def test_every_spelling_of_a_place_folds_to_one_name(folded: str, spelling: str) -> None:
    """Also the folded name itself."""
    assert fold(spelling) == folded
    assert fold(folded) == folded


@pytest.mark.parametrize(
    "name",
    [
        "",
        "data/x",
        "./x",
        "../x",
        "s3:lake/x",
        "s3://",
        "s3:///",
        "s3://key@/x",
        "file:x",
        "file://",
        "file:///",
        "file://host/x",
        "/a/../b",
        "s3://lake/a/..",
        "s3://lake/a/%2e%2E/b",
        "s3://lake/a%252F..%252Fb",
        "abfss://c/x",
        "abfss://@acct.dfs.core.windows.net/x",
        "abfss://c@/x",
        "1s3://lake/x",
        "s3://lake/\ud800",
        "s3://lake/" + "x" * 70_000,
    ],
)
def test_a_name_that_tells_no_place_is_refused(name: str) -> None:
    """A guess could part a live file from its listing."""
    with pytest.raises(FormatError) as caught:
        fold(name)
    assert caught.value.kind == "bad-file-name"


def test_different_places_keep_different_names() -> None:
    """Keys are case-sensitive; stores, buckets and accounts are told apart."""
    names = [
        "s3://lake/a",
        "s3://lake/A",
        "s3://lake2/a",
        "gs://lake/a",
        "/lake/a",
        "abfss://lake@one.dfs.core.windows.net/a",
        "abfss://lake@two.dfs.core.windows.net/a",
        "abfss://lake@one.dfs.core.chinacloudapi.cn/a",
        "s3://lake/a?x",
        "s3://lake/a#x",
    ]
    assert len({fold(name) for name in names}) == len(names)


def test_bytes_that_are_no_text_still_have_a_name() -> None:
    """They merge with one another, which keeps; a character spelled in bytes is that character."""
    assert fold("s3://lake/%FF") == "s3://lake/\ufffd"
    assert fold("s3://lake/%C3%A9") == fold("s3://lake/%25C3%25A9") == "s3://lake/é"


def test_messages_hold_no_secret() -> None:
    """Neither a signature in a query nor a password before the bucket."""
    for name in ("s3n://KEY:SECRET@lake/../x", "abfss://c/x?sig=SECRET"):
        with pytest.raises(FormatError) as caught:
            fold(name)
        assert "SECRET" not in str(caught.value)


def test_below_means_whole_segments() -> None:
    """A folder does not own its sibling with a longer name."""
    base = fold("s3a://lake/t/")
    assert is_below(fold("s3://lake/t/data/x"), base)
    assert is_below(base, base)
    assert not is_below(fold("s3://lake/t2/x"), base)
    assert not is_below(fold("s3://lake"), base)
    assert is_below(fold("s3://lake/t"), fold("s3://lake"))
