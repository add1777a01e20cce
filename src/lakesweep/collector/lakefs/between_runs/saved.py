"""What one run leaves for the next: the last run that was swept to its end, and the index of cached ranges."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.collector.judge.references import GONE, RESTORED
from lakesweep.collector.lakefs.between_runs.known_heads import KNOWN_HEADS
from lakesweep.collector.lakefs.candidates import read_saved
from lakesweep.collector.lakefs.paths import EVENTS, OWN, RANGE_CACHE, RunFolder
from lakesweep.collector.lakefs.references import EventFile
from lakesweep.collector.parts import Part, read_part
from lakesweep.collector.run_files import RunId
from lakesweep.domain.commits import RangeId
from lakesweep.engine.tasks import chunked
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.json_text import parse_json
from lakesweep.storage import ObjectStore

_LAST_RUN = f"{OWN}last-run.json"
_SCHEMA = "lakesweep.saved/1"
CLEAN_EVERY = 10
_FILES_AT_ONCE = 8  # in the driver's memory
EVENT_FILE = re.compile(r"(?P<order>\d+)-(?P<kind>gone|restored)-(?P<run>[^/]+)/[^/]+\.parquet")
# So many index files, and the cache is made anew: what no commit holds any more is left behind.
_MOST_INDEXES = 20
_INDEX_SCHEMA = pa.schema([pa.field("range_id", pa.string()), pa.field("pack", pa.string())])
_RANGES_SCHEMA = pa.schema([pa.field("range_id", pa.string())])


@dataclass(frozen=True, slots=True)
class SavedRun:
    """The last run over uncommitted data that was swept to its end."""

    run_id: str
    repository: str
    namespace: str
    last_slice: str
    files: tuple[str, ...]  # the server's list, and parts that the run carried on
    runs_since_clean: int
    expired_ranges: str = ""  # a file with those that it has judged all of; empty: there is none


@dataclass(frozen=True, slots=True)
class NotUsable:
    """Why there is no run to build on."""

    why: str


def load_saved_run(store: ObjectStore, repository: str) -> SavedRun | NotUsable:
    """The last swept run, if this run can build on it."""
    saved = _read(store, _LAST_RUN)
    if isinstance(saved, NotUsable):
        return saved
    if (saved.repository, saved.namespace) != (repository, store.root.uri):
        return NotUsable(f"the earlier run was one on {saved.repository} at {saved.namespace}")
    if saved.runs_since_clean + 1 >= CLEAN_EVERY:
        return NotUsable(f"every {CLEAN_EVERY}th run lists everything")
    if not saved.last_slice:
        return NotUsable("objects could still be added to every folder that the earlier run listed")
    if store.find(KNOWN_HEADS) is None:
        # Whoever removed it has given up commits (a restored server), and the run knows their objects as live.
        return NotUsable("the note of where branches were at the earlier run is gone")
    missing = [key for key, info in store.stat_many(list(saved.files)) if info is None]
    if missing:
        return NotUsable(
            f"{len(missing)} files that the earlier run left are missing, the first: {missing[0]}"
        )
    try:
        for some in chunked(saved.files, _FILES_AT_ONCE):
            for key, data in store.read_many(some):
                for _ in read_saved(data, key):
                    pass  # to its end: a footer says nothing of the pages
    except (FormatError, ObjectNotFoundError) as error:
        return NotUsable(f"a file that the earlier run left can't be read: {error.message}")
    return saved


def load_last_run(store: ObjectStore) -> SavedRun | NotUsable:
    """The last swept run as it stands, whether or not this run can build on it."""
    return _read(store, _LAST_RUN)


def forget_last_run(store: ObjectStore) -> None:
    """Let no later run build on the last swept one."""
    store.delete_many([_LAST_RUN])


def save_for_sweep(store: ObjectStore, saved: SavedRun) -> None:
    """Keep what a mark found, until its sweep has come to its end."""
    store.write(RunFolder(RunId(saved.run_id)).saved, _encode(saved))


def load_for_sweep(store: ObjectStore, run_id: RunId) -> SavedRun | NotUsable:
    """What the mark of this run kept. Marks over committed data keep nothing, and the next run is then a clean one."""
    return _read(store, RunFolder(run_id).saved)


def carry_on(store: ObjectStore, run_id: RunId, kept: Sequence[Part]) -> None:
    """Let the next run build on this one: it was swept to its end, and what it left is carried along."""
    saved = load_for_sweep(store, run_id)
    if isinstance(saved, NotUsable):
        return
    failed = [key for key in store.keys(RunFolder(run_id).ledger) if key.endswith(".parquet")]
    left = (*saved.files, *failed, *(part.key for part in kept))
    store.write(_LAST_RUN, _encode(replace(saved, files=left)))


def _read(store: ObjectStore, key: str) -> SavedRun | NotUsable:
    try:
        return _decode(store.read(key))
    except ObjectNotFoundError:
        return NotUsable("no earlier run was swept to its end")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return NotUsable(f"what the earlier run left can't be read ({error})")


def _encode(saved: SavedRun) -> bytes:
    values = asdict(saved)
    return json.dumps({"schema": _SCHEMA, "digest": _digest(values), **values}, indent=2).encode()


def _decode(data: bytes) -> SavedRun:
    values = parse_json(data)
    if values.pop("schema") != _SCHEMA:
        raise ValueError("it is of another version")
    # A changed slice would make the next run pass over data without a word.
    if values.pop("digest") != _digest(values):
        raise ValueError("it was changed after it was written")
    return SavedRun(**{**values, "files": tuple(values["files"])})


def _digest(values: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def event_files(store: ObjectStore, run_id: RunId | None = None) -> list[EventFile]:
    """All restorations that this repository has seen, and all deletions, or only those of one run."""
    events = []
    for key in store.keys(EVENTS):
        name = EVENT_FILE.fullmatch(key.removeprefix(EVENTS))
        if name is None:
            continue  # nothing of ours
        kind = GONE if name["kind"] == "gone" else RESTORED
        if run_id is None or kind == RESTORED or name["run"] == run_id:
            events.append(EventFile(key, kind, int(name["order"])))
    return events


def load_range_index(store: ObjectStore, *, may_remove: bool = True) -> dict[RangeId, str]:
    """Which pack holds the hashes of which range; empty when the cache is due to be made anew, and is removed."""
    keys = list(store.keys(f"{RANGE_CACHE}index-"))
    if len(keys) > _MOST_INDEXES and may_remove:
        store.delete_many(list(store.keys(RANGE_CACHE)))
        return {}
    index: dict[RangeId, str] = {}
    for key in keys:
        try:
            for batch in read_part(store.read(key), _INDEX_SCHEMA, key):
                ranges, packs = (batch.column(name).to_pylist() for name in _INDEX_SCHEMA.names)
                index.update(zip(ranges, packs, strict=True))
        except (FormatError, ObjectNotFoundError):
            # A lost index only costs reading its ranges again.
            continue
    return index


def save_range_index(store: ObjectStore, run_id: str, packs: Mapping[RangeId, str]) -> None:
    """Remember where the hashes of freshly read ranges are."""
    if not packs:
        return
    table = pa.table([list(packs), list(packs.values())], schema=_INDEX_SCHEMA)
    _write_table(store, f"{RANGE_CACHE}index-{run_id}.parquet", table)


def save_expired_ranges(store: ObjectStore, key: str, ranges: Iterable[RangeId]) -> None:
    """Remember ranges that only expired commits hold, all of whose addresses a mark is judging."""
    _write_table(store, key, pa.table([list(ranges)], schema=_RANGES_SCHEMA))


def load_expired_ranges(store: ObjectStore, saved: SavedRun) -> frozenset[RangeId]:
    """The ranges that a run has judged. A lost file only costs judging them again."""
    if not saved.expired_ranges:
        return frozenset()
    try:
        data = store.read(saved.expired_ranges)
        batches = list(read_part(data, _RANGES_SCHEMA, saved.expired_ranges))
    except (FormatError, ObjectNotFoundError):
        return frozenset()
    return frozenset(RangeId(name) for batch in batches for name in batch.column(0).to_pylist())


def _write_table(store: ObjectStore, key: str, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=True)
    store.write(key, sink.getvalue().to_pybytes())
