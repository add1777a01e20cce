"""A repository that exists for one certification: what users do to it, and how it goes again."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.catalogs.lakefs.raw_calls import RawCalls
from lakesweep.catalogs.lakefs.transport import Timeouts
from lakesweep.catalogs.lakefs.wire import PrepareUncommittedWire
from lakesweep.certify.promise import BrokenError, NotDecidedError, NotOfferedError
from lakesweep.domain.location import Location
from lakesweep.errors import CatalogError, LakesweepError
from lakesweep.formats.tables import read_uncommitted
from lakesweep.storage import DeleteStatus, ObjectStore, StorageOptions, open_store

if TYPE_CHECKING:
    import httpx

__all__ = ["Server", "ThrowAway", "throw_away_repository"]

_MOST_PAGES = 1000
_NO_SUCH_CALL = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class Server:
    """How to reach a server and the store behind it, and where repositories may be made."""

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    storage_namespace: str
    storage: StorageOptions = field(default_factory=StorageOptions, repr=False)
    namespace_root: str | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    http_transport: Callable[[], httpx.BaseTransport | None] = lambda: None


@dataclass(frozen=True, slots=True)
class ThrowAway:
    """One repository and its user. Verbs that prepare a trial end it as undecided when the server refuses them."""

    name: str
    namespace: str
    client: LakeFSClient
    raw: RawCalls
    store: ObjectStore
    addresses: AddressNormaliser
    rounds: int
    seed: int
    others: Callable[[], ThrowAway]  # makes another repository
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def random(self, name: str) -> random.Random:
        """Random choices of one trial, the same for the same seed."""
        return random.Random(f"{self.seed} {name}")

    def ask(self, method: str, *route: str, **how: Any) -> httpx.Response:
        """A request about this repository; any status is an answer."""
        return self.raw.send(method, ("repositories", self.name, *route), **how)

    def call(self, method: str, *route: str, **how: Any) -> httpx.Response:
        """A request that a trial needs and that is not what is tried."""
        answer = self.ask(method, *route, **how)
        if answer.status_code >= 400:
            said = f"{method} {'/'.join(route)} answered {answer.status_code}"
            raise NotDecidedError(f"{said}, which the trial needs.")
        return answer

    def offered(self, method: str, *route: str, **how: Any) -> httpx.Response:
        """A request that some servers do not have."""
        answer = self.ask(method, *route, **how)
        if answer.status_code in _NO_SUCH_CALL:
            raise NotOfferedError(f"{method} {'/'.join(route)} answers {answer.status_code}.")
        if answer.status_code >= 400:
            raise BrokenError(f"{method} {'/'.join(route)} answers {answer.status_code}.")
        return answer

    def relative(self, address: str) -> str:
        """An address relative to the namespace; one outside of it breaks the trial's promise."""
        relative = self.addresses.relative(address)
        if relative is None:
            raise BrokenError("A physical address lies outside the storage namespace.")
        return relative

    # -- what users do

    def branch(self, name: str, source: str = "main", *, hidden: bool = False) -> str:
        self.call("POST", "branches", body={"name": name, "source": source, "hidden": hidden})
        return name

    def drop_branch(self, name: str) -> None:
        self.call("DELETE", "branches", name)

    def upload(self, branch: str, path: str, content: bytes | None = None) -> str:
        """Upload, and give the address relative to the namespace; without content, one of its own."""
        data = f"{branch}/{path}".encode() if content is None else content
        route = ("branches", branch, "objects")
        answer = self.call("POST", *route, params={"path": path}, content=data)
        return self.relative(answer.json()["physical_address"])

    def delete(self, branch: str, path: str) -> None:
        self.call("DELETE", "branches", branch, "objects", params={"path": path})

    def copy(self, branch: str, source: str, target: str, source_ref: str = "") -> str:
        body = {"src_path": source, **({"src_ref": source_ref} if source_ref else {})}
        route = ("branches", branch, "objects", "copy")
        answer = self.offered("POST", *route, params={"dest_path": target}, body=body)
        return self.relative(answer.json()["physical_address"])

    def commit(self, branch: str, message: str, *, at: datetime | None = None) -> str:
        """Commit, changes or none; `at` dates it back."""
        date = {} if at is None else {"date": int(at.timestamp())}
        body = {"message": message, "allow_empty": True, **date}
        return str(self.call("POST", "branches", branch, "commits", body=body).json()["id"])

    def address(self, ref: str, path: str) -> str | None:
        """The relative address at a path; None when there is no entry."""
        found = self.client.stat_object(self.name, ref, path)
        return None if found is None else self.relative(found.physical_address)

    def issue(self, branch: str, path: str) -> str:
        """A physical address to upload to, as the server spells it."""
        route = ("branches", branch, "staging", "backing")
        return str(self.offered("GET", *route, params={"path": path}).json()["physical_address"])

    def link(self, branch: str, path: str, address: str) -> httpx.Response:
        """Link an address with one byte to a path; any status is an answer."""
        route = ("branches", branch, "staging", "backing")
        body = {"staging": {"physical_address": address}, "checksum": path, "size_bytes": 1}
        return self.ask("PUT", *route, params={"path": path}, body=body)

    # -- what collectors do

    def uncommitted_pages(self) -> list[PrepareUncommittedWire]:
        """Every page of a new uncommitted list, without the guards of our collector."""
        pages = [self.client.prepare_uncommitted(self.name)]
        while token := pages[-1].continuation_token:
            if len(pages) == _MOST_PAGES or token in {p.continuation_token for p in pages[:-1]}:
                raise BrokenError("A continuation token came back: the list never ends.")
            pages.append(self.client.prepare_uncommitted(self.name, token))
        return pages

    def uncommitted(self) -> set[str]:
        """Addresses in a new uncommitted list."""
        return self.addresses_in(self.uncommitted_pages())

    def addresses_in(self, pages: Sequence[PrepareUncommittedWire]) -> set[str]:
        """Addresses in the files of an uncommitted list."""
        named = [page.gc_uncommitted_location for page in pages if page.gc_uncommitted_location]
        own = f"_lakefs/retention/gc/uncommitted/{pages[0].run_id}/uncommitted/"
        folders = {own, *(self.relative(location).rstrip("/") + "/" for location in named)}
        files = sorted({key for folder in folders for key in self.store.keys(folder)})
        if len(files) < len(named):
            raise BrokenError("A page of the uncommitted list says that it has rows, and no file.")
        return {
            address
            for _, data in self.store.read_many(files)
            for address in read_uncommitted(data)["physical_address"].to_pylist()
        }


