"""The command line, then NESSIE_GC_ variables, then the default; the traps of the original are none here."""

from __future__ import annotations

from typing import Any

import pytest

from lakesweep.errors import ConfigError
from lakesweep.secrets import known_secrets, secrets_in_url
from lakesweep.settings.nessie_options import NESSIE_OPTION, NESSIE_OPTIONS
from lakesweep.settings.nessie_values import OptionValues, refuse_misspelt_variables

# Option, letter, default, as nessie-gc has them.
NESSIE_GC = {
    "--inmemory": ("", None),
    "--jdbc": ("", None),
    "--jdbc-url": ("", None),
    "--jdbc-user": ("", None),
    "--jdbc-password": ("", None),
    "--jdbc-properties": ("", None),
    "--jdbc-fetch-size": ("", "100"),
    "--jdbc-pool-max-size": ("", "5"),
    "--jdbc-schema": ("", None),
    "--time-zone": ("", None),
    "--uri": ("-u", "http://localhost:19120/api/v2"),
    "--nessie-option": ("-o", None),
    "--nessie-client": ("", None),
    "--nessie-api": ("", None),
    "--default-cutoff": ("-c", "NONE"),
    "--cutoff": ("-C", None),
    "--cutoff-ref-time": ("-R", None),
    "--write-live-set-id-to": ("", None),
    "--identify-parallelism": ("", "4"),
    "--live-set-id": ("-l", None),
    "--read-live-set-id-from": ("-L", None),
    "--max-file-modification": ("", None),
    "--expiry-parallelism": ("", "4"),
    "--expected-file-count": ("", "1000000"),
    "--fpp": ("", "0.00001"),
    "--allowed-fpp": ("", "0.0001"),
    "--defer-deletes": ("", "false"),
    "--iceberg": ("-I", None),
    "--hadoop": ("-H", None),
    "--with-deferred-deletes": ("-D", None),
    "--with-content-references": ("-C", None),
    "--with-base-locations": ("-B", None),
}
OURS = {
    "--collect-dropped",
    "--dropped-grace",
    *("--keep-state-at-cutoff", "--keep-all-snapshots", "--grace", "--give-up", "--no-reverify"),
    *(
        "--max-delete-share",
        "--confirm",
        "--work-location",
        "--catalog-moved",
        "--price",
        "--no-save",
    ),
}


def test_every_option_of_nessie_gc_is_there_with_its_letter_and_default() -> None:
    """And beside them only those that the documentation names."""
    declared = {o.flag: (o.short, o.default) for o in NESSIE_OPTIONS}
    assert {flag: declared[flag] for flag in NESSIE_GC} == NESSIE_GC
    assert declared.keys() - NESSIE_GC.keys() == OURS


def test_variables_are_named_after_the_options() -> None:
    """`--jdbc-password` is NESSIE_GC_JDBC_PASSWORD; a live set is never named by the environment."""
    variables = {o.flag: o.variable for o in NESSIE_OPTIONS}
    assert variables["--jdbc-password"] == "NESSIE_GC_JDBC_PASSWORD"
    assert variables["--defer-deletes"] == "NESSIE_GC_DEFER_DELETES"
    assert variables["--work-location"] == "LAKESWEEP_NESSIE_WORK_LOCATION"
    assert variables["--live-set-id"] == variables["--give-up"] == variables["--confirm"] == ""
    assert variables["--no-reverify"] == variables["--catalog-moved"] == ""


def given(env: dict[str, str] | None = None, **flags: Any) -> OptionValues:
    return OptionValues(NESSIE_OPTIONS, flags, env or {})


def test_the_environment_stands_between_command_line_and_default() -> None:
    """An empty variable is none."""
    env = {"NESSIE_GC_URI": "http://env"}
    assert given(env, uri="http://flag")["uri"] == "http://flag"
    assert given(env)["uri"] == "http://env"
    assert given({"NESSIE_GC_URI": " "})["uri"] == "http://localhost:19120/api/v2"
    assert given(env).is_given("uri")
    assert not given().is_given("uri")


def test_a_variable_counts_for_commands_that_have_the_option() -> None:
    """A time for sweeps says nothing about the deletion of recorded files."""
    env = {"NESSIE_GC_MAX_FILE_MODIFICATION": "2026-04-01T00:00:00Z"}
    deferred = OptionValues([NESSIE_OPTION["grace"]], {}, env)
    assert deferred["max_file_modification"] is None
    assert given(env)["max_file_modification"] is not None


