"""JDBC URLs and SQLAlchemy URLs become one kind of address; what can't be honoured is refused."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.urls import parse_database_url
from lakesweep.errors import CatalogError, ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jdbc:postgresql://db:5433/gc", "postgresql+psycopg://db:5433/gc"),
        ("jdbc:postgresql://db/gc", "postgresql+psycopg://db:5432/gc"),
        ("jdbc:postgresql://db/", "postgresql+psycopg://db:5432"),
        ("jdbc:postgresql:gc", "postgresql+psycopg://localhost:5432/gc"),
        ("jdbc:postgresql://[::1]:5432/gc", "postgresql+psycopg://[::1]:5432/gc"),
        ("jdbc:postgresql://db/a%20b", "postgresql+psycopg://db:5432/a b"),
        ("jdbc:mariadb://db/gc", "mariadb+pymysql://db:3306/gc"),
        ("jdbc:mysql://db:3307/gc", "mariadb+pymysql://db:3307/gc"),
        ("JDBC:MariaDB://db/gc", "mariadb+pymysql://db:3306/gc"),
        ("postgresql://u@db/gc", "postgresql+psycopg://u@db/gc"),
        ("postgres://db/gc", "postgresql+psycopg://db/gc"),
        ("mysql+pymysql://u@db/gc", "mysql+pymysql://u@db/gc"),
        ("mariadb+pymysql://db/gc?charset=utf8mb4", "mariadb+pymysql://db/gc?charset=utf8mb4"),
        ("sqlite:///live.db", "sqlite:///live.db"),
    ],
)
def test_urls_are_understood(text: str, expected: str) -> None:
    """Both forms, with default ports, IPv6 and percent-encoded names."""
    assert parse_database_url(text).url.render_as_string(hide_password=False) == expected


def test_user_and_password_win_over_the_url() -> None:
    """Given apart, they replace what the URL says, in both forms; special characters stay what they are."""
    for text in (
        "jdbc:postgresql://db/gc?user=other&password=old",
        "postgresql://other:old@db/gc",
        "jdbc:mariadb://db/gc?password=old",
    ):
        url = parse_database_url(text, user="me", password="p@ss:w/rd").url
        assert (url.username, url.password) == ("me", "p@ss:w/rd")
    url = parse_database_url("jdbc:postgresql://db/gc?user=u%40x&password=a%26b").url
    assert (url.username, url.password) == ("u@x", "a&b")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("jdbc:postgresql://db/gc?ssl=true", {"sslmode": "verify-full"}),
        ("jdbc:postgresql://db/gc?ssl=true&sslmode=require", {"sslmode": "require"}),
        (
            "jdbc:postgresql://db/gc?currentSchema=gc&ApplicationName=x&connectTimeout=7",
            {"options": "-csearch_path=gc", "application_name": "x", "connect_timeout": 7},
        ),
        ("jdbc:postgresql://db/gc?reWriteBatchedInserts=true", {}),
        ("jdbc:mariadb://db/gc?connectTimeout=1500&socketTimeout=0", {"connect_timeout": 2}),
        ("jdbc:mariadb://db/gc?sslMode=disable&timezone=UTC", {"ssl_disabled": True}),
    ],
)
def test_properties_are_translated(text: str, arguments: dict[str, Any]) -> None:
    """What changes the connection is passed on; what only tunes Java is left out."""
    assert parse_database_url(text).connect_args == arguments


@pytest.mark.parametrize(
    ("mode", "checks_host", "verify"),
    [
        ("trust", False, ssl.CERT_NONE),
        ("verify-ca", False, ssl.CERT_REQUIRED),
        ("verify-full", True, ssl.CERT_REQUIRED),
    ],
)
def test_tls_of_mariadb_is_as_strict_as_asked(
    mode: str, checks_host: bool, verify: ssl.VerifyMode
) -> None:
    """Each mode checks what its name says."""
    context = parse_database_url("jdbc:mariadb://db/gc", properties={"sslMode": mode}).connect_args[
        "ssl"
    ]
    assert context.check_hostname is checks_host
    assert context.verify_mode is verify


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jdbc:h2:mem:nessie", "H2"),
        ("jdbc:oracle:thin:@x", "jdbc:oracle:"),
        ("jdbc:postgresql://a:1,b:2/gc", "one host"),
        ("jdbc:mariadb://a,b/gc", "one host"),
        ("jdbc:mariadb://address=(host=a)/gc", "one host"),
        ("jdbc:mariadb:replication://a/gc", "one plain server"),
        ("jdbc:mariadb://a", "no database"),
        ("mysql+pymysql://a", "no database"),
        ("mysql+mysqldb://a/gc", "mysql"),
        ("oracle://a/b", "oracle"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("live.db", "not understood"),
        ("jdbc:postgresql://db/gc?sslMode=x", "Did you mean sslmode"),
        ("jdbc:mariadb://db/gc?sessionVariables=x", "not supported"),
        ("jdbc:mariadb://db/gc?sslMode=perhaps", "sslMode=perhaps"),
        ("jdbc:postgresql://db/gc?connectTimeout=soon", "'soon'"),
    ],
)
def test_what_can_not_be_honoured_is_refused(text: str, says: str) -> None:
    """With the reason, and without a password that stood in the URL."""
    glue = "&" if "?" in text else "?"
    for spelling in (text, f"{text}{glue}password=hush"):
        with pytest.raises(ConfigError) as refusal:
            parse_database_url(spelling)
        if spelling == text:
            assert says in refusal.value.message
        assert "hush" not in refusal.value.message


def test_sqlite_has_no_user() -> None:
    """What would be ignored is refused."""
    with pytest.raises(ConfigError):
        parse_database_url("sqlite:///x.db", user="me")
    with pytest.raises(ConfigError):
        parse_database_url("sqlite:///x.db", properties={"ssl": "true"})


def test_unreachable_database_is_an_error_of_the_catalog_kind() -> None:
    """It names the database, and no password."""
    for text in ("jdbc:postgresql://127.0.0.1:1/gc", "jdbc:mariadb://127.0.0.1:1/gc"):
        with (
            open_live_sets(text, user="me", password="hush") as store,
            pytest.raises(CatalogError, match=r"127\.0\.0\.1:1/gc") as refusal,
        ):
            store.all()
        assert refusal.value.kind == "live-sets"
        assert "hush" not in refusal.value.message


def test_a_file_in_a_folder_that_can_not_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    """And no bug of ours."""
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match=r"can't be made: File exists\. Nothing was touched"):
        open_live_sets(f"sqlite:///{file}/sets.db")
