"""Client properties: which source counts, and what is not known."""

from __future__ import annotations

import logging

import pytest

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.client_properties import (
    ClientProperties,
    parse_properties,
    read_client_properties,
)
from lakesweep.errors import ConfigError

TYPE = "nessie.authentication.type"
TOKEN = "nessie.authentication.token"


def write(home, files) -> None:
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_given_then_environment_then_files(tmp_path):
    """The order of Nessie's own clients."""
    sources = {
        "given": {TOKEN: "given"},
        "environment": {"NESSIE_AUTHENTICATION_TOKEN": "environment"},
        "properties": {".config/nessie/nessie-client.properties": f"{TOKEN}=properties\n"},
        "dotenv": {".env": "NESSIE_AUTHENTICATION_TOKEN=dotenv\n"},
    }
    for count, name in enumerate(sources):
        left = dict(list(sources.items())[count:])
        home = tmp_path / name
        home.mkdir()
        write(home, left.get("properties", {}) | left.get("dotenv", {}))
        found = read_client_properties(
            left.get("given", {}), environment=left.get("environment", {}), home=home
        )
        assert found.get(TOKEN) == name


def test_absent_files_and_blank_values_are_nothing(tmp_path):
    """A blank value does not count as set."""
    found = read_client_properties({TYPE: "  "}, environment={}, home=tmp_path)
    assert found.get(TYPE) is None
    assert found.get(TOKEN) is None


def test_a_file_that_can_not_be_read_is_told(tmp_path):
    """Ignoring it could mean asking without credentials."""
    (tmp_path / ".env").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match=r"\.env"):
        read_client_properties({}, environment={}, home=tmp_path)


def test_an_unknown_option_is_warned_of_with_its_neighbour(tmp_path, caplog):
    """Options that only matter to a JVM are fine."""
    with caplog.at_level(logging.WARNING):
        read_client_properties(
            {"nessie.transport.read-timeot": "secret", "nessie.http2-upgrade": "true"},
            environment={},
            home=tmp_path,
        )
    assert len(caplog.records) == 1
    assert "did you mean nessie.transport.read-timeout?" in caplog.text
    assert "secret" not in caplog.text


UNHONOURED = "nessie.authentication.oauth2.token-exchange-enabled"


@pytest.mark.parametrize(
    ("given", "environment", "file"),
    [
        ({UNHONOURED: "true"}, {}, ""),
        ({"nessie.authentication.tokn": "secret"}, {}, ""),
        ({}, {"NESSIE_AUTHENTICATION_OAUTH2_IMPERSONATION_ENABLED": "true"}, ""),
        ({}, {}, f"{UNHONOURED}=true"),
    ],
    ids=["given", "misspelt", "variable", "file"],
)
def test_authentication_is_honoured_or_refused(tmp_path, given, environment, file):
    """Asked as another user than was meant, Nessie leaves out references without a word."""
    write(tmp_path, {".config/nessie/nessie-client.properties": file})
    with pytest.raises(ConfigError, match="not honoured") as refused:
        read_client_properties(given, environment=environment, home=tmp_path)
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    "properties",
    [
        {TOKEN: "secret"},
        {TYPE: "BASIC", "nessie.authentication.username": "u", TOKEN: "secret"},
        {TYPE: "NONE", "nessie.authentication.oauth2.client-id": "c"},
        {TYPE: "BEARER", TOKEN: "secret", "nessie.authentication.aws.region": "eu-west-1"},
    ],
)
def test_credentials_that_the_type_does_not_use_are_refused(properties):
    """A token without a type means a mistake, and not a guest."""
    with pytest.raises(ConfigError, match="does not use it") as refused:
        NessieClient("http://nessie/api/v2", ClientProperties(properties))
    assert "secret" not in refused.value.message


def test_values_are_not_shown(tmp_path):
    """They hold secrets."""
    found = read_client_properties({TOKEN: "secret"}, environment={}, home=tmp_path)
    assert TOKEN in repr(found)
    assert "secret" not in repr(found)


def test_java_properties_are_read_as_java_does():
    """Separators, comments, escapes, and lines that go on."""
    text = "# a comment\n! another\na=1\nb : 2\nc 3\n d=x\\\n   y\ne\\=f=\\u0041\\t.\ng=\nh=a=b\n"
    assert parse_properties(text) == {
        **{"a": "1", "b": "2", "c": "3", "d": "xy"},
        **{"e=f": "A\t.", "g": "", "h": "a=b"},
    }
