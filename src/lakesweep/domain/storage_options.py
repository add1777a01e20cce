"""How stores are reached: credentials, endpoints, limits. What is unset is left to each ecosystem's default chain."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lakesweep.domain.location import Location
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
        "gcs_token",
    }
)

# A key and its secret belong together: half a pair from one place and half from another opens nothing, or
# something else than was meant. The first place that names one of them gives all of them.
TOGETHER = (
    (
        "s3_access_key_id",
        "s3_secret_access_key",
        "s3_session_token",
        "s3_profile",
        "s3_assume_role_arn",
        "s3_assume_role_external_id",
        "s3_assume_role_session_name",
        "s3_assume_role_seconds",
    ),
    ("azure_account_key", "azure_sas_token"),
    ("azure_tenant_id", "azure_client_id", "azure_client_secret", "azure_federated_token_file"),
    ("gcs_service_account_key_file", "gcs_service_account_key", "gcs_token"),
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

_ENDPOINTS = ("s3_endpoint", "azure_endpoint", "gcs_endpoint")
_LEAST = {
    "max_requests_in_flight": 1,
    "connect_timeout_seconds": 0.001,
    "request_timeout_seconds": 0.001,
    "transient_retries": 0,
    "throttle_patience_seconds": 0,
    "first_pause_seconds": 0,
}


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """Options of one S3 bucket or one Azure account, in place of the general ones."""

    kind: str  # "s3" or "azure"
    name: str  # of the bucket or the account
    values: tuple[tuple[str, str], ...] = field(repr=False)  # option and text; may hold secrets


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
    s3_assume_role_arn: str | None = None  # a role to take on, asked for with the other credentials
    s3_assume_role_external_id: str | None = None
    s3_assume_role_session_name: str | None = None
    s3_assume_role_seconds: int | None = None  # how long the role's credentials last
    azure_account_key: str | None = None
    azure_sas_token: str | None = None
    azure_tenant_id: str | None = None
    azure_client_id: str | None = None
    azure_client_secret: str | None = None
    azure_federated_token_file: str | None = None
    azure_endpoint: str | None = (
        None  # of the account, in place of the one that its name stands for
    )
    gcs_service_account_key_file: str | None = None
    gcs_service_account_key: str | None = None  # the key file's JSON itself
    gcs_token: str | None = None  # an OAuth 2 access token, used as it is until it ends
    gcs_endpoint: str | None = (
        None  # an emulator, which is asked without credentials unless a token is given
    )
    local_fsync: bool = True  # off: a write may be lost with the machine's power
    max_requests_in_flight: int = 64
    connect_timeout_seconds: float = 10.0
    request_timeout_seconds: float = 60.0
    transient_retries: int = 6  # of what is safe to repeat
    throttle_patience_seconds: float = 120.0  # how long one request puts up with "slow down"
    first_pause_seconds: float = 0.1  # before the first retry, at most; doubles with each
    places: tuple[PlaceOptions, ...] = ()

    def __post_init__(self) -> None:
        for name in _ENDPOINTS:
            endpoint = getattr(self, name)
            if endpoint is not None and not _is_address(endpoint):
                raise ConfigError(
                    f"storage option {name!r} is not an address: {endpoint!r}; nothing was touched. Write it as "
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
        del kinds["places"]
        parsed: dict[str, object] = {}
        for name, text in values.items():
            if name not in kinds:
                near = difflib.get_close_matches(name, kinds, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigError(f"unknown storage option {name!r}{hint}; nothing was touched.")
            parsed[name] = _parsed(name, kinds[name], text)
        return dataclasses.replace(self, **parsed)  # type: ignore[arg-type]

    def over(self, values: Mapping[str, str]) -> StorageOptions:
        """A copy with `values` set; of options that belong together, those not given are unset."""
        options = self
        for group in TOGETHER:
            if any(name in values for name in group):
                options = dataclasses.replace(options, **dict.fromkeys(group))  # type: ignore[arg-type]
        return options.with_values(values)

    def for_location(self, location: Location) -> StorageOptions:
        """The options for one place: those of its bucket or account over the general ones."""
        if not self.places:
            return self
        options = dataclasses.replace(self, places=())
        name = location.account if location.kind == "azure" else location.container
        for place in self.places:
            if (place.kind, place.name) == (location.kind, name):
                options = options.over(dict(place.values))
        return options

    def masked(self) -> dict[str, object]:
        """Every option that is set, secrets as `***`."""
        shown: dict[str, object] = {}
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if value is not None and option.name != "places":
                shown[option.name] = "***" if option.name in _SECRETS else value
        return shown

    def secrets(self) -> frozenset[str]:
        """The secret values themselves, for whoever must keep them out of a text."""
        own = {value for name in _SECRETS if (value := getattr(self, name))}
        return frozenset(
            own | {v for place in self.places for name, v in place.values if name in _SECRETS}
        )

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.masked().items())
        return f"StorageOptions({inner})"


def _parsed(name: str, kind: object, text: str) -> object:
    try:
        if kind in (int, int | None):
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
