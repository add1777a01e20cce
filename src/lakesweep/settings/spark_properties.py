"""The Spark properties that lakeFS users already have: `spark.hadoop.lakefs.*`, `fs.s3a.*`, `fs.azure.*`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakesweep.domain.storage_options import PlaceOptions
from lakesweep.errors import ConfigError
from lakesweep.settings.kinds import SWITCH
from lakesweep.settings.lakefs_options import SETTINGS
from lakesweep.settings.resolve import errors_naming

__all__ = [
    *("HADOOP_PREFIX", "STORAGE_OPTION_OF", "KnownProperties", "names_without_effect"),
    "read_properties",
]

HADOOP_PREFIX = "spark.hadoop."

NO_DELETE = "lakefs.debug.gc.no_delete"

_SETTING_OF = {s.spark_property: s.name for s in SETTINGS if s.spark_property}

# Known to lakeFS's own client; here they change nothing, so they are worth a word and no error.
_WITHOUT_EFFECT = {
    "lakefs.gc.s3.min_backoff_secs": "deletes slow down and recover by themselves",
    "lakefs.gc.s3.max_backoff_secs": "deletes slow down and recover by themselves",
}

STORAGE_OPTION_OF = {
    "fs.s3a.access.key": "s3_access_key_id",
    "fs.s3a.secret.key": "s3_secret_access_key",
    "fs.s3a.session.token": "s3_session_token",
    "fs.s3a.endpoint": "s3_endpoint",
    "fs.s3a.endpoint.region": "s3_region",
    "fs.s3a.path.style.access": "s3_path_style",
    "google.cloud.auth.service.account.json.keyfile": "gcs_service_account_key_file",
}
_S3_SSL = "fs.s3a.connection.ssl.enabled"

_AZURE_KEY = re.compile(r"fs\.azure\.account\.key\.(?P<account>[^.]+)(?:\..+)?")
_AZURE_SAS = re.compile(r"fs\.azure\.sas\.(?:fixed\.token|[^.]+)\.(?P<account>[^.]+)(?:\..+)?")


@dataclass(frozen=True, slots=True)
class KnownProperties:
    """What the properties say, by the names of our settings and storage options."""

    settings: Mapping[str, tuple[str, str]]  # name → (property, value)
    storage: Mapping[str, tuple[str, str]]
    azure_accounts: tuple[PlaceOptions, ...]
    for_spark: Mapping[str, str]
    warnings: tuple[str, ...]


def read_properties(properties: Mapping[str, str]) -> KnownProperties:
    """Sort the properties by who they are for.

    Those of lakeFS and of Hadoop's S3 and Azure connectors are ours and go no further: all I/O is our own, and a
    secret that Spark never had is on none of its pages.

    Raises:
        ConfigError: an unknown `lakefs.*` property; names the nearest known one.
    """
    settings: dict[str, tuple[str, str]] = {}
    storage: dict[str, tuple[str, str]] = {}
    accounts: dict[str, dict[str, str]] = {}
    for_spark: dict[str, str] = {}
    warnings: list[str] = []
    for full_name, value in properties.items():
        name = full_name.removeprefix(HADOOP_PREFIX)
        if name in _SETTING_OF:
            settings[_SETTING_OF[name]] = (full_name, value)
        elif name in STORAGE_OPTION_OF:
            storage[STORAGE_OPTION_OF[name]] = (full_name, value)
        elif name == NO_DELETE:
            warnings.append(
                f"{full_name} is deprecated; write {HADOOP_PREFIX}lakefs.gc.do_sweep=false."
            )
        elif name in _WITHOUT_EFFECT:
            warnings.append(f"{full_name} has no effect here: {_WITHOUT_EFFECT[name]}.")
        elif name.startswith("lakefs."):
            raise _unknown(full_name, name)
        elif match := _AZURE_KEY.fullmatch(name):
            accounts.setdefault(match["account"], {})["azure_account_key"] = value
        elif match := _AZURE_SAS.fullmatch(name):
            accounts.setdefault(match["account"], {})["azure_sas_token"] = value
        elif full_name.startswith("spark.") and not name.startswith(("fs.s3a.", "fs.azure.")):
            for_spark[full_name] = value
    _read_no_delete(properties, settings)
    _read_endpoint(properties, storage)
    places = tuple(
        PlaceOptions("azure", a, tuple(values.items())) for a, values in accounts.items()
    )
    return KnownProperties(settings, storage, places, for_spark, tuple(warnings))


def names_without_effect(names: Iterable[str]) -> list[str]:
    """A warning for each name that is neither Spark's nor one that lakesweep reads itself."""
    ours = (*_SETTING_OF, *STORAGE_OPTION_OF)
    return [
        f"{name} has no effect: names of Spark's properties begin with `spark.`."
        for name in names
        if name not in ours and not name.startswith(("spark.", "lakefs.", "fs."))
    ]


def _read_no_delete(properties: Mapping[str, str], settings: dict[str, tuple[str, str]]) -> None:
    for full_name in (HADOOP_PREFIX + NO_DELETE, NO_DELETE):
        if full_name in properties and _is_switched_on(full_name, properties[full_name]):
            settings["do_sweep"] = (full_name, "false")


def _is_switched_on(full_name: str, text: str) -> bool:
    """A word that is neither yes nor no is an error: it may be meant to keep everything."""
    with errors_naming(full_name):
        return bool(SWITCH.parse(text))


def _read_endpoint(properties: Mapping[str, str], storage: dict[str, tuple[str, str]]) -> None:
    """Hadoop takes an endpoint without a scheme and a switch beside it; ours is one URL."""
    secure = properties.get(HADOOP_PREFIX + _S3_SSL, properties.get(_S3_SSL, "true"))
    is_secure = secure.strip().lower() != "false"
    if "s3_endpoint" in storage:
        name, endpoint = storage["s3_endpoint"]
        if "://" not in endpoint:
            storage["s3_endpoint"] = (name, f"{'https' if is_secure else 'http'}://{endpoint}")
    if not is_secure:
        storage["s3_allow_http"] = (HADOOP_PREFIX + _S3_SSL, "true")


def _unknown(full_name: str, name: str) -> ConfigError:
    known = [known for known in _SETTING_OF if known.startswith("lakefs.")] + [NO_DELETE]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.3)
    prefix = full_name.removesuffix(name)
    hint = f" The nearest known one is {prefix}{near[0]}." if near else ""
    return ConfigError(
        f"Spark property {full_name} is not known, and nothing was touched.{hint}",
        kind="unknown-property",
    )
