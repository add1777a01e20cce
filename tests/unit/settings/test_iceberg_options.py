"""Iceberg's and Hadoop's file properties reach the stores, and none that could protect files is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.secrets import SecretMask
from lakesweep.settings.iceberg_options import FileAccess, read_file_access, with_file_access
from lakesweep.settings.load import load_settings
from lakesweep.storage import StorageOptions


def stores(
    iceberg: dict[str, str],
    hadoop: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
    flags: dict[str, object] | None = None,
) -> StorageOptions:
    """The storage options that a run would use, those of single places among them."""
    settings = load_settings(flags, env=env or {}, home=Path("/nonexistent"), mask=SecretMask())
    return with_file_access(settings, read_file_access(iceberg, hadoop or {})).storage


def at(uri: str, iceberg: dict[str, str], hadoop: dict[str, str] | None = None) -> StorageOptions:
    """The options by which a store at `uri` would be opened."""
    return stores(iceberg, hadoop).for_location(Location.parse(uri))


ACME = "abfss://lake@acme.dfs.core.windows.net/t"


def test_s3_properties_of_iceberg() -> None:
    """Those that every MinIO user gives."""
    found = stores(
        {
            "s3.access-key-id": "key",
            "s3.secret-access-key": "hush",
            "s3.session-token": "token",
            "s3.endpoint": "http://127.0.0.1:9000",
            "s3.path-style-access": "true",
            "client.region": "eu-west-1",
        }
    )
    assert found == StorageOptions(
        s3_access_key_id="key",
        s3_secret_access_key="hush",
        s3_session_token="token",
        s3_endpoint="http://127.0.0.1:9000",
        s3_path_style=True,
        s3_region="eu-west-1",
    )


def test_s3_properties_of_hadoop() -> None:
    """An endpoint without a scheme takes it from the switch beside it."""
    found = stores(
        {},
        {
            "fs.s3a.access.key": "key",
            "fs.s3a.secret.key": "hush",
            "fs.s3a.endpoint": "127.0.0.1:9000",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.path.style.access": "true",
            "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        },
    )
    assert found.s3_endpoint == "http://127.0.0.1:9000"
    assert (found.s3_access_key_id, found.s3_secret_access_key) == ("key", "hush")
    assert found.s3_path_style is True


def test_iceberg_wins_over_hadoop_and_both_over_the_environment() -> None:
    """nessie-gc reads s3:// files with Iceberg's own client; a key never comes with another key's secret."""
    env = {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "es", "AWS_SESSION_TOKEN": "et"}
    hadoop = {"fs.s3a.access.key": "h", "fs.s3a.secret.key": "hs"}
    found = stores({"s3.access-key-id": "i", "s3.secret-access-key": "is"}, hadoop, env)
    assert (found.s3_access_key_id, found.s3_secret_access_key) == ("i", "is")
    assert found.s3_session_token is None
    assert stores({}, hadoop, env).s3_access_key_id == "h"
    assert stores({}, {}, env).s3_session_token == "et"


def test_azure_accounts() -> None:
    """A shared key, a SAS token, an application, in Iceberg's and in Hadoop's words."""
    shared = {
        "io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
        "adls.auth.shared-key.account.name": "acme",
        "adls.auth.shared-key.account.key": "a2V5",
    }
    assert at(ACME, shared).azure_account_key == "a2V5"
    sas = {"adls.sas-token.acme.dfs.core.windows.net": "sig=1"}
    assert at(ACME, sas).azure_sas_token == "sig=1"
    assert at(ACME, {**shared, **sas}).azure_account_key is None, "the token goes first"
    named = "acme.dfs.core.windows.net"
    assert at(ACME, {}, {f"fs.azure.account.key.{named}": "a2V5"}).azure_account_key == "a2V5"
    application = stores(
        {},
        {
            f"fs.azure.account.auth.type.{named}": "OAuth",
            f"fs.azure.account.oauth2.client.id.{named}": "me",
            f"fs.azure.account.oauth2.client.secret.{named}": "hush",
            f"fs.azure.account.oauth2.client.endpoint.{named}": "https://login.example/home/oauth2/token",
        },
    )
    assert application.azure_client_id == "me"
    assert application.azure_client_secret == "hush"
    assert application.azure_tenant_id == "home"


