"""How stores are reached: credentials, endpoints, limits. What is unset is left to each ecosystem's default chain."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from lakesweep.errors import ConfigError

_SECRETS = frozenset(
    {
        "s3_access_key_id",
        "s3_secret_access_key",
        "s3_session_token",
        "azure_account_key",
        "azure_sas_token",
        "azure_client_secret",
        "gcs_service_account_key",
    }
)

# The first variable that is set gives the value.
_VARIABLES: dict[str, tuple[str, ...]] = {
    "s3_access_key_id": ("AWS_ACCESS_KEY_ID",),
    "s3_secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "s3_session_token": ("AWS_SESSION_TOKEN",),
    "s3_endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "s3_region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "s3_profile": ("AWS_PROFILE",),
    "azure_account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
    "azure_sas_token": ("AZURE_STORAGE_SAS_TOKEN",),
    "azure_tenant_id": ("AZURE_TENANT_ID",),
    "azure_client_id": ("AZURE_CLIENT_ID",),
    "azure_client_secret": ("AZURE_CLIENT_SECRET",),
    "azure_federated_token_file": ("AZURE_FEDERATED_TOKEN_FILE",),
    "gcs_service_account_key_file": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "gcs_endpoint": ("STORAGE_EMULATOR_HOST",),
}

_ENDPOINTS = ("s3_endpoint", "gcs_endpoint")
_LEAST = {
    "max_requests_in_flight": 1,
    "connect_timeout_seconds": 0.001,
    "request_timeout_seconds": 0.001,
    "transient_retries": 0,
    "throttle_patience_seconds": 0,
    "first_pause_seconds": 0,
}


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Everything that opening a store may need. Picklable, comparable, and its repr shows no secret."""

    s3_access_key_id: str | None = None
    s3_secret_access_key: str | None = None
    s3_session_token: str | None = None
    s3_endpoint: str | None = None
    s3_region: str | None = None
    s3_profile: str | None = None
    s3_path_style: bool | None = None  # unset: path style wherever an endpoint is given
    s3_allow_http: bool | None = None  # unset: where the endpoint itself says http://
    azure_account_key: str | None = None
    azure_sas_token: str | None = None
    azure_tenant_id: str | None = None
    azure_client_id: str | None = None
    azure_client_secret: str | None = None
    azure_federated_token_file: str | None = None
    gcs_service_account_key_file: str | None = None
    gcs_service_account_key: str | None = None  # the key file's JSON itself
    gcs_endpoint: str | None = None  # an emulator, which is asked without credentials
    local_fsync: bool = True  # off: a write may be lost with the machine's power
    max_requests_in_flight: int = 64
    connect_timeout_seconds: float = 10.0
    request_timeout_seconds: float = 60.0
    transient_retries: int = 6  # of what is safe to repeat
    throttle_patience_seconds: float = 120.0  # how long one request puts up with "slow down"
    first_pause_seconds: float = 0.1  # before the first retry, at most; doubles with each

    def __post_init__(self) -> None:
        for name in _ENDPOINTS:
            endpoint = getattr(self, name)
            if endpoint is not None and not _is_address(endpoint):
                raise ConfigError(
                    f"storage option {name!r} is no address: {endpoint!r}; nothing was touched. Write it as "
                    "https://host or http://host:port."
                )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not least <= value < float("inf"):
                raise ConfigError(
                    f"storage option {name!r} is {value}, and at least {least} is needed; nothing was touched."
                )

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> StorageOptions:
        """The AWS, Azure and Google default variables; their files and roles stay with their own chains."""
        found: dict[str, str] = {}
        for name, variables in _VARIABLES.items():
            value = next((env[variable] for variable in variables if env.get(variable)), None)
            if value is not None:
                found[name] = value
        if "s3_profile" in found and not env.get("AWS_ACCESS_KEY_ID"):
            # Half a key pair would hide the profile's own.
            found.pop("s3_secret_access_key", None)
        found.update(_connection_string(env.get("AZURE_STORAGE_CONNECTION_STRING", "")))
        return cls().with_values(found)

    def with_values(self, values: Mapping[str, str]) -> StorageOptions:
        """A copy with `values` (as written on a command line) set; an unknown name is an error."""
        kinds = typing.get_type_hints(StorageOptions)
        parsed: dict[str, object] = {}
        for name, text in values.items():
            if name not in kinds:
                near = difflib.get_close_matches(name, kinds, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigError(f"unknown storage option {name!r}{hint}; nothing was touched.")
            parsed[name] = _parsed(name, kinds[name], text)
        return dataclasses.replace(self, **parsed)  # type: ignore[arg-type]

    def masked(self) -> dict[str, object]:
        """Every option that is set, secrets as `***`."""
        shown: dict[str, object] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                shown[field.name] = "***" if field.name in _SECRETS else value
        return shown

    def secrets(self) -> frozenset[str]:
        """The secret values themselves, for whoever must keep them out of a text."""
        return frozenset(value for name in _SECRETS if (value := getattr(self, name)))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.masked().items())
        return f"StorageOptions({inner})"


def _parsed(name: str, kind: object, text: str) -> object:
    try:
        if kind is int:
            return int(text)
        if kind is float:
            return float(text)
    except ValueError as error:
        raise ConfigError(f"storage option {name!r} is not a number: {text!r}.") from error
    if kind in (bool, bool | None):
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in words:
            raise ConfigError(f"storage option {name!r} is neither true nor false: {text!r}.")
        return words[text.lower()]
    return text


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        return parts.scheme in ("http", "https", "") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or too large a one
        return False


def _connection_string(text: str) -> dict[str, str]:
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    names = {"AccountKey": "azure_account_key", "SharedAccessSignature": "azure_sas_token"}
    return {names[part]: value for part, value in parts.items() if part in names}
