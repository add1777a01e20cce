"""File access as nessie-gc's users configure it: Iceberg's FileIO properties and Hadoop's, as our storage options.

A property is translated, or known to change nothing here, or refused. None is passed over: an ignored
`s3.delete-enabled=false` would mean real deletes.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lakesweep.domain.storage_options import PlaceOptions
from lakesweep.errors import ConfigError
from lakesweep.settings.iceberg_keys import (
    HADOOP,
    HADOOP_CREDENTIAL_CHAINS,
    ICEBERG,
    ICEBERG_FILE_IOS,
    KnownKeys,
)
from lakesweep.settings.spark_properties import HADOOP_PREFIX, read_properties
from lakesweep.settings.values import Settings

__all__ = ["FileAccess", "read_file_access", "with_file_access"]

_DELETE_ENABLED = "s3.delete-enabled"
_SHARED_KEY = "adls.auth.shared-key.account."
_SAS_TOKEN = re.compile(r"adls\.sas-token\.(?P<account>[^.]+)(?:\..+)?")
_CONNECTION_STRING = re.compile(r"adls\.connection-string\.(?P<account>[^.]+)(?:\..+)?")
_ROLE = "client.assume-role."
# A bucket's name may hold dots: a known ending tells where it stops.
_BUCKET = re.compile(
    r"fs\.s3a\.bucket\.(?P<bucket>.+?)\.(?P<what>(?:access|secret)\.key|session\.token|endpoint(?:\.region)?"
    r"|path\.style\.access|connection\.ssl\.enabled)"
)
_TENANT = re.compile(r"https://[^/]+/(?P<tenant>[^/]+)/oauth2(?:/v2\.0)?/token")


@dataclass(frozen=True, slots=True)
class FileAccess:
    """What `--iceberg` and `--hadoop` say, in our own words."""

    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False)  # storage options
    iceberg: Mapping[str, str] = field(default_factory=dict, repr=False)  # these win
    places: tuple[PlaceOptions, ...] = ()  # of single buckets and Azure accounts
    may_delete: bool = True


def read_file_access(iceberg: Mapping[str, str], hadoop: Mapping[str, str]) -> FileAccess:
    """Translate both kinds of properties.

    Raises:
        ConfigError: a property is unknown (the nearest known one is named), or asks for what can't be done here.
    """
    _check_names(ICEBERG, iceberg)
    _check_names(HADOOP, hadoop)
    _check_file_io(iceberg)
    _check_credential_chain(hadoop)
    found = read_properties({HADOOP_PREFIX + name: value for name, value in hadoop.items()})
    options = {o: hadoop[k] for k, o in HADOOP.options.items() if k in hadoop}
    options |= {name: value for name, (_, value) in found.storage.items()}
    return FileAccess(
        hadoop=options | dict(_hadoop_oauth(hadoop)),
        iceberg={o: iceberg[k] for k, o in ICEBERG.options.items() if k in iceberg}
        | dict(_emulator(iceberg))
        | dict(_role(iceberg)),
        places=(*_buckets(hadoop), *found.azure_accounts, *_iceberg_accounts(iceberg)),
        may_delete=_is_on(iceberg, _DELETE_ENABLED, default=True),
    )


def with_file_access(settings: Settings, access: FileAccess) -> Settings:
    """The settings with these over what other sources say of the stores."""
    storage = settings.storage.over(access.hadoop).over(access.iceberg)
    storage = dataclasses.replace(storage, places=(*storage.places, *access.places))
    return dataclasses.replace(settings, storage=storage)


def _check_names(known: KnownKeys, properties: Mapping[str, str]) -> None:
    for full_name, value in properties.items():
        name = _of_all_buckets(full_name)
        for pattern, why in known.refused.items():
            if re.fullmatch(pattern, name):
                raise _cannot(known.flag, name, why)
        if name in known.same_here:
            allowed = known.same_here[name]
            if value.strip().lower() not in allowed:
                raise _cannot(
                    known.flag, f"{name}={value}", f"here it is always {' or '.join(allowed)}"
                )
        elif not known.is_known(name):
            raise _unknown(known, name)


def _cannot(flag: str, what: str, why: str) -> ConfigError:
    return ConfigError(
        f"{flag} {what} can't be honoured: {why}. Nothing was touched.", kind="unsupported-property"
    )


def _unknown(known: KnownKeys, name: str) -> ConfigError:
    near = difflib.get_close_matches(name, known.names(), n=1, cutoff=0.5)
    hint = f" The nearest known one is {near[0]}." if near else ""
    return ConfigError(
        f"{known.flag}: the property {name!r} is not known, and one that is passed over could be the one that "
        f"protects files. Nothing was touched.{hint}",
        kind="unknown-property",
    )


def _check_file_io(iceberg: Mapping[str, str]) -> None:
    wanted = iceberg.get("io-impl")
    if wanted is not None and wanted.rpartition(".")[2] not in ICEBERG_FILE_IOS:
        raise _cannot(
            "--iceberg",
            f"io-impl={wanted}",
            f"lakesweep reads and deletes with its own client, in place of {', '.join(ICEBERG_FILE_IOS)}",
        )


def _check_credential_chain(hadoop: Mapping[str, str]) -> None:
    chain = hadoop.get("fs.s3a.aws.credentials.provider", "")
    for provider in filter(None, (name.strip() for name in chain.split(","))):
        if provider.rpartition(".")[2] not in HADOOP_CREDENTIAL_CHAINS:
            raise _cannot(
                "--hadoop",
                f"fs.s3a.aws.credentials.provider={provider}",
                "Java classes can't be loaded; give fs.s3a.access.key and fs.s3a.secret.key, or the AWS variables",
            )


def _is_on(iceberg: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = iceberg.get(name, str(default))
    if value.strip().lower() not in ("true", "false"):
        raise ConfigError(
            f"--iceberg {name}={value} is neither true nor false. Nothing was touched.",
            kind="bad-property",
        )
    return value.strip().lower() == "true"


def _emulator(iceberg: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Google's store on another host is an emulator: it is asked with a token, or without any credentials."""
    is_open = _is_on(iceberg, "gcs.no-auth", default=False)
    host, token = iceberg.get("gcs.service.host"), iceberg.get("gcs.oauth2.token")
    if is_open and token is not None:
        raise _cannot("--iceberg", "gcs.no-auth", "gcs.oauth2.token says otherwise")
    if token is None and is_open != (host is not None):
        raise _cannot(
            "--iceberg",
            "gcs.no-auth" if is_open else "gcs.service.host",
            "gcs.service.host and gcs.no-auth=true go together, for an emulator",
        )
    if host is not None:
        yield "gcs_endpoint", host


