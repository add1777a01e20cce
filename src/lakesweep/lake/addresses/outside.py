"""Addresses outside the namespace: which may be staged or imported, and how they are reached."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.formats.entries import Entry
from lakesweep.lake.addresses.reach import LONGEST_ADDRESS
from lakesweep.lake.addresses.spellings import readings
from lakesweep.lake.context import LakeContext, full_address
from lakesweep.lake.errors import InvalidAddressError
from lakesweep.lake.refs.namespaces import NamespaceClaims, folded
from lakesweep.lake.staging.staged_values import is_relative
from lakesweep.lake.values import Repository
from lakesweep.storage import ObjectStore, is_odd_key

_AZURE_CLOUD = re.compile(r"https://[^/]+\.blob\.[^/]+")


class Addresses:
    """Judges addresses that clients bring, and opens the place an entry's bytes lie in."""

    def __init__(self, context: LakeContext, claims: NamespaceClaims) -> None:
        self._context = context
        self._claims = claims

    def check_outside(
        self, repository: Repository, address: str, *, is_prefix: bool = False
    ) -> Location:
        """The place of an address that lies in no repository's namespace, however it is spelt.

        Raises:
            InvalidAddressError: it does, or might when read in another way, or can't be understood.
            ForbiddenError: `import-not-allowed`.
        """
        if len(address) > LONGEST_ADDRESS:
            raise InvalidAddressError(
                f"an address of {len(address)} characters is longer than {LONGEST_ADDRESS}"
            )
        location = self._plain(address, is_prefix=is_prefix)
        for reading in self._locations(address):
            for namespace in self._namespaces(repository):
                if folded(namespace).contains(folded(reading)):
                    raise InvalidAddressError(
                        f"{address!r} lies in the storage namespace {namespace}, or may be taken for it;"
                        " link an issued address instead. Nothing was staged."
                    )
        if location.endpoint and not _AZURE_CLOUD.fullmatch(location.endpoint):
            self._assert_own_endpoint(repository, location)
        self._context.reach.check_import(address)
        return location

    def check_source_prefix(self, repository: Repository, address: str) -> Location:
        """The place of a prefix to import from: in no namespace, and around none."""
        location = self.check_outside(repository, address, is_prefix=True)
        for reading in self._locations(address):
            for namespace in self._namespaces(repository):
                if folded(reading).contains(folded(namespace)):
                    raise InvalidAddressError(
                        f"{address} contains the storage namespace {namespace}, or may be taken to;"
                        " nothing was imported"
                    )
        return location

    def open(self, repository: Repository, entry: Entry) -> tuple[ObjectStore, str]:
        """The store and key of an entry's bytes."""
        if is_relative(entry):
            return self._context.store(repository), entry.address
        return self._open_outside(entry.address)

    def open_uri(self, repository: Repository, address: str) -> tuple[ObjectStore, str]:
        """The store and key of the full address that an entry is shown with."""
        relative = address.removeprefix(full_address(repository, ""))
        if relative != address:
            return self._context.store(repository), relative
        return self._open_outside(address)

    def _open_outside(self, address: str) -> tuple[ObjectStore, str]:
        location = self._plain(address)
        # Asked at each read: the list may be shorter by now, and a commit may come from another server.
        self._context.reach.check_import(address)
        return open_parent(self._context, location)

    def _plain(self, address: str, *, is_prefix: bool = False) -> Location:
        try:
            location = self._context.locate(address)
        except ConfigError as wrong:
            raise InvalidAddressError(wrong.message) from wrong
        if is_prefix and not location.key:
            return location
        if is_odd_key(location.key) or "\\" in location.key:
            raise InvalidAddressError(
                f"{address!r} is not written plainly: no '//', '.', '..', '\\' or control characters"
            )
        return location

    def _locations(self, address: str) -> Iterator[Location]:
        """The places that the address might be taken for."""
        for reading in readings(address):
            try:
                yield self._context.locate(reading)
            except ConfigError:
                # Nothing understands it so; another reading counts.
                continue

    def _namespaces(self, repository: Repository) -> Iterator[Location]:
        yield self._context.namespace(repository)
        for claim in self._claims.all():
            yield claim.location

    def _assert_own_endpoint(self, repository: Repository, location: Location) -> None:
        # An http address may be another name of the very server that the namespace lies on.
        if self._context.namespace(repository).endpoint != location.endpoint:
            raise InvalidAddressError(
                f"{location} is on a server that the repository's own store is not on;"
                " other names of that server are not known. Nothing was staged."
            )


def open_parent(context: LakeContext, location: Location) -> tuple[ObjectStore, str]:
    """A store at the folder of one object, and the object's key in it."""
    folder, _, name = location.key.rpartition("/")
    parent = Location(
        location.kind, location.container, folder, location.account, location.endpoint
    )
    return context.open(parent), name
