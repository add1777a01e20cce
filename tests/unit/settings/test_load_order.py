"""Which source wins, and that each value knows where it came from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.engine.process_tree import VARIABLE
from lakesweep.errors import ConfigError
from lakesweep.secrets import SecretMask
from lakesweep.settings.load import load_settings
from lakesweep.settings.values import Settings

URL = "spark.hadoop.lakefs.api.url"


def load(
    flags: dict[str, object] | None = None,
    *,
    env: dict[str, str] | None = None,
    properties: dict[str, str] | None = None,
    home: Path = Path("/nonexistent"),
) -> Settings:
    return load_settings(
        flags, env=env or {}, spark_properties=properties, home=home, mask=SecretMask()
    )


def source_of(settings: Settings, name: str) -> str:
    return next(line.source for line in settings.values if line.name == name)


@pytest.fixture
def lakectl_home(tmp_path: Path) -> Path:
    (tmp_path / ".lakectl.yaml").write_text(
        "credentials:\n  access_key_id: yaml-key\n  secret_access_key: yaml-secret\n"
        "server:\n  endpoint_url: http://yaml\n"
    )
    return tmp_path


def test_each_source_gives_way_to_the_one_before_it(tmp_path: Path, lakectl_home: Path) -> None:
    """Flag, variable, file, Spark property, lakectl's variable, lakectl's file, in that order."""
    config = tmp_path / "lakesweep.toml"
    config.write_text('endpoint-url = "http://file"\n')
    flags: dict[str, object] = {"endpoint_url": "http://flag", "config": config}
    env = {
        "LAKESWEEP_ENDPOINT_URL": "http://variable",
        "LAKECTL_SERVER_ENDPOINT_URL": "http://lakectl-variable",
    }
    properties = {URL: "http://property"}

    def endpoint() -> tuple[str | None, str]:
        settings = load(flags, env=env, properties=properties, home=lakectl_home)
        return settings.server.endpoint_url, source_of(settings, "endpoint_url")

    assert endpoint() == ("http://flag", "--endpoint-url")
    del flags["endpoint_url"]
    assert endpoint() == ("http://variable", "LAKESWEEP_ENDPOINT_URL")
    del env["LAKESWEEP_ENDPOINT_URL"]
    assert endpoint() == ("http://file", f"{config}: endpoint-url")
    del flags["config"]
    assert endpoint() == ("http://property", URL)
    del properties[URL]
    assert endpoint() == ("http://lakectl-variable", "LAKECTL_SERVER_ENDPOINT_URL")
    del env["LAKECTL_SERVER_ENDPOINT_URL"]
    where = f"{lakectl_home / '.lakectl.yaml'}: server.endpoint_url"
    assert endpoint() == ("http://yaml", where)


def test_a_user_of_lakectl_configures_nothing(lakectl_home: Path) -> None:
    """`~/.lakectl.yaml` alone is enough to reach the server."""
    access = load(home=lakectl_home).server.access()
    assert access == ("http://yaml", "yaml-key", "yaml-secret")


def test_without_a_server_the_message_says_what_is_missing_and_where_it_could_be() -> None:
    """Only the missing parts are named."""
    settings = load(env={"LAKECTL_SERVER_ENDPOINT_URL": "http://x"})
    with pytest.raises(
        ConfigError, match=r"Missing: access key id, secret access key\. .*lakectl config"
    ):
        settings.server.access()


def test_a_key_and_its_secret_come_from_one_place(lakectl_home: Path) -> None:
    """A key id of our own never goes out with the secret of lakectl's user."""
    settings = load(env={"LAKESWEEP_ACCESS_KEY_ID": "other"}, home=lakectl_home)
    assert settings.server.access_key_id == "other"
    assert settings.server.secret_access_key is None


def test_flag_and_variable_make_one_pair() -> None:
    """The secret has no flag, so a key id given by flag goes with LAKESWEEP_SECRET_ACCESS_KEY."""
    settings = load({"access_key_id": "k"}, env={"LAKESWEEP_SECRET_ACCESS_KEY": "shh-shh"})
    assert settings.server.access_key_id == "k"
    assert settings.server.secret_access_key == "shh-shh"


def test_a_broken_lakectl_file_is_left_out_with_a_word(tmp_path: Path) -> None:
    """It belongs to another program, so it stops nothing, and its text is not repeated."""
    (tmp_path / ".lakectl.yaml").write_text("credentials: [hush-hush-secret\n")
    settings = load(home=tmp_path)
    assert len(settings.warnings) == 1
    assert "not YAML" in settings.warnings[0]
    assert "hush-hush-secret" not in settings.warnings[0]


