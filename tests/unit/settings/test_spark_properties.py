"""Properties that lakeFS users already have are honoured, and a misspelt one is never passed over."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.secrets import SecretMask
from lakesweep.settings.load import load_settings
from lakesweep.settings.values import Settings


def load(properties: dict[str, str], flags: dict[str, object] | None = None) -> Settings:
    hadoop = {f"spark.hadoop.{name}": value for name, value in properties.items()}
    return load_settings(
        flags, env={}, spark_properties=hadoop, home=Path("/nonexistent"), mask=SecretMask()
    )


def test_all_properties_of_the_server_and_the_run_are_honoured() -> None:
    """Each listed `lakefs.*` property reaches its setting."""
    settings = load(
        {
            "lakefs.api.url": "http://x/api/v1",
            "lakefs.api.access_key": "key",
            "lakefs.api.secret_key": "shh-secret",
            "lakefs.api.read.timeout_seconds": "30",
            "lakefs.api.connection.timeout_seconds": "5",
            "lakefs.gc.prepare_commits.timeout_seconds": "2400",
            "lakefs.gc.range.num_partitions": "11",
            "lakefs.gc.address.num_partitions": "22",
            "lakefs.gc.do_sweep": "false",
            "lakefs.gc.mark_id": "mine",
            "lakefs.debug.gc.uncommitted_min_age_seconds": "172800",
        }
    )
    server = settings.server
    assert server.access()[0] == "http://x/api/v1"
    assert server.read_timeout == timedelta(seconds=30)
    assert server.connect_timeout == timedelta(seconds=5)
    assert server.prepare_timeout == timedelta(seconds=2400)
    assert settings.collect.range_partitions == 11
    assert settings.collect.address_partitions == 22
    assert settings.collect.do_sweep is False
    assert settings.collect.mark_id == "mine"
    assert settings.collect.min_age == timedelta(days=2)


def test_range_read_parallelism_sets_the_reading_tasks() -> None:
    """The original's own property for it wins over the number of range partitions."""
    settings = load(
        {"lakefs.job.range_read_parallelism": "4", "lakefs.gc.range.num_partitions": "9"}
    )
    assert settings.collect.range_partitions == 4


def test_an_unknown_property_names_the_nearest_known_one() -> None:
    """A misspelt guard must not silently be off."""
    with pytest.raises(ConfigError) as error:
        load({"lakefs.gc.do_sweeps": "false"})
    assert "spark.hadoop.lakefs.gc.do_sweep." in error.value.message
    assert error.value.kind == "unknown-property"


def test_other_fs_properties_are_left_alone() -> None:
    """Hadoop has hundreds; only those that say how to reach a store are ours."""
    settings = load({"fs.s3a.threads.max": "20", "fs.lakefs.impl": "x"})
    assert settings.warnings == ()


def test_s3a_properties_become_store_options_and_go_no_further() -> None:
    """Spark is not handed the stores' secrets."""
    settings = load(
        {
            "fs.s3a.access.key": "AK",
            "fs.s3a.secret.key": "shh-secret",
            "fs.s3a.session.token": "shh-token",
            "fs.s3a.endpoint": "127.0.0.1:9000",
            "fs.s3a.endpoint.region": "eu-west-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "other": "kept",
        }
    )
    storage = settings.storage
    assert storage.s3_access_key_id == "AK"
    assert storage.s3_secret_access_key == "shh-secret"
    assert storage.s3_session_token == "shh-token"
    assert storage.s3_endpoint == "http://127.0.0.1:9000"
    assert storage.s3_region == "eu-west-1"
    assert storage.s3_path_style is True
    assert storage.s3_allow_http is True
    assert settings.spark.conf == {"spark.hadoop.other": "kept"}


def test_keys_of_the_environment_do_not_mix_with_keys_of_spark() -> None:
    """A session token of the environment would make Spark's key pair useless."""
    settings = load_settings(
        {},
        env={
            "AWS_ACCESS_KEY_ID": "e",
            "AWS_SECRET_ACCESS_KEY": "env-secret",
            "AWS_SESSION_TOKEN": "t",
        },
        spark_properties={
            "spark.hadoop.fs.s3a.access.key": "s",
            "spark.hadoop.fs.s3a.secret.key": "spark-secret",
        },
        home=Path("/nonexistent"),
        mask=SecretMask(),
    )
    assert settings.storage.s3_access_key_id == "s"
    assert settings.storage.s3_secret_access_key == "spark-secret"
    assert settings.storage.s3_session_token is None


def test_each_azure_account_has_its_own_key() -> None:
    """A cluster may know several; the place decides."""
    settings = load(
        {
            "fs.azure.account.key.one.dfs.core.windows.net": "key-of-one",
            "fs.azure.account.key.two.blob.core.windows.net": "key-of-two",
            "fs.azure.sas.lake.three.blob.core.windows.net": "sas-of-three",
        }
    )
    one = Location.parse("https://one.blob.core.windows.net/lake/ns")
    two = Location.parse("abfss://lake@two.dfs.core.windows.net/ns")
    three = Location.parse("https://three.blob.core.windows.net/lake/ns")
    assert settings.storage.for_location(one).azure_account_key == "key-of-one"
    assert settings.storage.for_location(two).azure_account_key == "key-of-two"
    assert settings.storage.for_location(three).azure_sas_token == "sas-of-three"
    assert settings.storage.for_location(Location.parse("s3://b/k")).azure_account_key is None


