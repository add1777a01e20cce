"""S3 requests of our own, over botocore's connections and credentials: what obstore can't do exactly (odd keys, one outcome per deleted key)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import botocore.session
from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.credentials import Credentials
from botocore.httpsession import URLLib3Session

from lakesweep.errors import ConfigError, LakesweepError, StorageError
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3_sign import SigningKey, signed_headers
from lakesweep.storage.s3_xml import local_name, parsed_xml
from lakesweep.storage.translate import botocore_errors_translated, error_from_reply

if TYPE_CHECKING:
    from obstore.store import S3Credential

_DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes


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
        self._credentials: Any = None
        session = botocore.session.Session(profile=options.s3_profile)
        self._session = session
        self.region: str = (
            options.s3_region or session.get_config_variable("region") or _DEFAULT_REGION
        )
        self.endpoint = options.s3_endpoint
        # A bucket name with dots does not fit a wildcard certificate.
        self.is_path_style = (
            options.s3_path_style
            if options.s3_path_style is not None
            else bool(self.endpoint) or "." in bucket
        )
        base = urlsplit(self._url_of_bucket(bucket))
        self._origin, self._host, self._path = (
            f"{base.scheme}://{base.netloc}",
            base.netloc,
            base.path,
        )
        self._http = URLLib3Session(
            timeout=(options.connect_timeout_seconds, options.request_timeout_seconds),  # type: ignore[arg-type]
            max_pool_connections=options.max_requests_in_flight,
        )

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
        path = self._path + quote(key, safe="/~")
        pairs = sorted((quote(k, safe="~"), quote(v, safe="~")) for k, v in (query or {}).items())
        text = "&".join(f"{k}={v}" for k, v in pairs)
        url = f"{self._origin}{path}?{text}" if text else self._origin + path
        with botocore_errors_translated(what):
            now = datetime.now(UTC)
            signed = signed_headers(
                self._signing_key(),
                self.region,
                now,
                method,
                self._host,
                path,
                text,
                headers or {},
                body,
            )
            # botocore's connections want its own kind of headers, whatever their annotation says.
            request = AWSPreparedRequest(method, url, HeadersDict(signed), body, False)  # type: ignore[arg-type]
            response = self._http.send(request)
            reply = Reply(response.status_code, response.headers, response.content)
        if not 200 <= reply.status < 300:
            raise error_of(reply, what)
        return reply

    def credentials(self) -> Any:
        """The options' own key, else what botocore's default chain finds (environment, files, roles)."""
        with self._lock:
            if self._credentials is None:
                self._credentials = self._found_credentials()
            return self._credentials

    def obstore_credentials(self) -> S3Credential:
        """The same, in obstore's words."""
        frozen = self.credentials().get_frozen_credentials()
        expires_at = getattr(self.credentials(), "_expiry_time", None)
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": expires_at,
        }

    def _signing_key(self) -> SigningKey:
        frozen = self.credentials().get_frozen_credentials()
        return SigningKey(frozen.access_key, frozen.secret_key, frozen.token)

    def _found_credentials(self) -> Any:
        options = self._options
        if options.s3_access_key_id and options.s3_secret_access_key:
            return Credentials(
                options.s3_access_key_id, options.s3_secret_access_key, options.s3_session_token
            )
        with botocore_errors_translated(f"finding credentials for s3://{self.bucket}"):
            found = self._session.get_credentials()
        if found is None:
            raise ConfigError(
                f"no credentials for s3://{self.bucket}: none in the options, the environment, the AWS files or a "
                "role. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; nothing was touched."
            )
        return found

    @property
    def obstore_endpoint(self) -> str | None:
        """The endpoint as obstore wants it: with the bucket where that is part of the host's name."""
        if not self.endpoint:
            return None
        return self.endpoint if self.is_path_style else (self._origin + self._path).rstrip("/")

    def _url_of_bucket(self, bucket: str) -> str:
        endpoint = self.endpoint or f"https://s3.{self.region}.amazonaws.com"
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        path = parts.path.rstrip("/")
        if self.is_path_style:
            return f"{parts.scheme}://{parts.netloc}{path}/{bucket}/"
        return f"{parts.scheme}://{bucket}.{parts.netloc}{path}/"


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
    return error_from_reply(reply.status, code, message, what)
