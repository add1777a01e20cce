"""Who signs our requests: the options' own key, or what botocore's chain finds where we run, for as long as we run.

Options travel with tasks. What they leave open is found on each machine by itself: a role of the node or the pod, the
files of a profile. So executors renew what they use without the driver, and no task holds a key that ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    Credentials,
    RefreshableCredentials,
)
from botocore.exceptions import BotoCoreError, ClientError

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import ConfigError, LakesweepError, StorageDeniedError, StorageError
from lakesweep.storage.s3.sign import SigningKey
from lakesweep.storage.translate import (
    TRANSIENT,
    connection_errors_translated,
    error_from_reply,
    scrubbed,
)

if TYPE_CHECKING:
    from obstore.store import S3Credential

# botocore renews what ends within a quarter of an hour at every request, by a request of its own. A node gives the same
# credentials for most of that time, and thousands of questions a minute are more than it answers.
_ASKED_EVERY_SECONDS = 1.0
# Keys in files have no end that anybody knows of. Who writes new ones there does so before the old ones end.
_FILES = frozenset({"shared-credentials-file", "config-file"})
_READ_EVERY_SECONDS = 60.0
# obstore asks for credentials again this long before they end.
_EARLY = timedelta(minutes=5)


class S3Credentials:
    """Credentials for one bucket: found at the first use and renewed in time. Thread-safe."""

    def __init__(
        self, bucket: str, options: StorageOptions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bucket = bucket
        self._options = options
        self._clock = clock
        self._lock = threading.Lock()
        self._found: Any = None
        self._found_at = 0.0
        self._key: SigningKey | None = None
        self._asked_at = 0.0

    def signing_key(self) -> SigningKey:
        """The key to sign with now."""
        now, key = self._clock(), self._key
        if key is not None and now - self._asked_at < _ASKED_EVERY_SECONDS:
            return key
        is_over = self.ends_at is not None and datetime.now(UTC) >= self.ends_at
        # One asks; meanwhile the others sign with a key that is still good, however long the answer takes.
        if not self._lock.acquire(blocking=key is None or is_over):
            assert key is not None
            return key
        try:
            return self._asked(now)
        finally:
            self._lock.release()

    def _asked(self, now: float) -> SigningKey:
        self._find(now)
        with self._renewal_errors_translated():
            frozen = self._found.get_frozen_credentials()
        self._key = SigningKey(frozen.access_key, frozen.secret_key, frozen.token)
        self._asked_at = now
        return self._key

    @property
    def ends_at(self) -> datetime | None:
        """When the key of the last `signing_key` ends; None where it does not say."""
        ends_at: datetime | None = getattr(self._found, "_expiry_time", None)
        # obstore takes no other spelling of this zone than the standard library's, and botocore's is another.
        return ends_at if ends_at is None else ends_at.astimezone(UTC)

    def for_obstore(self) -> S3Credential:
        """The key in obstore's words, and a time before which it asks again."""
        key = self.signing_key()
        ends_at = self.ends_at
        if ends_at is None and self._is_from_a_file:
            ends_at = datetime.now(UTC) + _EARLY + timedelta(seconds=_READ_EVERY_SECONDS)
        return {
            "access_key_id": key.access_key,
            "secret_access_key": key.secret_key,
            "token": key.token,
            "expires_at": ends_at,
        }

    @property
    def _is_from_a_file(self) -> bool:
        return getattr(self._found, "method", "") in _FILES

    def _find(self, now: float) -> None:
        if self._found is None:
            self._found, self._found_at = self._search(), now
        elif self._is_from_a_file and now - self._found_at >= _READ_EVERY_SECONDS:
            self._found_at = now
            try:
                self._found = self._search()
            except LakesweepError:
                pass  # half-written, maybe: what we have serves until it is refused

    def _search(self) -> Any:
        role = self._options.s3_assume_role_arn
        return self._own() if role is None else self._assumed(role)

    def _assumed(self, role: str) -> Any:
        """Credentials of the role, renewed with the own ones of that time."""
        options = self._options
        more = {
            "RoleSessionName": options.s3_assume_role_session_name,
            "ExternalId": options.s3_assume_role_external_id,
            "DurationSeconds": options.s3_assume_role_seconds,
        }
        given = {name: value for name, value in more.items() if value is not None}

        def ask() -> Any:
            session = self._session()
            region = options.s3_region or session.get_config_variable("region")
            return AssumeRoleCredentialFetcher(
                client_creator=partial(session.create_client, region_name=region),
                source_credentials=self._own(),
                role_arn=role,
                extra_args=given,
            ).fetch_credentials()

        try:
            return RefreshableCredentials.create_from_metadata(ask(), ask, "assume-role")
        except (BotoCoreError, ClientError) as error:
            raise StorageDeniedError(
                f"taking on the role {role} for s3://{self._bucket} failed: {error}. Nothing was touched. Let the role's "
                "trust policy name whose key is given."
            ) from error

    def _own(self) -> Any:
        options = self._options
        if options.s3_access_key_id and options.s3_secret_access_key:
            return Credentials(
                options.s3_access_key_id, options.s3_secret_access_key, options.s3_session_token
            )
        with connection_errors_translated(f"finding credentials for s3://{self._bucket}"):
            found = self._session().get_credentials()
        if found is None:
            raise ConfigError(
                f"no credentials for s3://{self._bucket}: none in the options, the environment, the AWS files or a "
                "role. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; nothing was touched."
            )
        return found

    def _session(self) -> Any:
        # A session reads its files once, so each search has its own.
        return botocore.session.Session(profile=self._options.s3_profile)

    @contextmanager
    def _renewal_errors_translated(self) -> Iterator[None]:
        """What goes wrong when temporary credentials are renewed: refused for good, or out of reach for a moment."""
        what = f"renewing the credentials for s3://{self._bucket}"
        try:
            with connection_errors_translated(what):
                yield
        except ClientError as error:
            reply, code = (
                error.response.get("ResponseMetadata", {}),
                error.response.get("Error", {}),
            )
            status = int(reply.get("HTTPStatusCode", 403))
            raise error_from_reply(
                status, code.get("Code", ""), code.get("Message", ""), what
            ) from error
        except RuntimeError as error:  # botocore's word for new ones that have ended, too
            raise StorageDeniedError(
                f"{what} failed: {scrubbed(str(error))} Check who gives them, and this machine's clock."
            ) from error
        except StorageError as error:
            # The node's own service was busy or away. It is asked again.
            raise StorageError(error.message, kind=TRANSIENT) from error
