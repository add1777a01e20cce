"""Places in object stores: every spelling means one place, and a strange one means none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError

# Segments of keys as they are written: no slash inside, not empty, not "." or "..".
SEGMENT = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=8
).filter(lambda text: text not in (".", ".."))
KEY = st.lists(SEGMENT, max_size=4).map("/".join)
# Azure's own form is a URL, where "?" and "#" would begin something else.
URL_KEY = KEY.filter(lambda key: "?" not in key and "#" not in key)
BUCKET = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789._-", min_size=3, max_size=10)
ACCOUNT = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=3, max_size=10)

AZURE = Location("azure", "cont", "a/b", account="acct")
AZURITE = Location(
    "azure", "cont", "a/b", "devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1"
)
CHINA = Location("azure", "cont", "a/b", "acct", "https://acct.blob.core.chinacloudapi.cn")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://b/k", Location("s3", "b", "k")),
        ("s3a://b/k", Location("s3", "b", "k")),
        ("s3n://b/k/", Location("s3", "b", "k")),
        ("S3://Bucket_with.odd-Name/K", Location("s3", "Bucket_with.odd-Name", "K")),
        ("s3://b", Location("s3", "b", "")),
        ("s3://b/", Location("s3", "b", "")),
        ("s3://b/a%20b c+d?e#f/é", Location("s3", "b", "a%20b c+d?e#f/é")),
        ("s3://b/a//b", Location("s3", "b", "a//b")),
        ("gs://b/k/l", Location("gs", "b", "k/l")),
        ("https://acct.blob.core.windows.net/cont/a/b", AZURE),
        ("http://ACCT.blob.core.windows.net/cont/a/b/", AZURE),
        ("https://acct.dfs.core.windows.net/cont/a/b", AZURE),
        ("abfss://cont@acct.dfs.core.windows.net/a/b", AZURE),
        ("abfs://cont@acct.dfs.core.windows.net/a/b", AZURE),
        ("wasb://cont@acct.blob.core.windows.net/a/b", AZURE),
        ("wasbs://cont@acct.blob.core.windows.net/a/b/", AZURE),
        ("https://acct.blob.core.chinacloudapi.cn/cont/a/b", CHINA),
        ("abfss://cont@acct.dfs.core.chinacloudapi.cn/a/b", CHINA),
        (
            "https://acct.blob.core.usgovcloudapi.net/cont/a",
            Location("azure", "cont", "a", "acct", "https://acct.blob.core.usgovcloudapi.net"),
        ),
        (
            "https://acct.z12.blob.storage.azure.net/cont/a",
            Location("azure", "cont", "a", "acct", "https://acct.z12.blob.storage.azure.net"),
        ),
        ("http://127.0.0.1:10000/devstoreaccount1/cont/a/b", AZURITE),
        (
            "http://azurite:10000/acc/c",
            Location("azure", "c", "", "acc", "http://azurite:10000/acc"),
        ),
        ("http://localhost/acc/c/k", Location("azure", "c", "k", "acc", "http://localhost/acc")),
        ("file:/a/b", Location("local", "", "a/b")),
        ("file:///a/b/", Location("local", "", "a/b")),
        ("file://localhost/a/b", Location("local", "", "a/b")),
        ("file:////a//./b", Location("local", "", "a/b")),
        ("file:///a b%20c", Location("local", "", "a b%20c")),
        ("file:///", Location("local", "", "")),
        ("local:///a/b", Location("local", "", "a/b")),
        ("mem://", Location("mem", "", "")),
        ("mem://repo/k", Location("mem", "repo", "k")),
    ],
)
def test_every_spelling_is_understood(uri: str, expected: Location) -> None:
    """One place has one value, however it is written, and its canonical spelling reads back as itself."""
    assert Location.parse(uri) == expected
    assert Location.parse(expected.uri) == expected


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "bucket/key",
        "/a/b",
        "s3:b/k",
        "s3://",
        "s3:///k",
        "s3://user:secret@b/k",
        "s3://b//k",
        "s3://b/k//",
        "hdfs://nn/k",
        "abfss://cont/a",
        "abfss://@acct.dfs.core.windows.net/a",
        "abfss://cont@acct/a",
        "abfss://cont@acct.example.com/a",
        "https://example.com/cont/a",
        "https://acct.blob.core.windows.net",
        "https://acct.blob.core.windows.net/",
        "https://acct.blob.storage.azure.net/c",
        "https://a.b.blob.core.windows.net/c",
        "https://acct.blob.core.windows.net/cont/a?sv=2024&sig=SECRET",
        "https://acct.blob.core.windows.net/cont/a#b",
        "http://127.0.0.1:10000/",
        "http://127.0.0.1:10000/acct",
        "file:a/b",
        "file://host/a",
        "file://a",
        "file:///a/../b",
        "file:///a/\0",
        "local://",
        "local://name",
    ],
)
def test_what_is_not_understood_is_an_error(uri: str) -> None:
    """Nothing is guessed, and a signature in the text does not reach the message."""
    with pytest.raises(ConfigError) as caught:
        Location.parse(uri)
    assert caught.value.kind == "bad-location"
    assert "SECRET" not in str(caught.value)


def test_local_names_lie_under_the_namespace_root() -> None:
    """`local://NAME` is a folder of the server; an absolute one needs no root; none leads out."""
    root = "/var/lake/"
    assert Location.parse("local://repo/x", namespace_root=root).key == "var/lake/repo/x"
    assert Location.parse("local:///abs", namespace_root=root).key == "abs"
    for uri, bad_root in [
        ("local://../x", root),
        ("local://a/../../x", root),
        ("local://a", "rel"),
    ]:
        with pytest.raises(ConfigError):
            Location.parse(uri, namespace_root=bad_root)


@given(bucket=BUCKET, key=KEY)
def test_bucket_spellings_are_equal_and_round_trip(bucket: str, key: str) -> None:
    """`s3`, `s3a` and `s3n` are one place; keys are verbatim."""
    place = Location.parse(f"s3://{bucket}/{key}")
    assert (place.container, place.key) == (bucket, key)
    assert Location.parse(place.uri) == place
    assert {
        Location.parse(f"{s}://{bucket}/{key}{end}")
        for s in ("s3", "s3a", "s3n")
        for end in ("", "/")
    } == {place}
    assert Location.parse(Location.parse(f"gs://{bucket}/{key}").uri).key == key


@given(container=ACCOUNT, account=ACCOUNT, key=URL_KEY)
def test_azure_spellings_are_equal_and_round_trip(container: str, account: str, key: str) -> None:
    """Hadoop's forms and the URL form name one place."""
    place = Location.parse(f"https://{account}.blob.core.windows.net/{container}/{key}")
    assert Location.parse(place.uri) == place
    for scheme, service in [("abfs", "dfs"), ("abfss", "dfs"), ("wasb", "blob"), ("wasbs", "blob")]:
        uri = f"{scheme}://{container}@{account}.{service}.core.windows.net/{key}"
        assert Location.parse(uri) == place