def _of_all_buckets(name: str) -> str:
    """The property without the bucket that it is meant for: `fs.s3a.bucket.B.endpoint` is `fs.s3a.endpoint`."""
    match = _BUCKET.fullmatch(name)
    return f"fs.s3a.{match['what']}" if match else name


def _buckets(hadoop: Mapping[str, str]) -> Iterator[PlaceOptions]:
    """Options of single buckets, as Hadoop's S3A connector takes them."""
    of_bucket: dict[str, dict[str, str]] = {}
    for name, value in hadoop.items():
        if match := _BUCKET.fullmatch(name):
            of_bucket.setdefault(match["bucket"], {})[_of_all_buckets(name)] = value
    for bucket, values in of_bucket.items():
        found = read_properties({HADOOP_PREFIX + name: value for name, value in values.items()})
        options = tuple((name, value) for name, (_, value) in found.storage.items())
        yield PlaceOptions("s3", bucket, options)


def _iceberg_accounts(iceberg: Mapping[str, str]) -> Iterator[PlaceOptions]:
    name, key = iceberg.get(f"{_SHARED_KEY}name"), iceberg.get(f"{_SHARED_KEY}key")
    if (name is None) != (key is None):
        raise ConfigError(
            f"--iceberg {_SHARED_KEY}name and {_SHARED_KEY}key go together, and one is missing. "
            "Nothing was touched.",
            kind="half-a-key",
        )
    if name is not None and key is not None:
        yield PlaceOptions("azure", name, (("azure_account_key", key),))
    for property_name, value in iceberg.items():
        # A later place wins: Iceberg, too, takes a SAS token before a shared key.
        if match := _SAS_TOKEN.fullmatch(property_name):
            yield PlaceOptions("azure", match["account"], (("azure_sas_token", value),))
        elif match := _CONNECTION_STRING.fullmatch(property_name):
            yield PlaceOptions("azure", match["account"], tuple(_connection(property_name, value)))


def _connection(name: str, value: str) -> Iterator[tuple[str, str]]:
    """An account's endpoint, as Iceberg takes it, or a connection string as Azure's portal shows it."""
    parts = dict(part.split("=", 1) for part in value.split(";") if "=" in part)
    if "://" in value.partition(";")[0].partition("=")[0]:
        yield "azure_endpoint", value
        return
    options = {
        "BlobEndpoint": "azure_endpoint",
        "AccountKey": "azure_account_key",
        "SharedAccessSignature": "azure_sas_token",
    }
    found = [(options[part], text) for part, text in parts.items() if part in options]
    if not found:
        raise _cannot(
            "--iceberg", name, "it is neither an address nor Name=Value;… with an AccountKey"
        )
    yield from found


def _role(iceberg: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The role of `client.assume-role.*`; the region that AWS is asked in is the bucket's unless it says otherwise."""
    role = {n.removeprefix(_ROLE): v for n, v in iceberg.items() if n.startswith(_ROLE)}
    if role and "arn" not in role:
        raise _cannot("--iceberg", f"{_ROLE}{next(iter(role))}", f"{_ROLE}arn is missing")
    names = {
        "arn": "s3_assume_role_arn",
        "external-id": "s3_assume_role_external_id",
        "session-name": "s3_assume_role_session_name",
        "timeout-sec": "s3_assume_role_seconds",
    }
    yield from ((option, role[name]) for name, option in names.items() if name in role)
    if "region" in role and not {"client.region", "s3.region", "aws.region"} & iceberg.keys():
        yield "s3_region", role["region"]


_OAUTH = re.compile(
    r"fs\.azure\.account\.oauth2\.client\.(?P<what>id|secret|endpoint)(?:\.[^.]+\..+)?"
)


def _hadoop_oauth(hadoop: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in hadoop.items():
        match = _OAUTH.fullmatch(name)
        if match is None:
            continue
        if match["what"] != "endpoint":
            yield f"azure_client_{match['what']}", value
        elif tenant := _TENANT.fullmatch(value.strip()):
            yield "azure_tenant_id", tenant["tenant"]
        else:
            raise _cannot(
                "--hadoop", name, "the endpoint must look like https://HOST/TENANT/oauth2/token"
            )