def test_pairs_of_the_environment_are_split_and_replaced_as_a_whole() -> None:
    """A --cutoff on the command line is not mixed with those of the variable."""
    env = {"NESSIE_GC_CUTOFF": "main=3,dev=4"}
    assert given(env)["cutoff"] == {"main": "3", "dev": "4"}
    assert given(env, cutoff=["v=1"])["cutoff"] == {"v": "1"}


@pytest.mark.parametrize("variable", ["true", "false", None])
def test_defer_deletes_means_what_it_says(variable: str | None) -> None:
    """In the original, the variable together with the flag turns deferring off, and files are deleted at once."""
    env = {"NESSIE_GC_DEFER_DELETES": variable} if variable else {}
    assert given(env, defer_deletes=True)["defer_deletes"] is True
    assert given(env, defer_deletes=False)["defer_deletes"] is False
    assert given(env)["defer_deletes"] is (variable == "true")


def test_a_wrong_value_names_its_place() -> None:
    """The variable, not the flag that nobody wrote."""
    with pytest.raises(ConfigError, match="NESSIE_GC_DEFER_DELETES: 'maybe' is neither true"):
        given({"NESSIE_GC_DEFER_DELETES": "maybe"})["defer_deletes"]
    with pytest.raises(ConfigError, match="--cutoff: write REGEX=POLICY"):
        given(cutoff=["main"])["cutoff"]


def test_a_misspelt_variable_is_an_error() -> None:
    """`…DEFER_DELETE=true` was meant to keep files."""
    with pytest.raises(ConfigError, match="NESSIE_GC_DEFER_DELETES is"):
        refuse_misspelt_variables({"NESSIE_GC_DEFER_DELETE": "true"})
    refuse_misspelt_variables(
        {"NESSIE_GC_SERVICE_HOST": "10.0.0.1", "NESSIE_GC_PORT": "tcp://x", "NESSIE_GC_JAR": "x"}
    )
    refuse_misspelt_variables({o.variable: "x" for o in NESSIE_OPTIONS if o.variable})
    with pytest.raises(ConfigError, match="LAKESWEEP_NESSIE_KEEP_ALL_SNAPSHOTS is"):
        refuse_misspelt_variables({"LAKESWEEP_NESSIE_KEEP_ALL_SNAPSHOT": "true"})
    with pytest.raises(ConfigError, match="command line only"):
        refuse_misspelt_variables({"LAKESWEEP_NESSIE_GIVE_UP": "c-1"})


@pytest.mark.parametrize(
    ("flags", "secret"),
    [
        ({"jdbc_password": "pass-one"}, "pass-one"),
        ({"jdbc_url": "jdbc:postgresql://h/db?user=a&password=pass-two"}, "pass-two"),
        ({"jdbc_url": "postgresql://a:pass-three@h/db"}, "pass-three"),
        ({"jdbc_properties": ["user=a,password=pass-four"]}, "pass-four"),
        ({"nessie_option": ["nessie.authentication.token=tok-five"]}, "tok-five"),
        ({"iceberg": ["s3.secret-access-key=sec-six"]}, "sec-six"),
        ({"hadoop": ["fs.s3a.secret.key=sec-seven"]}, "sec-seven"),
        ({"uri": "http://me:pass-eight@nessie/api/v2"}, "pass-eight"),
    ],
)
def test_secrets_are_known_as_soon_as_they_are_read(flags: dict[str, Any], secret: str) -> None:
    """Before anything can fail over them and quote them."""
    given(**flags)
    assert secret not in known_secrets.mask(f"failed with {secret}!")


def test_a_token_of_spark_connect_is_masked_to_its_end() -> None:
    """Spark reads it up to the next ';', whatever a URL's own parameters end at."""
    assert secrets_in_url("sc://spark:15002/;token=tok&ten;x=1") >= {"tok&ten"}
    assert secrets_in_url("jdbc:mysql://h/db?user=a&password=pass-ten") == {"pass-ten"}


def test_secrets_of_the_environment_too() -> None:
    """Most passwords come from there."""
    given({"NESSIE_GC_JDBC_PASSWORD": "pass-nine"})
    assert "pass-nine" not in known_secrets.mask("pass-nine")
