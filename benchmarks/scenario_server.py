"""The scenario as servers see it: an S3 store and a lakeFS API on one loopback port.

The API answers what a collector asks of a real lakeFS (it gives no row counts, and does not call itself embedded).
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate

import numpy as np

from lake_files import HistoryFiles, branch_name, path_of
from lake_objects import BUCKET, ENTRIES_PER_RANGE, Indexes
from lakesweep.formats.refs_dump import (
    MANIFEST_KEY,
    RefsDump,
    RefsManifest,
    WrittenRefsDump,
    write_refs_dump,
)
from loopback_http import Load, Trouble
from s3_loopback import Frozen, Kept, LoopbackS3, Request, Response
from scenario import NAMESPACE, REPOSITORY, ROOT, Expected, LakeState, Scenario

ACCESS_KEY_ID, SECRET_ACCESS_KEY = "AKIABENCHONLY0000000", "bench-only-secret"
_GC = "_lakefs/retention/gc/"
_REPOSITORY: dict[str, object] = {
    "id": REPOSITORY,
    "storage_namespace": NAMESPACE,
    "default_branch": "main",
    "creation_date": 1_700_000_000,
}
_PAGE = 1000
_STAGED = "lake/stage-"  # sorts after all that is committed
_PAGE_OF_ENTRIES = '{"pagination": {"has_more": %s, "next_offset": "%s", "results": %d, "max_per_page": %d}, "results": [%s]}'
_MOST_TOLD = 500_000


@dataclass(slots=True)
class _Served:
    """One state of the lake with the files that a server writes of it."""

    state: LakeState
    refs: RefsDump
    dump: WrittenRefsDump
    list_files: list[bytes]
    retained_csv: bytes
    branches: dict[str, int]
    reuploads: dict[tuple[int, int, int], int]  # branch, slot, row → rank


@dataclass(slots=True)
class ScenarioServer:
    """A running scenario. What a collector did to it can be looked up here."""

    scenario: Scenario
    s3: LoopbackS3
    _files: HistoryFiles
    is_plain: bool = (
        False  # lists are whole, and nothing foreign lies in slices: for a naive collector
    )
    _served: _Served = field(init=False)
    _prepared: dict[str, _Served] = field(default_factory=dict)
    _runs: int = 0
    _told: dict[int, str] = field(default_factory=dict)  # rank → what an entry says of it
    lake_environment: dict[str, str] = field(default_factory=dict)  # of another lakeFS server

    @property
    def url(self) -> str:
        """Both the S3 endpoint and the lakeFS server."""
        return self.s3.url

    @property
    def state(self) -> LakeState:
        """What is served now."""
        return self._served.state

    @property
    def environment(self) -> dict[str, str]:
        """What a user of lakectl and of the AWS tools would have set."""
        return {
            "LAKECTL_SERVER_ENDPOINT_URL": self.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
            **self.lake_environment,
        }

    # -- states

    def reset(self) -> None:
        """The first state, as if no collector had ever come by."""
        objects = self.scenario.objects
        objects.is_alive[:] = True
        objects.is_alive[: objects.new] = False
        self.s3.buckets[BUCKET].clear()
        self._serve("first", self.scenario.first)

    def change(self) -> None:
        """The second state: what collectors deleted and wrote stays as it is."""
        self.scenario.objects.is_alive[: self.scenario.objects.new] = True
        self._serve("second", self.scenario.second)

    def _serve(self, name: str, state: LakeState) -> None:
        if name not in self._prepared:
            self._prepared[name] = self._prepare(state)
        self._served = self._prepared[name]
        long_ago = self.scenario.now.timestamp() - 30 * 86_400
        kept = {
            ROOT + key: Kept(data, f'"{key[-32:]}"', long_ago)
            for key, data in self._files.mapped().items()
        }
        foreign = {} if self.is_plain else self.scenario.foreign_files()
        kept |= {key: Kept(data, '"f0"', long_ago) for key, data in foreign.items()}
        self.s3.frozen = Frozen(kept)
        self.s3.refused.clear()

    def _prepare(self, state: LakeState) -> _Served:
        history, objects = state.history, self.scenario.objects
        refs = self._files.add(history)
        heads = set(history.heads.values())
        # A server's own list may lack commits that the rule retains: its walk takes a short cut.
        retained = sorted(history.retained())
        listed = [c for n, c in enumerate(retained) if c in heads or n % 3 or self.is_plain]
        rows = [f"{c.id},false,{c.meta_range_id}\n" for c in self._files.commits(listed)]
        reuploads = {}
        for rank in self.scenario.reuploads(state).tolist():
            slot, row = divmod(int(objects.originals(np.array([rank]))[0]), ENTRIES_PER_RANGE)
            reuploads[history.owner(slot), slot, row] = rank
        return _Served(
            state,
            refs,
            write_refs_dump(refs),
            self.scenario.list_files(state, with_reuploads=self.is_plain),
            "".join(["commit_id,expired,metarange_id\n", *rows]).encode(),
            {branch_name(branch): branch for branch in history.heads},
            reuploads,
        )

    # -- what became of it

    def expected(self, *, keep_tags: bool = False) -> Expected:
        """The garbage there is now."""
        return self.scenario.expected(self.state, keep_tags=keep_tags)

    def files(self, folder: str) -> list[bytes]:
        """Objects that were written below a folder of the namespace."""
        kept = self.s3.buckets[BUCKET]
        return [bytes(kept[key].data) for key in sorted(kept) if key.startswith(ROOT + folder)]

    def alive(self) -> np.ndarray:
        """Which objects are there, by rank."""
        objects = self.scenario.objects
        return objects.is_alive[objects.indexes(np.arange(len(objects)))]

    def take_load(self) -> Load:
        """How busy the server was since this was asked last."""
        return self.s3.take_load()

    # -- the API

    def answer(self, request: Request) -> Response | None:
        """The lakeFS API; everything else is left to the store."""
        if request.bucket != "api":
            return None
        parts = request.key.removeprefix("v1/").split("/")
        match request.method, parts:
            case "GET", ["healthcheck"]:
                return Response(204, b"", {"Date": formatdate(usegmt=True)})
            case "GET", ["config"]:
                version = {"version": "1.84.0", "version_context": "lakeFS"}
                storage = {"blockstore_type": "s3"}
                return _json(
                    {
                        "version_config": version,
                        "storage_config": storage,
                        "storage_config_list": [],
                    }
                )
            case "GET", ["config", "garbage-collection"]:
                return _json({"grace_period": 86_400})
            case "GET", ["repositories"]:
                return _page([_REPOSITORY])
            case _, ["repositories", name, *rest] if name == REPOSITORY:
                return self._repository(request, rest)
        return _json({"message": "not found"}, 404)

    def _repository(self, request: Request, parts: list[str]) -> Response:
        served = self._served
        match request.method, parts:
            case "GET", []:
                return _json(_REPOSITORY)
            case "GET", ["branches"]:
                return _refs(request, [(b.id, b.commit_id) for b in served.refs.branches])
            case "GET", ["tags"]:
                return _refs(request, [(t.id, t.commit_id) for t in served.refs.tags])
            case "GET", ["settings", "gc_rules"]:
                return _json(served.state.rules())
            case "PUT", ["refs", "dump"]:
                headers = {"Content-Type": "application/json"}
                return Response(201, self.write_dump().encode(), headers)
            case "POST", ["gc", "prepare_commits", "async"]:
                return _json({"id": "GCPC1"}, 202)
            case "GET", ["gc", "prepare_commits", "status"]:
                return self._prepare_commits()
            case "POST", ["gc", "prepare_uncommited"]:
                return self._prepare_uncommitted(json.loads(request.body or b"{}"))
            case "GET", ["branches", name, "diff"] if name in served.branches:
                return self._staged(request, served.branches[name])
            case "GET", ["refs", ref, "objects", what] if ref.removesuffix("@") in served.branches:
                branch, is_head = served.branches[ref.removesuffix("@")], ref.endswith("@")
                if what == "stat":
                    return self._stat(branch, request.query["path"], is_head=is_head)
                if what == "ls" and not request.query.get("prefix"):
                    return self._list(request, branch, is_head=is_head)
        if request.method == "GET" and parts[0] in ("branches", "refs"):
            return _json({"message": "not found"}, 404)
        return _json({"message": f"not in this scenario: {request.method} {parts}"}, 501)

    def write_dump(self) -> RefsManifest:
        """Write all refs into the namespace."""
        dump = self._served.dump
        for key, data in dump.files:
            self._write(key, data)
        self._write(MANIFEST_KEY, dump.manifest.encode())
        return dump.manifest

    def _prepare_commits(self) -> Response:
        key = f"{_GC}commits/run_id=r{self._runs}/commits.csv"
        self._write(key, self._served.retained_csv)
        result = {
            "run_id": f"r{self._runs}",
            "gc_commits_location": f"{NAMESPACE}/{key}",
            "gc_addresses_location": NAMESPACE,
        }
        return _json({"task_id": "GCPC1", "completed": True, "result": result})

    def _prepare_uncommitted(self, body: dict[str, str]) -> Response:
        """A page for each file, and after the last one a page without rows, as real servers may give."""
        if token := body.get("continuation_token"):
            run_id, page = json.loads(b64decode(token))
        else:
            self._runs += 1
            run_id, page = f"gbench{self._runs:014d}", 0
        files, folder = self._served.list_files, f"{_GC}uncommitted/{run_id}/uncommitted/"
        if page == len(files):
            return _json({"run_id": run_id, "gc_uncommitted_location": ""}, 201)
        self._write(f"{folder}part-{page:05d}", files[page])
        token = b64encode(json.dumps([run_id, page + 1]).encode()).decode()
        location = f"{NAMESPACE}/{folder}"
        return _json(
            {"run_id": run_id, "gc_uncommitted_location": location, "continuation_token": token},
            201,
        )

    # -- what branches read

    def _staged(self, request: Request, branch: int) -> Response:
        """Staged paths of a branch; re-uploads are left out, as their content is what is committed there."""
        ranks = self.state.staged.get(branch, np.empty(0, np.int64))
        first = bisect_right(ranks, request.query.get("after", ""), key=staged_path)
        page = ranks[first : first + _amount(request)].tolist()
        rows: list[dict[str, object]] = [
            {"type": "added", "path": staged_path(rank), "path_type": "object"} for rank in page
        ]
        return _page(rows, has_more=first + len(page) < len(ranks))

    def _stat(self, branch: int, path: str, *, is_head: bool) -> Response:
        number = path.removesuffix(".parquet").removeprefix(_STAGED)
        rank = None
        if number.isdecimal():
            ranks = self.state.staged.get(branch, np.empty(0, np.int64))
            is_staged = (
                not is_head and int(number) in ranks[np.searchsorted(ranks, int(number)) :][:1]
            )
            rank = int(number) if is_staged else None
        else:
            slot, _, row = number.removeprefix("lake/part-").partition("/")
            if slot.isdecimal() and row.isdecimal() and path == path_of(int(slot), int(row)):
                rank = self._committed(branch, int(slot), int(row), is_head=is_head)
        if rank is None:
            return _json({"message": "not found"}, 404)
        return _text(self._entries([path], [rank])[0])

    def _committed(self, branch: int, slot: int, row: int, *, is_head: bool) -> int | None:
        history, shared = self.state.history, self.state.history.shape.shared_slots
        own = history.own_slots(branch)
        if row >= ENTRIES_PER_RANGE or not (slot < shared or slot in own):
            return None
        place = slot if slot < shared else shared + slot - own.start
        version = int(history.state(branch)[place])
        rank = int(history.ranks(version, self.scenario.objects.head_slots)[row])
        return rank if is_head else self._served.reuploads.get((branch, slot, row), rank)

    def _list(self, request: Request, branch: int, *, is_head: bool) -> Response:
        """Entries in path order: what is committed, and on the branch itself what is staged over and after it."""
        history, amount = self.state.history, _amount(request)
        after = request.query.get("after", "")
        state = history.state(branch)
        every = range(len(state) * ENTRIES_PER_RANGE)

        def place(number: int) -> tuple[int, int]:
            at, row = divmod(number, ENTRIES_PER_RANGE)
            return history.slot_at(branch, at), row

        first = bisect_right(every, after, key=lambda number: path_of(*place(number)))
        page = every[first : first + amount]
        places = [place(number) for number in page]
        paths = [path_of(*one) for one in places]
        bases = self.scenario.objects.head_slots
        ranges = range(page.start // ENTRIES_PER_RANGE, -(-page.stop // ENTRIES_PER_RANGE))
        held = [history.ranks(int(state[at]), bases) for at in ranges]
        begin = page.start % ENTRIES_PER_RANGE
        ranks = np.concatenate([*held, np.empty(0, np.int64)])[begin : begin + len(page)].tolist()
        if not is_head:
            staged_over = self._served.reuploads
            ranks = [
                staged_over.get((branch, *one), r) for one, r in zip(places, ranks, strict=True)
            ]
        has_more = page.stop < len(every)
        staged = self.state.staged.get(branch)
        if not is_head and staged is not None and not has_more:
            begin = bisect_right(staged, after, key=staged_path)
            some = staged[begin : begin + amount - len(page)].tolist()
            paths += [staged_path(rank) for rank in some]
            ranks += some
            has_more = begin + len(some) < len(staged)
        offset = paths[-1] if has_more else ""
        return _text(
            _PAGE_OF_ENTRIES
            % (_word(has_more), offset, len(paths), _PAGE, ", ".join(self._entries(paths, ranks)))
        )

    def _entries(self, paths: list[str], ranks: list[int]) -> list[str]:
        """Entries as JSON. What is told of a rank never changes, and branches share most of theirs."""
        told = self._told
        if len(told) > _MOST_TOLD:
            told.clear()
        if missing := [rank for rank in dict.fromkeys(ranks) if rank not in told]:
            told |= zip(missing, self._told_of(np.array(missing, np.int64)), strict=True)
        return [
            f'{{"path": "{path}", "path_type": "object", {told[rank]}}}'
            for path, rank in zip(paths, ranks, strict=True)
        ]

    def _told_of(self, ranks: Indexes) -> list[str]:
        objects = self.scenario.objects
        addresses = [bytes(row).decode() for row in objects.addresses(ranks)]
        checksums = [f"{rank:032x}" for rank in ranks.tolist()]
        small = np.flatnonzero(objects.is_small(ranks))
        for at, text in zip(small.tolist(), objects.small_checksums(ranks[small]), strict=True):
            checksums[at] = text
        columns = zip(addresses, checksums, objects.sizes(ranks).tolist(), strict=True)
        return [
            f'"physical_address": "{NAMESPACE}/{address}", "checksum": "{checksum}", "mtime": 1704067200, "size_bytes": {size}'
            for address, checksum, size in columns
        ]

    def _write(self, key: str, data: bytes) -> None:
        kept = Kept(data, f'"{len(data):032x}"', float(int(time.time())))
        self.s3.buckets[BUCKET][ROOT + key] = kept


def staged_path(rank: int) -> str:
    """The path of a staged entry; paths sort as ranks do."""
    return f"{_STAGED}{rank:010d}.parquet"


def _amount(request: Request) -> int:
    return min(int(request.query.get("amount", "100")), _PAGE)


def _refs(request: Request, refs: list[tuple[str, str]]) -> Response:
    first = bisect_right(refs, request.query.get("after", ""), key=lambda ref: ref[0])
    page = refs[first : first + _amount(request)]
    rows: list[dict[str, object]] = [{"id": name, "commit_id": commit} for name, commit in page]
    return _page(rows, "id", has_more=first + len(page) < len(refs))


def _page(
    rows: list[dict[str, object]], offset: str = "path", *, has_more: bool = False
) -> Response:
    pagination = {
        "has_more": has_more,
        "next_offset": rows[-1][offset] if has_more else "",
        "results": len(rows),
        "max_per_page": _PAGE,
    }
    return _json({"pagination": pagination, "results": rows})


def _json(document: object, status: int = 200) -> Response:
    return _text(json.dumps(document), status)


def _text(body: str, status: int = 200) -> Response:
    headers = {"Content-Type": "application/json", "Date": formatdate(usegmt=True)}
    return Response(status, body.encode(), headers)


def _word(is_so: bool) -> str:
    return "true" if is_so else "false"


@contextmanager
def serve(
    scenario: Scenario, trouble: Trouble | None = None, *, is_plain: bool = False
) -> Iterator[ScenarioServer]:
    """Build the scenario and serve it from a thread of this process."""
    with (
        HistoryFiles(scenario.objects) as files,
        LoopbackS3(computed=scenario.objects, buckets=(BUCKET,), trouble=trouble) as s3,
    ):
        server = ScenarioServer(scenario, s3, files, is_plain)
        server.reset()
        s3.intercept = server.answer
        yield server
