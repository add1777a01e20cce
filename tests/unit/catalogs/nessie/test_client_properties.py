"""Client properties: which source counts, and what is not known."""

from __future__ import annotations

import logging

import pytest

from lakesweep.catalogs.nessie.client_properties import parse_properties, read_client_properties
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
            {"nessie.authentication.tokn": "secret", "nessie.http2-upgrade": "true"},
            environment={},
            home=tmp_path,
        )
    assert len(caplog.records) == 1
    assert f"did you mean {TOKEN}?" in caplog.text
    assert "secret" not in caplog.text


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
