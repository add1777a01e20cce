"""Where a bucket is: what was said, else what is known, else what S3 answers."""

from __future__ import annotations

from lakesweep.storage import StorageOptions
from lakesweep.storage.s3.address import S3Address, s3_address


def address(bucket: str, options: StorageOptions, configured: str | None = None) -> S3Address:
    return s3_address(bucket, options, configured, lambda: "found-1")


def test_amazon_buckets_stand_in_the_host() -> None:
    """The public cloud's form, signed for the region in question."""
    place = address("lake", StorageOptions(s3_region="eu-west-1"))
    assert (place.origin, place.path) == ("https://lake.s3.eu-west-1.amazonaws.com", "/")
    assert place.host == "lake.s3.eu-west-1.amazonaws.com"
    assert place.obstore_endpoint is None


def test_buckets_with_dots_stand_in_the_path() -> None:
    """No wildcard certificate covers them."""
    place = address("my.lake", StorageOptions(s3_region="eu-west-1"))
    assert (place.origin, place.path) == ("https://s3.eu-west-1.amazonaws.com", "/my.lake/")


def test_an_endpoint_means_path_style_unless_it_is_said_otherwise() -> None:
    """MinIO and its kin need nothing but the endpoint."""
    place = address("lake", StorageOptions(s3_endpoint="http://127.0.0.1:9000/"))
    assert (place.origin, place.path) == ("http://127.0.0.1:9000", "/lake/")
    hosted = address("lake", StorageOptions(s3_endpoint="s3.example.com", s3_path_style=False))
    assert (hosted.origin, hosted.path) == ("https://lake.s3.example.com", "/")
    assert hosted.obstore_endpoint == "https://lake.s3.example.com"


def test_the_region_is_taken_from_the_nearest_source() -> None:
    """Options, then the AWS files, then S3 itself; an endpoint of one's own is never asked."""
    assert address("lake", StorageOptions(s3_region="a"), "b").region == "a"
    assert address("lake", StorageOptions(), "b").region == "b"
    assert address("lake", StorageOptions()).region == "found-1"
    assert address("lake", StorageOptions(s3_endpoint="http://h")).region == "us-east-1"
