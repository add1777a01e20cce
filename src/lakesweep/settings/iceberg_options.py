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

from lakesweep.errors import ConfigError
from lakesweep.settings.iceberg_keys import (
    HADOOP,
    HADOOP_CREDENTIAL_CHAINS,
    ICEBERG,
    ICEBERG_FILE_IOS,
    KnownKeys,
)
from lakesweep.settings.spark_properties import HADOOP_PREFIX, AzureAccount, read_properties
from lakesweep.settings.stores import over
from lakesweep.settings.values import Settings

__all__ = ["FileAccess", "read_file_access", "with_file_access"]

_DELETE_ENABLED = "s3.delete-enabled"
_SHARED_KEY = "adls.auth.shared-key.account."
_SAS_TOKEN = re.compile(r"adls\.sas-token\.(?P<account>[^.]+)(?:\..+)?")
_TENANT = re.compile(r"https://[^/]+/(?P<tenant>[^/]+)/oauth2(?:/v2\.0)?/token")


@dataclass(frozen=True, slots=True)
class FileAccess:
    """What `--iceberg` and `--hadoop` say, in our own words."""

    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False)  # storage options
    iceberg: Mapping[str, str] = field(default_factory=dict, repr=False)  # these win
    azure_accounts: Mapping[str, AzureAccount] = field(default_factory=dict)
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
    options = {name: value for name, (_, value) in found.storage.items()}
    options |= {o: hadoop[k] for k, o in HADOOP.options.items() if k in hadoop}
    return FileAccess(
        hadoop=options | dict(_hadoop_oauth(hadoop)),
        iceberg={o: iceberg[k] for k, o in ICEBERG.options.items() if k in iceberg}
        | dict(_emulator(iceberg)),
        azure_accounts={**found.azure_accounts, **_iceberg_accounts(iceberg)},
        may_delete=_is_on(iceberg, _DELETE_ENABLED, default=True),
    )


def with_file_access(settings: Settings, access: FileAccess) -> Settings:
    """The settings with these over what other sources say of the stores. A single Azure account is the only one."""
    storage = over(over(settings.storage, access.hadoop), access.iceberg)
    accounts = {**settings.azure_accounts, **access.azure_accounts}
    if len(accounts) > 1:
        raise ConfigError(
            f"Keys of several Azure accounts are given ({', '.join(sorted(accounts))}), and one run works with one. "
            "Nothing was touched. Leave out all but one, or use an identity that may enter all of them "
            "(AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET).",
            kind="several-azure-accounts",
        )
    for account in accounts.values():
        storage = dataclasses.replace(
            storage, azure_account_key=account.account_key, azure_sas_token=account.sas_token
        )
    return dataclasses.replace(settings, storage=storage, azure_accounts=accounts)


def _check_names(known: KnownKeys, given: Mapping[str, str]) -> None:
    for name, value in given.items():
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
    """Google's store on another host is an emulator, which is asked without credentials, or it is not known here."""
    is_open = _is_on(iceberg, "gcs.no-auth", default=False)
    host = iceberg.get("gcs.service.host")
    if is_open != (host is not None):
        raise _cannot(
            "--iceberg",
            "gcs.no-auth" if is_open else "gcs.service.host",
            "gcs.service.host and gcs.no-auth=true go together, for an emulator",
        )
    if host is not None:
        yield "gcs_endpoint", host


def _iceberg_accounts(iceberg: Mapping[str, str]) -> Mapping[str, AzureAccount]:
    name, key = iceberg.get(f"{_SHARED_KEY}name"), iceberg.get(f"{_SHARED_KEY}key")
    if (name is None) != (key is None):
        raise ConfigError(
            f"--iceberg {_SHARED_KEY}name and {_SHARED_KEY}key go together, and one is missing. "
            "Nothing was touched.",
            kind="half-a-key",
        )
    accounts = {name: AzureAccount(account_key=key)} if name is not None else {}
    for property_name, token in iceberg.items():
        # Iceberg, too, takes a SAS token before a shared key.
        if match := _SAS_TOKEN.fullmatch(property_name):
            accounts[match["account"]] = AzureAccount(sas_token=token)
    return accounts


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