def test_a_key_given_by_flag_goes_before_every_azure_property() -> None:
    """The flag is the user's last word."""
    settings = load(
        {"fs.azure.account.key.one.dfs.core.windows.net": "key-of-one"},
        {"storage_option": ["azure_account_key=by-flag"]},
    )
    one = Location.parse("https://one.blob.core.windows.net/lake/ns")
    assert settings.storage.for_location(one).azure_account_key == "by-flag"


def test_google_key_file_is_honoured() -> None:
    """As in lakeFS's own client."""
    settings = load({"google.cloud.auth.service.account.json.keyfile": "/k.json"})
    assert settings.storage.gcs_service_account_key_file == "/k.json"


def test_no_delete_warns_and_means_do_sweep_false() -> None:
    """Deprecated, and still safe to rely on."""
    settings = load({"lakefs.debug.gc.no_delete": "true"})
    assert settings.collect.do_sweep is False
    assert "deprecated" in settings.warnings[0]
    assert load({"lakefs.debug.gc.no_delete": "false"}).collect.do_sweep is True


@pytest.mark.parametrize("word", ["1", "yes", "on", " True "])
def test_no_delete_is_read_as_every_other_switch(word: str) -> None:
    """Whoever writes `1` where do_sweep takes `0` means that nothing may be deleted."""
    name = "lakefs.debug.gc.no_delete"
    assert load({name: word}).collect.do_sweep is False
    spelt_twice = {f"spark.hadoop.{name}": "no", name: word}
    settings = load_settings(
        {}, env={}, spark_properties=spelt_twice, home=Path("/nonexistent"), mask=SecretMask()
    )
    assert settings.collect.do_sweep is False


@pytest.mark.parametrize("seconds", ["3600", "0", "-5", "", "86400"])
def test_a_property_never_lowers_the_minimum_age(seconds: str) -> None:
    """It may raise it; what would lower it is left out with a warning."""
    settings = load({"lakefs.debug.gc.uncommitted_min_age_seconds": seconds})
    assert settings.collect.min_age is None
    assert "never lower it" in settings.warnings[0]


@pytest.mark.parametrize("seconds", ["172800.0", "2d", "48h", " 172800 "])
def test_a_property_raises_the_minimum_age_in_any_spelling_of_seconds(seconds: str) -> None:
    """What is meant to keep more is never passed over."""
    settings = load({"lakefs.debug.gc.uncommitted_min_age_seconds": seconds})
    assert settings.collect.min_age == timedelta(days=2)
    assert settings.warnings == ()


@pytest.mark.parametrize("seconds", ["172,800", "two days", "1e6", "²", "9" * 20])
def test_a_minimum_age_that_nobody_can_read_is_an_error(seconds: str) -> None:
    """It may be meant to keep more, as a misspelt switch may."""
    with pytest.raises(ConfigError, match=r"uncommitted_min_age_seconds: .*Nothing was touched"):
        load({"lakefs.debug.gc.uncommitted_min_age_seconds": seconds})


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"lakefs.gc.do_mark": "false", "lakefs.gc.do_sweep": "false"}, "nothing-asked"),
        ({"lakefs.gc.do_mark": "false", "lakefs.debug.gc.no_delete": "true"}, "nothing-asked"),
        ({"lakefs.gc.do_mark": "false"}, "no-mark-id"),
        ({"lakefs.gc.mark_id": "m"}, "mark-id-unclear"),
        ({"lakefs.gc.do_sweep": "perhaps"}, "config"),
        ({"lakefs.debug.gc.no_delete": "ture"}, "config"),
        ({"lakefs.gc.do_sweep": "false", "lakefs.gc.mark_id": "../m"}, "config"),
    ],
)
def test_wrong_combinations_are_refused(properties: dict[str, str], kind: str) -> None:
    """Every wrong combination is an error and never a guess."""
    with pytest.raises(ConfigError) as error:
        load(properties)
    assert error.value.kind == kind
    assert "spark.hadoop.lakefs" in error.value.message


def test_a_sweep_of_an_earlier_mark_has_no_use_for_an_inventory() -> None:
    """It would be left unread without a word."""
    earlier = {"lakefs.gc.do_mark": "false", "lakefs.gc.mark_id": "m"}
    with pytest.raises(ConfigError, match="--inventory takes the place of a listing") as error:
        load(earlier, {"inventory": "s3://inventories/lake"})
    assert error.value.kind == "idle-inventory"


def test_sweep_only_takes_the_mark_named() -> None:
    """The seeds' second stage."""
    settings = load({"lakefs.gc.do_mark": "false", "lakefs.gc.mark_id": "m"})
    assert (settings.collect.do_mark, settings.collect.do_sweep) == (False, True)
    assert settings.collect.mark_id == "m"
