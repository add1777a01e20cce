"""The settings as the rest of lakesweep uses them: frozen, typed, secrets out of sight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from lakesweep.domain.location import Location
from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import ConfigError
from lakesweep.secrets import secrets_in_url

__all__ = [
    "CollectSettings",
    "OutputSettings",
    "ServerSettings",
    "SettingValue",
    "Settings",
    "SparkSettings",
]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What is known of the lakeFS server; a command that needs it asks for `access()`."""

    endpoint_url: str | None
    access_key_id: str | None
    secret_access_key: str | None = field(repr=False)
    connect_timeout: timedelta
    read_timeout: timedelta
    prepare_timeout: timedelta

    def access(self) -> tuple[str, str, str]:
        """The server's address, the access key id and the secret access key.

        Raises:
            ConfigError: something is missing; says what, and where it could come from.
        """
        if self.endpoint_url and self.access_key_id and self.secret_access_key:
            return self.endpoint_url, self.access_key_id, self.secret_access_key
        parts = {
            "endpoint URL": self.endpoint_url,
            "access key id": self.access_key_id,
            "secret access key": self.secret_access_key,
        }
        missing = ", ".join(part for part, value in parts.items() if not value)
        raise ConfigError(
            f"The settings do not say how to reach the lakeFS server. Missing: {missing}. Nothing was touched. Set "
            "LAKECTL_SERVER_ENDPOINT_URL, LAKECTL_CREDENTIALS_ACCESS_KEY_ID and "
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY, or run `lakectl config`; "
            "`lakesweep config show` says what was found.",
            kind="no-server",
        )


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """What a mark or a sweep shall do."""

    what: Literal["all", "committed", "uncommitted"]
    run: Literal["auto", "clean", "optimized"]
    mark_id: str | None
    min_age: timedelta | None
    unsafe_min_age: str | None  # the repository whose minimum age may be lowered
    keep_refs: tuple[str, ...]
    keep_tags: bool
    now: datetime | None
    inventory: str | None
    max_inventory_age: timedelta
    range_partitions: int
    address_partitions: int
    max_delete_share: float  # percent
    confirm: str | None
    backup_to: Location | None
    dry_run: bool
    do_mark: bool
    do_sweep: bool
    keep_runs: int
    no_lease: str | None  # the repository whose user vouches that no other collector runs


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Which Spark, and the properties meant for it; lakeFS's and the stores' are not among them."""

    master: str | None
    remote: str | None = field(repr=False)  # a Connect URL may hold a token
    conf: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """How results, logs and progress are shown."""

    output: Literal["text", "json"]
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["text", "json"]
    show_progress: bool
    progress_file: str | None
    quiet: bool
    metrics_file: Path | None = None
    report: str | None = None
    plot: str | None = None


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One line of `lakesweep config show`; a secret's value is never in it."""

    name: str
    value: object
    source: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that was configured, read once and handed down."""

    server: ServerSettings
    collect: CollectSettings
    spark: SparkSettings
    output: OutputSettings
    storage: StorageOptions
    namespace_root: str | None
    values: tuple[SettingValue, ...]
    warnings: tuple[str, ...]

    def secrets(self) -> frozenset[str]:
        """Every secret in these settings, so that it can be masked."""
        found = set(self.storage.secrets())
        for text in (self.server.endpoint_url, self.spark.remote, self.storage.s3_endpoint):
            found |= secrets_in_url(text or "")
        if self.server.secret_access_key:
            found.add(self.server.secret_access_key)
        return frozenset(found)