def test_a_config_file_speaks_toml_with_the_flags_names(tmp_path: Path) -> None:
    """Lists, tables, switches, numbers and times are TOML's own."""
    config = tmp_path / "c.toml"
    config.write_text(
        'min-age = "3d"\nkeep_ref = ["v1", "v2"]\nkeep-tags = true\nrange-partitions = 7\n'
        "now = 2024-05-01T00:00:00Z\n"
        '[conf]\n"spark.executor.cores" = 2\n[storage-option]\ns3_region = "eu-west-1"\n'
    )
    settings = load({"config": config})
    assert settings.collect.min_age == timedelta(days=3)
    assert settings.collect.keep_refs == ("v1", "v2")
    assert settings.collect.keep_tags is True
    assert settings.collect.range_partitions == 7
    assert settings.collect.now is not None
    assert settings.spark.conf == {"spark.executor.cores": "2"}
    assert settings.storage.s3_region == "eu-west-1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('min-ago = "3d"\n', "'min-ago' is not a setting of lakesweep. Did you mean min-age"),
        ("min-age = \n", "is not TOML"),
        ('min-age = "three days"\n', "min-age: 'three days' is not a duration"),
        ("do-sweep = false\n", "'do-sweep' is not a setting"),
        ("min-age = 3\n", "min-age: '3' is not a duration. Write one like"),
        ('min-age = ""\n', "min-age: '' is not a duration. Write one like"),
        ("now = 07:32:00\n", "now: '07:32:00' is not a time. Write one like"),
        ('min-age = "3d"\nmin_age = "4d"\n', "min-age stands there twice"),
    ],
)
def test_a_wrong_config_file_is_an_error_that_names_it(
    tmp_path: Path, text: str, message: str
) -> None:
    """A typing error in a file never passes for a default."""
    config = tmp_path / "c.toml"
    config.write_text(text)
    with pytest.raises(ConfigError) as error:
        load({"config": config})
    assert str(config) in error.value.message
    assert message in error.value.message


def test_a_date_in_a_config_file_needs_no_quotes(tmp_path: Path) -> None:
    """TOML has dates, and a user writes one."""
    config = tmp_path / "c.toml"
    config.write_text("now = 2024-05-01\n")
    assert load({"config": config}).collect.now == datetime(2024, 5, 1, tzinfo=UTC)


def test_a_missing_config_file_is_an_error() -> None:
    """A file that was asked for and is not there is not the same as no file."""
    with pytest.raises(ConfigError, match="can't be read"):
        load(env={"LAKESWEEP_CONFIG": "/nonexistent/c.toml"})


def test_lists_in_the_environment_are_split_as_a_shell_would() -> None:
    """Values with spaces can be quoted."""
    settings = load(
        env={"LAKESWEEP_KEEP_REF": "v1 v2", "LAKESWEEP_CONF": "spark.a=1 'spark.b=x y'"}
    )
    assert settings.collect.keep_refs == ("v1", "v2")
    assert settings.spark.conf == {"spark.a": "1", "spark.b": "x y"}


def test_an_unknown_variable_of_ours_is_worth_a_warning() -> None:
    """It may be one of another version, or of a service of that name in Kubernetes."""
    settings = load(env={"LAKESWEEP_PORT_80_TCP": "tcp://", "LAKESWEEP_CACHE": "/c"})
    assert settings.warnings == (
        "LAKESWEEP_PORT_80_TCP in the environment is not a setting of lakesweep.",
    )


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("LAKESWEEP_DRYRUN", "LAKESWEEP_DRY_RUN"),
        ("LAKESWEEP_KEEP_REFS", "LAKESWEEP_KEEP_REF"),
        ("LAKESWEEP_MIN_AEG", "LAKESWEEP_MIN_AGE"),
        ("LAKESWEEP_CONFG", "LAKESWEEP_CONFIG"),
    ],
)
def test_a_misspelt_variable_is_an_error(variable: str, meant: str) -> None:
    """It may have been meant to keep data, and would be the default."""
    with pytest.raises(ConfigError, match=f"{variable} .*{meant} is") as caught:
        load(env={variable: "true"})
    assert caught.value.kind == "unknown-variable"


def test_a_property_that_nobody_reads_is_worth_a_warning() -> None:
    """Spark leaves it out without a word."""
    settings = load({"conf": ["executor.memory=4g", "spark.a=b", "fs.s3a.retry.limit=2"]})
    assert settings.warnings == (
        "--conf: executor.memory has no effect: names of Spark's properties begin with `spark.`.",
    )


def test_a_command_that_lakesweep_starts_is_not_warned_of_what_it_inherits() -> None:
    """Processes that a run starts carry a variable of ours, and some of them are commands."""
    assert load(env={VARIABLE: "mark-of-the-parent"}).warnings == ()


def test_every_setting_is_shown_with_a_source() -> None:
    """`config show` has a line for each declared setting; the two tables are shown entry by entry."""
    from lakesweep.settings.lakefs_options import SETTINGS

    shown = {line.name for line in load().values}
    assert {s.name for s in SETTINGS} - {"conf", "storage_option"} <= shown


def test_region_argument_goes_before_the_environment() -> None:
    """The seeds' second argument sets the store's region."""
    settings = load_settings(
        {},
        env={"AWS_REGION": "eu-west-1", "HOME": "/nonexistent"},
        region="us-east-2",
        mask=SecretMask(),
    )
    assert settings.storage.s3_region == "us-east-2"
    assert source_of(settings, "storage.s3_region") == "argument REGION"


def test_minio_needs_one_variable() -> None:
    """`AWS_ENDPOINT_URL` reaches the store's options."""
    settings = load(env={"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})
    assert settings.storage.s3_endpoint == "http://127.0.0.1:9000"
    assert source_of(settings, "storage.s3_endpoint") == "AWS variables"


def test_an_id_that_is_too_long_is_told_so() -> None:
    """It has nothing but letters."""
    with pytest.raises(ConfigError, match="not an id: 1 to 200 letters"):
        load({"mark_id": "a" * 201})


def test_a_home_that_nobody_has_is_a_wrong_setting() -> None:
    """Its file is not there, like any other that is misspelt."""
    with pytest.raises(ConfigError, match="~nobody-of-that-name"):
        load({"config": "~nobody-of-that-name/lakesweep.toml"})
