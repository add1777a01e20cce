"""S3 requests of our own, with botocore's credentials.

They do what obstore can't do exactly: list odd keys, and tell what became of each deleted key.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import quote

import botocore.session

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import LakesweepError, StorageError
from lakesweep.storage.http_wire import Reply
from lakesweep.storage.multiplexer import Multiplexer
from lakesweep.storage.s3.address import REGION_HEADER, S3Address, s3_address
from lakesweep.storage.s3.credentials import S3Credentials
from lakesweep.storage.s3.http import Connections
from lakesweep.storage.s3.sign import (
    BareRequests,
    canonical_query,
    presigned_query,
    signed_headers,
)
from lakesweep.storage.s3.xml import local_name, parsed_xml
from lakesweep.storage.signing import SignedUrl
from lakesweep.storage.translate import connection_errors_translated, error_from_reply

NO_QUERY: Mapping[str, str] = MappingProxyType({})
_ANY_REGION = "https://s3.amazonaws.com"


@lru_cache(maxsize=64)
def s3_client(bucket: str, options: StorageOptions) -> S3Client:
    """The process's one client of that bucket with those options."""
    return S3Client(bucket, options)


class S3Client:
    """Credentials, address and connections of one bucket. Thread-safe."""

    def __init__(self, bucket: str, options: StorageOptions) -> None:
        self.bucket = bucket
        self._options = options
        self._lock = threading.Lock()
        self._session = botocore.session.Session(profile=options.s3_profile)
        self.credentials = S3Credentials(bucket, options)
        self._address: S3Address | None = None
        self._connections: Connections | None = None

    @property
    def address(self) -> S3Address:
        """Where the bucket is; found at the first use, which may ask S3 for its region."""
        with self._lock:
            if self._address is None:
                configured = self._session.get_config_variable("region")
                self._address = s3_address(
                    self.bucket, self._options, configured, self._discovered_region
                )
            return self._address

    def request(
        self,
        method: str,
        what: str,
        *,
        key: str = "",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Reply:
        """One signed request; a reply that is no success comes out as an error that says `what` failed."""
        address = self.address
        path = address.path + quote(key, safe="/~")
        text = canonical_query(query or {})
        with connection_errors_translated(what):
            now = datetime.now(UTC)
            signed = signed_headers(
                self.credentials.signing_key(),
                address.region,
                now,
                method,
                address.host,
                path,
                text,
                headers or {},
                body,
            )
            target = f"{path}?{text}" if text else path
            reply = self._connected(address).send(method, target, signed, body)
        if not 200 <= reply.status < 300:
            raise error_of(reply, what)
        return reply

    def multiplexer(self) -> Multiplexer | None:
        """Many requests in flight from one thread; None where a proxy stands between."""
        return self._connected(self.address).multiplexer()

    def bare_requests(self) -> BareRequests:
        """What signs requests without a body, for a second."""
        address = self.address
        key = self.credentials.signing_key()
        return BareRequests(key, address.region, address.host, datetime.now(UTC))

    def presigned_url(
        self, method: str, key: str, life: timedelta, query: Mapping[str, str] = NO_QUERY
    ) -> SignedUrl:
        """A URL that anyone may send a request to. It ends with the credentials where they end earlier."""
        address, now = self.address, datetime.now(UTC).replace(microsecond=0)
        with connection_errors_translated(f"signing a URL of s3://{self.bucket}/{key}"):
            signing_key = self.credentials.signing_key()
        path = address.path + quote(key, safe="/~")
        seconds = int(life.total_seconds())
        text = presigned_query(
            signing_key, address.region, now, method, address.host, path, query, seconds
        )
        expires_at = now + timedelta(seconds=seconds)
        credentials_end = self.credentials.ends_at
        if credentials_end is not None:
            expires_at = min(expires_at, credentials_end)
        return SignedUrl(f"{address.origin}{path}?{text}", expires_at)

    def _connected(self, address: S3Address) -> Connections:
        with self._lock:
            if self._connections is None:
                ca_bundle = self._session.get_config_variable("ca_bundle")
                self._connections = Connections(address.origin, self._options, ca_bundle)
            return self._connections

    def _discovered_region(self) -> str | None:
        ca_bundle = self._session.get_config_variable("ca_bundle")
        connections = Connections(_ANY_REGION, self._options, ca_bundle)
        with connection_errors_translated(f"finding the region of s3://{self.bucket}"):
            return connections.send("HEAD", f"/{self.bucket}", {}, b"").headers.get(REGION_HEADER)


def error_of(reply: Reply, what: str) -> LakesweepError:
    """The error that a reply stands for; S3 also sends some inside a 200."""
    code = message = ""
    try:
        elements = parsed_xml(reply.content, what).iter() if reply.content else ()
    except StorageError:
        elements = ()  # A proxy's page, say; the status speaks for itself.
    for element in elements:
        if local_name(element) == "Code":
            code = element.text or ""
        elif local_name(element) == "Message":
            message = element.text or ""
    region = reply.headers.get(REGION_HEADER)
    if region and reply.status in (301, 307, 400):
        message = f"{message} (the bucket is in the region {region}; set s3_region)"
    return error_from_reply(reply.status, code, message, what)