@contextmanager
def throw_away_repository(
    server: Server, *, rounds: int, seed: int, keep: bool, left_behind: list[str]
) -> Iterator[ThrowAway]:
    """A new repository in a folder of its own; both go at the end, and what can't go is named in `left_behind`.

    Raises:
        CatalogError: the server did not make the repository.
    """
    access = (server.endpoint, server.access_key_id, server.secret_access_key)
    with ExitStack() as stack:
        client = stack.enter_context(
            LakeFSClient(*access, timeouts=server.timeouts, http_transport=server.http_transport())
        )
        raw = stack.enter_context(
            RawCalls(*access, timeouts=server.timeouts, http_transport=server.http_transport())
        )

        def make() -> ThrowAway:
            name = f"lakesweep-certify-{secrets.token_hex(8)}"
            namespace = f"{server.storage_namespace.rstrip('/')}/{name}"
            location = Location.parse(namespace, namespace_root=server.namespace_root)
            body = {"name": name, "storage_namespace": namespace}
            answer = raw.send("POST", ("repositories",), body=body)
            if answer.status_code != 201:
                raise CatalogError(
                    f"making the repository {name} in {namespace}: {raw.url} answered {answer.status_code} "
                    f"({answer.text[:200]}). Nothing was tried. Check the credentials, and that the server may use "
                    "--storage-namespace.",
                    kind="no-throw-away-repository",
                )
            made = ThrowAway(
                name,
                namespace,
                client,
                raw,
                open_store(location, server.storage),
                AddressNormaliser(location, server.namespace_root),
                rounds,
                seed,
                make,
            )
            stack.callback(_remove, made, keep, left_behind)
            return made

        yield make()


def _remove(lake: ThrowAway, keep: bool, left_behind: list[str]) -> None:
    """Delete the repository, then the objects below its namespace, which nothing else was ever in."""
    if keep:
        left_behind.append(f"repository {lake.name} with {lake.namespace}, as --keep asks")
        return
    try:
        answer = lake.ask("DELETE")
        why = f"{answer.status_code}" if answer.status_code >= 400 else ""
    except CatalogError as error:
        why = error.message
    if why:
        left_behind.append(f"repository {lake.name} with {lake.namespace} ({why})")
        return
    try:
        outcomes = lake.store.delete_many(list(lake.store.keys()))
        gone = (DeleteStatus.GONE, DeleteStatus.ALREADY_ABSENT)
        kept = sum(outcome.status not in gone for outcome in outcomes)
        if kept:
            left_behind.append(f"{kept} objects below {lake.namespace}")
    except LakesweepError as error:
        left_behind.append(f"objects below {lake.namespace} ({error.message})")
