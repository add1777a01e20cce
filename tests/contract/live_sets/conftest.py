"""One suite for every place that keeps live sets: memory, SQLite, PostgreSQL, MariaDB."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesweep.catalogs.nessie.live_sets.memory import InMemoryLiveSets
from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.domain.live_sets import (
    ContentKind,
    ContentReference,
    LiveSetId,
    MarkFacts,
    new_live_set_id,
)

_numbers = itertools.count()

real = pytest.mark.real
DATABASES = ["sqlite", pytest.param("postgresql", marks=real), pytest.param("mariadb", marks=real)]

FACTS = MarkFacts(
    catalog_uri="http://127.0.0.1:19120/api/v2",
    reference_time=datetime(2026, 5, 1, tzinfo=UTC),
    default_policy="NONE",
    policies=(("main", "P10D"),),
    keep_state_at_cutoff=False,
    heads={"BRANCH main": "aa"},
    others=(),
    dropped=(),
)


@pytest.fixture(scope="session")
def make_postgresql_database() -> Iterator[Callable[[], str]]:
    from lakesweep_testing.servers import PostgresServer

    with PostgresServer() as server:
        yield lambda: server.make_database(f"live_sets_{next(_numbers)}")


@pytest.fixture(scope="session")
def make_mariadb_database() -> Iterator[Callable[[], str]]:
    from lakesweep_testing.servers import MariaDBServer

    with MariaDBServer() as server:
        yield lambda: server.make_database(f"live_sets_{next(_numbers)}")


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/live-sets.db"
    make: Callable[[], str] = request.getfixturevalue(f"make_{request.param}_database")
    return make()


@pytest.fixture
def database(database_url: str) -> Iterator[LiveSetStore]:
    """A store in a database, with its tables."""
    with open_live_sets(database_url) as opened:
        opened.create_schema(SchemaStrategy.CREATE)
        yield opened


@pytest.fixture(params=["memory", *DATABASES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveSetStore]:
    """Every kind of store."""
    if request.param == "memory":
        yield InMemoryLiveSets()
        return
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/live-sets.db"
    else:
        url = request.getfixturevalue(f"make_{request.param}_database")()
    with open_live_sets(url) as opened:
        opened.create_schema(SchemaStrategy.CREATE)
        yield opened


@pytest.fixture
def facts() -> MarkFacts:
    return FACTS


@pytest.fixture
def make_reference() -> Callable[..., ContentReference]:
    def make(content: str = "c1", commit: str = "aa", **fields: object) -> ContentReference:
        values: dict[str, object] = {
            "content_id": content,
            "commit_id": commit,
            "content_key": ("db", content),
            "content_type": ContentKind.ICEBERG_TABLE,
            "metadata_location": f"s3://lake/{content}/metadata/1.json",
            "snapshot_id": 7,
            **fields,
        }
        return ContentReference(**values)  # type: ignore[arg-type]

    return make


@pytest.fixture
def expiring_set(store: LiveSetStore) -> LiveSetId:
    """A set whose expiry has begun."""
    return begin_expiry(store)


def begin_expiry(store: LiveSetStore) -> LiveSetId:
    live_set_id, at = new_live_set_id(), datetime(2026, 5, 1, tzinfo=UTC)
    store.start_identify(live_set_id, at)
    store.finish_identify(live_set_id, at, FACTS)
    store.start_expire(live_set_id, at)
    return live_set_id
