"""Where a bucket is: region, host, and whether its name stands in the host or in the path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from lakesweep.domain.storage_options import StorageOptions

# Any S3 host tells a bucket's region in this header, to anyone, even where it refuses the request.
REGION_HEADER = "x-amz-bucket-region"
_DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Address:
    """The parts of a bucket's URL. `path` begins and ends with "/"."""

    region: str
    origin: str
    path: str
    is_path_style: bool
    endpoint: str | None  # the one that was given, if any

    @property
    def host(self) -> str:
        """As it is signed."""
        return self.origin.partition("://")[2]

    @property
    def obstore_endpoint(self) -> str | None:
        """The endpoint as obstore wants it: with the bucket where that is part of the host's name."""
        if self.endpoint is None or self.is_path_style:
            return self.endpoint
        return (self.origin + self.path).rstrip("/")


def s3_address(
    bucket: str,
    options: StorageOptions,
    configured_region: str | None,
    discover_region: Callable[[], str | None],
) -> S3Address:
    """The bucket's address.

    Args:
        configured_region: what the AWS files say, for when the options say nothing.
        discover_region: asks S3 itself; called only for Amazon's own hosts, when nobody else knows.
    """
    endpoint = options.s3_endpoint
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    region = options.s3_region or configured_region
    if region is None:
        region = (None if endpoint else discover_region()) or _DEFAULT_REGION
    is_path_style = options.s3_path_style
    if is_path_style is None:
        # A bucket name with dots does not fit a wildcard certificate.
        is_path_style = endpoint is not None or "." in bucket
    parts = urlsplit(endpoint or f"https://s3.{region}.amazonaws.com")
    folder = parts.path.rstrip("/")
    if is_path_style:
        return S3Address(
            region, f"{parts.scheme}://{parts.netloc}", f"{folder}/{bucket}/", True, endpoint
        )
    return S3Address(
        region, f"{parts.scheme}://{bucket}.{parts.netloc}", f"{folder}/", False, endpoint
    )
