"""Full addresses in any spelling, as addresses in the namespace."""

from __future__ import annotations

import pickle

import pytest

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.domain.location import Location
from lakesweep.errors import UnsafeToSweepError

KEY = "data/gcoca17haabs73f2gtq0/cnnj2kqs3bo4lk9dl9dg"


def normaliser(namespace: str, root: str | None = None) -> AddressNormaliser:
    return AddressNormaliser(Location.parse(namespace, namespace_root=root), root)


@pytest.mark.parametrize(
    ("namespace", "address"),
    [
        ("s3://bucket/ns", f"s3://bucket/ns/{KEY}"),
        ("s3://bucket/ns/", f"s3a://bucket/ns/{KEY}"),
        ("s3://bucket", f"s3n://bucket/{KEY}"),
        ("s3://my_bucket/ns", f"S3://my_bucket/ns/{KEY}"),
        ("gs://bucket/ns", f"gs://bucket/ns/{KEY}"),
        (
            "https://acct.blob.core.windows.net/lake/ns",
            f"abfss://lake@acct.dfs.core.windows.net/ns/{KEY}",
        ),
        (
            "https://acct.blob.core.windows.net/lake/ns",
            f"https://acct.blob.core.windows.net/lake/ns/{KEY}",
        ),
        ("mem://bucket/ns", f"mem://bucket/ns/{KEY}"),
    ],
)
def test_spellings_of_the_namespace_are_inside(namespace, address):
    """`s3` and `s3a`, `https` and `abfss` are one place."""
    assert normaliser(namespace).readings(address) == (KEY,)
    assert normaliser(namespace).relative(address) == KEY


def test_a_real_servers_local_addresses_are_inside():
    """The namespace is `local://name`, but its addresses hold the absolute path."""
    local = normaliser("local://repo-one", "/var/lake")
    assert local.relative(f"local:///var/lake/repo-one/{KEY}") == KEY
    assert local.relative(f"file:///var/lake/repo-one/{KEY}") == KEY
    assert local.relative(f"local://repo-one/{KEY}") == KEY
    assert local.relative(f"local:///var/lake/repo-one/../repo-one/{KEY}") == KEY
    assert local.relative(f"local:///var/lake/repo-two/{KEY}") is None


@pytest.mark.parametrize(
    "address",
    [
        f"s3://bucket/ns2/{KEY}",
        f"s3://bucket/{KEY}",
        f"s3://other/ns/{KEY}",
        f"gs://bucket/ns/{KEY}",
        "https://example.com/x",
        "hdfs://bucket/ns/x",
        "s3://bucket/ns",
    ],
)
def test_everything_else_is_outside(address):
    """Another bucket, another prefix that begins alike, another kind of store."""
    assert normaliser("s3://bucket/ns").readings(address) == ()
    assert normaliser("s3://bucket/ns").relative(address) is None


def test_an_address_without_a_scheme_is_relative():
    """Whatever its entry calls it: the server joins it to the namespace."""
    assert normaliser("s3://bucket/ns").readings(KEY) == (KEY,)
    assert KEY in normaliser("s3://bucket/ns").readings(KEY.replace("data", "%64ata"))
    assert KEY in normaliser("s3://bucket/ns").readings(KEY.replace("/", "//"))


@pytest.mark.parametrize(
    "address",
    [
        f"s3://bucket/ns/{KEY.replace('data', '%64ata')}",
        f"s3://bucket/ns//{KEY}",
        f"s3://bucket//ns/{KEY}",
        f"s3://bucket/ns/x/../{KEY}",
        f"s3://bucket/ns/./{KEY}",
        f"s3://BUCKET/ns/{KEY}",
        f"s3://bucket/%6Es/{KEY}",
        f"s3://bucket/other/../ns/{KEY}",
    ],
)
def test_every_way_a_server_may_read_an_address_counts(address):
    """Keeping one object too many is harmless; taking a live one for outside is not."""
    assert KEY in normaliser("s3://bucket/ns").readings(address)


def test_keys_stay_verbatim():
    """A key that holds a percent sign is first of all that key."""
    readings = normaliser("s3://bucket/ns").readings("s3://bucket/ns/data/a%20b")
    assert readings == ("data/a%20b", "data/a b")


def test_a_spelling_of_our_own_store_that_cannot_be_read_is_refused():
    """It might be live data of the namespace, so nothing is concluded."""
    with pytest.raises(UnsafeToSweepError, match="not known"):
        normaliser("https://acct.blob.core.windows.net/lake/ns").readings("abfss://nonsense/x")
    with pytest.raises(UnsafeToSweepError):
        normaliser("s3://bucket/ns").readings("s3:///ns/x")


def test_a_normaliser_travels_to_executors():
    """It is a plain value."""
    original = normaliser("local://repo-one", "/var/lake")
    assert pickle.loads(pickle.dumps(original)) == original