@given(key=KEY)
def test_file_spellings_are_equal_and_round_trip(key: str) -> None:
    """One slash or three."""
    place = Location.parse(f"file:///{key}")
    assert place.key == key
    assert Location.parse(f"file:/{key}") == Location.parse(f"local:///{key}") == place
    assert Location.parse(place.uri) == place


@given(bucket=BUCKET, parent=KEY, child=KEY.filter(bool))
def test_a_child_is_inside_and_relative_undoes_it(bucket: str, parent: str, child: str) -> None:
    """`relative` is the inverse of `child`."""
    place = Location("s3", bucket, parent)
    assert place.relative(place.child(child)) == child
    assert place.contains(place.child(child))
    assert place.relative(place) == ""


@given(text=st.text(max_size=30))
def test_any_text_is_a_place_or_an_error(text: str) -> None:
    """No text makes anything else happen, and what is understood reads back."""
    try:
        place = Location.parse(text)
    except ConfigError:
        return
    assert Location.parse(place.uri) == place


def test_containment_follows_whole_segments_and_one_store() -> None:
    """`a/b` does not contain `a/bc`, nor the same key elsewhere."""
    place = Location("s3", "b", "a/b")
    assert place.relative(Location("s3", "b", "a/bc")) is None
    assert place.relative(Location("s3", "b", "a")) is None
    assert place.relative(Location("s3", "other", "a/b/c")) is None
    assert place.relative(Location("gs", "b", "a/b/c")) is None
    assert not Location("azure", "c", "a", "one").contains(Location("azure", "c", "a/b", "two"))
    assert Location("s3", "b", "").relative(Location("s3", "b", "x")) == "x"
    assert str(place) == place.uri == "s3://b/a/b"