def test_google_properties() -> None:
    """A key file, and an emulator, which is asked without credentials."""
    key_file = {"google.cloud.auth.service.account.json.keyfile": "/k.json"}
    assert stores({}, key_file).gcs_service_account_key_file == "/k.json"
    emulator = {"gcs.no-auth": "true", "gcs.service.host": "http://127.0.0.1:4443"}
    assert stores({**emulator, "gcs.project-id": "p"}).gcs_endpoint == "http://127.0.0.1:4443"
    with pytest.raises(ConfigError, match="go together"):
        read_file_access({"gcs.service.host": "https://storage.example"}, {})


@pytest.mark.parametrize(
    ("iceberg", "hadoop"),
    [
        ({"s3.delete.batch-size": "250"}, {}),
        ({"s3.delete.num-threads": "8"}, {}),
        ({"http-client.type": "apache"}, {}),
        ({"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}, {}),
        ({"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"}, {}),
        ({"s3.sse.type": "kms"}, {}),
        ({"s3.remote-signing-enabled": "false"}, {}),
        ({}, {"fs.s3a.threads.max": "64"}),
        ({}, {"fs.s3a.aws.credentials.provider": "org.x.SimpleAWSCredentialsProvider"}),
        ({}, {"fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS"}),
    ],
)
def test_what_tunes_the_java_clients_is_accepted(
    iceberg: dict[str, str], hadoop: dict[str, str]
) -> None:
    """It changes nothing here, and a script that gives it works."""
    assert read_file_access(iceberg, hadoop) == FileAccess()


def test_switched_off_deletes_are_seen() -> None:
    """In Iceberg they turn deletes into nothing; whoever sets it does not want files to go."""
    assert read_file_access({}, {}).may_delete is True
    assert read_file_access({"s3.delete-enabled": "true"}, {}).may_delete is True
    assert read_file_access({"s3.delete-enabled": "False"}, {}).may_delete is False
    with pytest.raises(ConfigError, match="neither true nor false"):
        read_file_access({"s3.delete-enabled": "no"}, {})


@pytest.mark.parametrize(
    ("iceberg", "hadoop", "nearest"),
    [
        ({"s3.delete-enable": "false"}, {}, "s3.delete-enabled"),
        ({"s3.deletes-enabled": "false"}, {}, "s3.delete-enabled"),
        ({"s3.access-key": "k"}, {}, "s3.access-key-id"),
        ({"s3.path-style": "true"}, {}, "s3.path-style-access"),
        ({}, {"fs.s3a.acces.key": "k"}, "fs.s3a.access.key"),
        ({}, {"fs.s3a.endpont": "x"}, "fs.s3a.endpoint"),
    ],
)
def test_an_unknown_property_is_an_error_that_names_the_nearest(
    iceberg: dict[str, str], hadoop: dict[str, str], nearest: str
) -> None:
    """Passed over, a misspelt guard would mean real deletes."""
    with pytest.raises(ConfigError, match=f"The nearest known one is {nearest}\\.") as raised:
        read_file_access(iceberg, hadoop)
    assert raised.value.kind == "unknown-property"


@pytest.mark.parametrize(
    ("iceberg", "hadoop"),
    [
        ({"s3.delete.tags.gone": "true"}, {}),
        ({"s3.access-points.bucket": "arn"}, {}),
        ({"s3.sse.type": "custom"}, {}),
        ({"s3.remote-signing-enabled": "true"}, {}),
        ({"client.credentials-provider": "com.acme.Mine"}, {}),
        ({"client.assume-role.tags.team": "gc"}, {}),
        ({"gcs.oauth2.refresh-credentials-endpoint": "x"}, {}),
        ({"io-impl": "com.acme.MyFileIO"}, {}),
        ({}, {"fs.s3a.bucket.lake.threads.max": "9"}),
        ({}, {"fs.s3a.aws.credentials.provider": "com.acme.Mine"}),
        ({}, {"dfs.nameservices": "x"}),
        ({}, {"fs.gs.auth.type": "USER_CREDENTIALS"}),
    ],
)
def test_what_can_not_be_honoured_is_refused(
    iceberg: dict[str, str], hadoop: dict[str, str]
) -> None:
    """Better told why not than run with other credentials, or delete what was to be tagged."""
    with pytest.raises(ConfigError, match="can't be honoured") as raised:
        read_file_access(iceberg, hadoop)
    assert raised.value.kind == "unsupported-property"


def test_half_a_shared_key_is_refused() -> None:
    """As Iceberg does."""
    with pytest.raises(ConfigError, match="one is missing"):
        read_file_access({"adls.auth.shared-key.account.name": "acme"}, {})


def test_each_azure_account_has_its_own_token() -> None:
    """A token of one account is never sent to another."""
    tokens = {"adls.sas-token.one": "a", "adls.sas-token.two.dfs.core.windows.net": "b"}
    assert at("abfss://c@one.dfs.core.windows.net/t", tokens).azure_sas_token == "a"
    assert at("abfss://c@two.dfs.core.windows.net/t", tokens).azure_sas_token == "b"
    assert at("abfss://c@three.dfs.core.windows.net/t", tokens).azure_sas_token is None
    assert stores(tokens).secrets() == {"a", "b"}


def test_an_azure_accounts_own_address() -> None:
    """Iceberg's connection string is an endpoint; the portal's has names and values. Anything else is refused."""
    name = "adls.connection-string.acme.dfs.core.windows.net"
    assert at(ACME, {name: "http://127.0.0.1:10000/acme"}).azure_endpoint == (
        "http://127.0.0.1:10000/acme"
    )
    portal = (
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=a2V5;BlobEndpoint=http://h/acme"
    )
    found = at(ACME, {name: portal})
    assert (found.azure_account_key, found.azure_endpoint) == ("a2V5", "http://h/acme")
    with pytest.raises(ConfigError, match="neither an address"):
        read_file_access({name: "nonsense"}, {})


def test_one_s3_bucket_has_options_of_its_own() -> None:
    """Hadoop's settings for single buckets; a bucket's key never comes with the general secret or token."""
    hadoop = {
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": "s",
        "fs.s3a.session.token": "t",
        "fs.s3a.bucket.my.lake.access.key": "k2",
        "fs.s3a.bucket.my.lake.secret.key": "s2",
        "fs.s3a.bucket.my.lake.endpoint": "minio:9000",
        "fs.s3a.bucket.my.lake.connection.ssl.enabled": "false",
    }
    own = at("s3://my.lake/t", {}, hadoop)
    assert (own.s3_access_key_id, own.s3_secret_access_key) == ("k2", "s2")
    assert own.s3_session_token is None
    assert own.s3_endpoint == "http://minio:9000"
    assert at("s3://other/t", {}, hadoop).s3_access_key_id == "k"
    assert at("s3://other/t", {}, hadoop).s3_endpoint is None


def test_a_google_token() -> None:
    """It takes the place of a key file, and an emulator is asked with it."""
    token = {"gcs.oauth2.token": "hush", "gcs.oauth2.token-expires-at": "1"}
    assert stores(token).gcs_token == "hush"
    assert stores({**token, "gcs.service.host": "http://h"}).gcs_endpoint == "http://h"
    with pytest.raises(ConfigError, match="says otherwise"):
        read_file_access({**token, "gcs.no-auth": "true", "gcs.service.host": "http://h"}, {})


def test_a_role_to_take_on() -> None:
    """The names of Iceberg's AssumeRoleAwsClientFactory."""
    role = {
        "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
        "client.assume-role.arn": "arn:aws:iam::1:role/gc",
        "client.assume-role.region": "eu-west-1",
        "client.assume-role.external-id": "x",
        "client.assume-role.timeout-sec": "900",
    }
    found = stores(role)
    assert found.s3_assume_role_arn == "arn:aws:iam::1:role/gc"
    assert (found.s3_assume_role_external_id, found.s3_assume_role_seconds) == ("x", 900)
    assert found.s3_region == "eu-west-1"
    with pytest.raises(ConfigError, match="arn is missing"):
        read_file_access({"client.assume-role.region": "eu-west-1"}, {})


def test_secrets_stay_out_of_reprs() -> None:
    """Whatever ends up in a log line or a traceback."""
    access = read_file_access(
        {
            "s3.secret-access-key": "hush-hush",
            "adls.auth.shared-key.account.name": "acme",
            "adls.auth.shared-key.account.key": "hush-hush",
        },
        {"fs.s3a.secret.key": "hush-hush"},
    )
    assert "hush" not in repr(access)
