"""What PostgreSQL says to a user who may not connect: there is no SQLSTATE yet, only words."""

from __future__ import annotations

import psycopg
import pytest
import sqlalchemy as sa

from lakesweep.catalogs.nessie.live_sets.connecting import translated
from lakesweep.errors import CatalogDeniedError, CatalogError


def kind_of_refusal(words: str) -> tuple[type[CatalogError], str]:
    def connect() -> None:
        raise psycopg.OperationalError(f'connection to server at "db" failed: FATAL:  {words}')

    engine = sa.create_engine("postgresql+psycopg://collector@db/gc", creator=connect)
    with pytest.raises(CatalogError) as refused, translated(engine), engine.connect():
        pass
    return type(refused.value), refused.value.kind


@pytest.mark.parametrize(
    "words",
    [
        'password authentication failed for user "collector"',
        'role "collector" is not permitted to log in',
        'role "collector" does not exist',
        'no pg_hba.conf entry for host "10.0.0.7", user "collector", database "gc", no encryption',
        'permission denied for database "gc"',
    ],
)
def test_a_user_who_may_not_connect_lacks_a_right(words: str) -> None:
    """It is for whoever gives rights, and not for another try when the database is fit."""
    assert kind_of_refusal(words) == (CatalogDeniedError, "live-sets-denied")


def test_a_database_that_recovers_denies_nobody() -> None:
    """Another try helps."""
    found = kind_of_refusal("the database system is in recovery mode")
    assert found == (CatalogError, "live-sets")
