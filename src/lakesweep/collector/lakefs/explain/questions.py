"""What a user asks `explain` about: an address, a path of a ref, or the objects that a mark names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesweep.collector.lakefs.marks import load_plan
from lakesweep.collector.lakefs.paths import parse_mark_id
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import is_candidate
from lakesweep.errors import CatalogNotFoundError, ConfigError
from lakesweep.formats.damage import named_damage
from lakesweep.formats.tables import read_mark
from lakesweep.storage.keys import is_odd_key

__all__ = ["AddressResolver", "AskedObject"]


@dataclass(frozen=True, slots=True)
class AskedObject:
    """One object that a user asked about: its address in the namespace, or why it has none."""

    asked: str
    address: str = ""
    not_found: str = ""
    notes: tuple[str, ...] = ()
    marked: str = ""  # the mark that names it, and its reason


class AddressResolver:
    """Turns what a user writes (an address, a URI, a path at a ref) into addresses in the namespace."""

    def __init__(self, repository: LakeFSRepository, target: Target) -> None:
        self._repository, self._target = repository, target
        self._client, self._name = repository.client, repository.name

    def parse(self, text: str) -> AskedObject:
        """`lakefs://repo/ref/path`, the URI of an object, an address, or `PATH[@REF]`.

        Raises:
            ConfigError: it names another repository, or nothing.
        """
        if not text:
            raise ConfigError(
                "Which object? An empty name was given. Name addresses, PATH[@REF] or lakefs://repo/ref/path. "
                "Nothing was touched.",
                kind="no-object",
            )
        if text.startswith("lakefs://"):
            repository, _, rest = text.removeprefix("lakefs://").partition("/")
            ref, _, path = rest.partition("/")
            if repository != self._name or not ref or not path:
                raise ConfigError(
                    f"{text} is not an object of {self._name}: write lakefs://{self._name}/REF/PATH. "
                    "Nothing was touched.",
                    kind="bad-object",
                )
            return self._at(text, ref, path)
        if "://" in text:
            address = self._repository.addresses.relative(text)
            if address is None:
                root = self._target.namespace.uri
                return AskedObject(text, not_found=f"it lies outside the storage namespace {root}")
            return AskedObject(text, address)
        is_name = text.startswith(("data/", "_lakefs/")) and self._is_in_store(text)
        if is_candidate(text, root_names=True) or is_name:
            return AskedObject(text, text)
        return self._path(text)

    def of_mark(self, mark_id: str) -> Iterator[tuple[str, str]]:
        """Address and reason of every object that a mark names."""
        store = self._target.open()
        plan = load_plan(store, self._name, parse_mark_id(mark_id))
        for file in plan.files:
            with named_damage(file.key, "Mark again."):
                rows = read_mark(store.read(file.key))
            addresses, reasons = (rows.column(c).to_pylist() for c in ("address", "reason"))
            yield from zip(addresses, reasons, strict=True)

    def _is_in_store(self, text: str) -> bool:
        """Whether a name that may be a path or an address is that of an object in the namespace."""
        return not is_odd_key(text) and self._target.open().find(text) is not None

    def _path(self, text: str) -> AskedObject:
        path, _, ref = text.rpartition("@")
        if path and ref and self._has_ref(ref):
            return self._at(text, ref, path)
        default = self._repository.details.default_branch
        found = self._at(text, default, text)
        if found.address or found.notes:
            return found
        if self._is_in_store(text):
            return AskedObject(text, text)
        if path and ref:
            hint = (
                f"it is not an address, {default} has no such path, and {self._name} has no branch, tag or commit "
                f"{ref}"
            )
        else:
            hint = f"it is not an address, and {default} has no such path. Name the branch, tag or commit: {text}@REF"
        return AskedObject(text, not_found=hint)

    def _has_ref(self, ref: str) -> bool:
        try:
            self._client.commit(self._name, ref)
        except CatalogNotFoundError:
            return False
        return True

    def _at(self, asked: str, ref: str, path: str) -> AskedObject:
        entry = self._client.stat_object(self._name, ref, path)
        if entry is None:
            return AskedObject(
                asked, not_found=f"{ref} has no path {path}; name a commit or tag that had it"
            )
        address = self._repository.addresses.relative(entry.physical_address)
        if address is None:
            outside = f"{path} at {ref} is {entry.physical_address}, outside the storage namespace"
            return AskedObject(
                asked, not_found=outside, notes=("imported objects are never collected",)
            )
        return AskedObject(asked, address, notes=(f"looked up as path {path} at {ref}",))
