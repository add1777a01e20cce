"""Storage options: read from the environment, picklable, and silent about secrets."""

from __future__ import annotations

import pickle

import pytest

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import ConfigError

SECRET = "very-secret"


def test_default_variables_are_read() -> None:
    """The ecosystem's own names work; the S3 endpoint's own variable goes before the general one."""
    options = StorageOptions.from_environment(
        {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": "http://general",
            "AWS_ENDPOINT_URL_S3": "http://s3",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "AZURE_STORAGE_CONNECTION_STRING": "AccountName=a;AccountKey=a2V5PT0=;EndpointSuffix=x",
            "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
            "PATH": "/bin",
        }
    )
    assert options.s3_access_key_id == "id"
    assert options.s3_endpoint == "http://s3"
    assert options.s3_region == "eu-west-1"
    assert options.azure_account_key == "a2V5PT0="
    assert options.gcs_service_account_key_file == "/key.json"


def test_an_empty_environment_leaves_everything_to_the_default_chains() -> None:
    """Unset and empty variables are the same."""
    assert StorageOptions.from_environment({"AWS_REGION": ""}) == StorageOptions()


def test_no_secret_is_shown() -> None:
    """Neither repr nor the masked view holds a secret; both hold the rest."""
    options = StorageOptions(
        s3_access_key_id=SECRET,
        s3_secret_access_key=SECRET,
        s3_session_token=SECRET,
        azure_account_key=SECRET,
        azure_sas_token=SECRET,
        azure_client_secret=SECRET,
        gcs_service_account_key=SECRET,
        s3_endpoint="http://there",
    )
    assert SECRET not in repr(options) + str(options) + str(options.masked())
    assert "http://there" in repr(options)
    assert options.secrets() == {SECRET}


def test_options_travel_to_executors() -> None:
    """Pickled and back, they are equal."""
    options = StorageOptions(s3_secret_access_key=SECRET, max_requests_in_flight=3)
    assert pickle.loads(pickle.dumps(options)) == options


def test_values_from_a_command_line_are_typed() -> None:
    """Text becomes what the option is."""
    options = StorageOptions().with_values(
        {
            "s3_path_style": "true",
            "max_requests_in_flight": "8",
            "request_timeout_seconds": "2.5",
            "s3_region": "x",
        }
    )
    assert options.s3_path_style is True
    assert options.max_requests_in_flight == 8
    assert options.request_timeout_seconds == 2.5
    assert options.s3_region == "x"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("s3_regoin", "x", "s3_region"),
        ("max_requests_in_flight", "many", "not a number"),
        ("s3_path_style", "maybe", "neither true nor false"),
    ],
)
def test_wrong_values_are_errors(name: str, value: str, words: str) -> None:
    """The message names the nearest option, or what is wrong with the value."""
    with pytest.raises(ConfigError, match=words):
        StorageOptions().with_values({name: value})


@pytest.mark.parametrize("name", ["s3_endpoint", "gcs_endpoint"])
@pytest.mark.parametrize(
    "endpoint",
    [
        "http://localhost:abc",
        "http://localhost:99999",
        "http://localhost:0",
        "localhost:abc",
        "http://",
        "ftp://host",
        "http://[::1",
    ],
)
def test_an_endpoint_that_is_no_address_is_refused(name: str, endpoint: str) -> None:
    """In words, before anything is sent; obstore would end with a panic."""
    with pytest.raises(ConfigError, match=r"is not an address: .* nothing was touched"):
        StorageOptions().with_values({name: endpoint})


@pytest.mark.parametrize(
    "endpoint", ["localhost:9000", "http://[::1]:9000", "https://s3.example.com/folder", "minio"]
)
def test_endpoints_in_all_their_forms(endpoint: str) -> None:
    """With and without a scheme, a port, a path."""
    assert StorageOptions(s3_endpoint=endpoint).s3_endpoint == endpoint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_requests_in_flight", "0"),
        ("max_requests_in_flight", "-3"),
        ("request_timeout_seconds", "0"),
        ("connect_timeout_seconds", "nan"),
        ("throttle_patience_seconds", "inf"),
        ("transient_retries", "-1"),
    ],
)
def test_limits_that_no_request_could_keep_are_refused(name: str, value: str) -> None:
    """Nobody waits for a request that is never made."""
    with pytest.raises(ConfigError, match=f"{name}.*nothing was touched"):
        StorageOptions().with_values({name: value})
