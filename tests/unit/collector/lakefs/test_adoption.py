"""A mark that is named by its path lies where marks lie, and is known again by the same id."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.collector.lakefs.adoption import adopt_mark, adopted_id, folder_of, is_path, own_mark
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.marks import load_plan
from lakesweep.collector.lakefs.paths import parse_mark_id
from lakesweep.domain.cutoff import Cutoff
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError, FormatError
from lakesweep.formats.tables import read_mark
from lakesweep.storage import StorageOptions, open_store
from lakesweep_testing.fake_lakefs import FakeLakeFS
from lakesweep_testing.inprocess import InProcessEngine

FOLDER = "_lakefs/retention/gc/addresses/run_id=abc/"
CUTOFF = Cutoff(datetime(2026, 5, 1, tzinfo=UTC), timedelta(days=2))


@pytest.fixture
def context() -> RunContext:
    namespace = f"mem://adoption-{uuid.uuid4().hex}/ns"
    server = FakeLakeFS(open_store(Location.parse(namespace)), namespace)
    return open_repository(server.client(), "repo", StorageOptions(), InProcessEngine())


def write(context: RunContext, key: str, **columns: list[object]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    context.store.write(key, sink.getvalue().to_pybytes())


def test_a_path_is_told_from_an_id() -> None:
    """Ids hold no slash."""
    assert is_path(FOLDER)
    assert not is_path("run_id-abc")


@pytest.mark.parametrize("ending", ["", "/"])
def test_a_folder_may_be_named_relatively_or_in_full(context: RunContext, ending: str) -> None:
    """With or without its last slash."""
    assert folder_of(context.resources.target, "repo", FOLDER.rstrip("/") + ending) == FOLDER
    full = f"{context.resources.target.namespace.uri}/{FOLDER.rstrip('/')}{ending}"
    assert folder_of(context.resources.target, "repo", full) == FOLDER


@pytest.mark.parametrize(
    "path", ["data/x/", "_lakefs/retention/", "mem://elsewhere/_lakefs/retention/gc/x"]
)
def test_a_folder_elsewhere_is_refused(context: RunContext, path: str) -> None:
    """Marks lie below `_lakefs/retention/gc/` of the repository itself."""
    with pytest.raises(ConfigError) as error:
        folder_of(context.resources.target, "repo", path)
    assert error.value.kind == "bad-mark-path"


def test_only_addresses_are_believed(context: RunContext) -> None:
    """Ages and sizes in a foreign file are somebody's word; the store is asked instead."""
    old = datetime(2020, 1, 1, tzinfo=UTC)
    write(context, f"{FOLDER}part-0.snappy.parquet", address=["data/a/b"], last_modified=[old])
    write(context, f"{FOLDER}part-1.snappy.parquet", address=["data/a/c"])
    context.store.write(f"{FOLDER}_SUCCESS", b"")
    plan = adopt_mark(context.store, "repo", FOLDER, CUTOFF, context.resources.clock())
    assert plan.mark_id == adopted_id(context.store, FOLDER)
    assert plan.cutoff == CUTOFF.at
    assert plan.garbage.objects == 2
    assert plan.blast_radius.share == 100.0, (
        "the lake's size is not known, so a large plan must be confirmed"
    )
    rows = [row for f in plan.files for row in read_mark(context.store.read(f.key)).to_pylist()]
    assert {row["address"] for row in rows} == {"data/a/b", "data/a/c"}
    assert {row["last_modified"] for row in rows} == {None}
    assert load_plan(context.store, "repo", plan.mark_id) == plan


def test_a_mark_of_ours_is_known_by_its_path(context: RunContext) -> None:
    """And one of an older client, in a folder of the same name, is not taken for ours."""
    write(context, f"{FOLDER}part-0.parquet", address=["data/a/b"])
    plan = adopt_mark(context.store, "repo", FOLDER, CUTOFF, context.resources.clock())
    own = f"_lakefs/retention/gc/addresses/mark_id={plan.mark_id}/"
    assert own_mark(context.store, own) == plan.mark_id
    assert own_mark(context.store, FOLDER) is None
    assert own_mark(context.store, "_lakefs/retention/gc/addresses/mark_id=theirs/") is None


def test_an_empty_folder_is_wrong_use(context: RunContext) -> None:
    """A mistyped path is not an empty mark."""
    with pytest.raises(ConfigError, match="no Parquet file"):
        adopt_mark(context.store, "repo", FOLDER, CUTOFF, context.resources.clock())


def test_a_file_without_addresses_is_refused(context: RunContext) -> None:
    """It is no mark."""
    write(context, f"{FOLDER}part-0.parquet", physical=["data/a/b"])
    with pytest.raises(FormatError, match="address"):
        adopt_mark(context.store, "repo", FOLDER, CUTOFF, context.resources.clock())


@pytest.mark.parametrize("name", ["run_id=abc", "run_id=" + "x" * 300, "run id=ä/ö"])
def test_an_adopted_id_is_a_mark_id(context: RunContext, name: str) -> None:
    """Whatever the folder is called; two folders never share one."""
    adopted = adopted_id(context.store, f"_lakefs/retention/gc/addresses/{name}/")
    assert parse_mark_id(adopted) == adopted
    assert adopted != adopted_id(context.store, f"_lakefs/retention/gc/addresses/{name}-/")
