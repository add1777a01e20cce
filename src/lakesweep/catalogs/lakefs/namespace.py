"""Full physical addresses, in whatever spelling, as addresses relative to the storage namespace."""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from lakesweep.domain.location import Location, StoreKind
from lakesweep.errors import ConfigError, UnsafeToSweepError

__all__ = ["NORMALISER_VERSION", "AddressNormaliser", "may_overlap"]

# Part of the key of whatever is cached from normalised addresses: raise it when an address may come out differently.
NORMALISER_VERSION = 2

_KIND_OF_SCHEME: dict[str, StoreKind] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    "gs": "gs",
    **dict.fromkeys(("http", "https", "abfs", "abfss", "wasb", "wasbs"), "azure"),
    **dict.fromkeys(("local", "file"), "local"),
    "mem": "mem",
}
_BUCKET = re.compile(r"[^:]*://([^/%]+)(?:/|\Z)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_ONE_SPELLING_ONLY = re.compile(r"(?!.*(?:%|//|/\.))[^/.].*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AddressNormaliser:
    """Tells for a full address whether it lies in the namespace, and where.

    An address that the server could read as an object of the namespace counts as that object: taking it for live keeps
    at worst one object too many. Only a spelling of our own kind of store that can't be read at all is refused.

    Args:
        namespace: the repository's storage namespace.
        namespace_root: the folder of `local://NAME` namespaces, where the store is local files.
    """

    namespace: Location
    namespace_root: str | None = None
    _folded: Location = field(init=False, repr=False)
    _usual_prefix: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_folded", _fold(self.namespace))
        uri = self.namespace.uri
        # lakeFS writes local addresses as local://<absolute path>, which is not how we write them.
        usual = uri.replace("file://", "local://", 1) if self.namespace.kind == "local" else uri
        object.__setattr__(self, "_usual_prefix", usual + "/")

    def relative(self, address: str) -> str | None:
        """The address relative to the namespace, verbatim; None when it lies outside."""
        return next(iter(self.readings(address)), None)

    def readings(self, address: str) -> tuple[str, ...]:
        """All objects of the namespace that the address may mean, the verbatim one first; empty when outside.

        Servers and stores differ in what they fold: lakeFS on S3 reads `s3://bucket//ns/x` as `s3://bucket/ns/x` and
        leaves `%41` alone, others decode it or resolve `..`. Every reading counts as live, so it need not be known.

        Raises:
            UnsafeToSweepError: it can't be told whether the address lies in the namespace.
        """
        if address.startswith(self._usual_prefix):
            rest = address[len(self._usual_prefix) :]
            if _ONE_SPELLING_ONLY.fullmatch(rest):
                return (rest,)
        scheme = _SCHEME.match(address)
        if scheme is None:
            # Relative, whatever its entry calls it. A server's uncommitted list cuts the namespace off full
            # addresses, so the rest may still be one that the store reads as another key.
            # Where the namespace is a whole bucket, a slash in front is dropped.
            spellings = _path_spellings(address)
            found = dict.fromkeys([*spellings, *(spelling.lstrip("/") for spelling in spellings)])
            return tuple(spelling for spelling in found if spelling)
        if _KIND_OF_SCHEME.get(scheme[1].lower()) != self.namespace.kind:
            return ()
        if self.namespace.kind in ("s3", "gs"):
            # Imported data lies in other buckets by the million: tell those without taking them apart.
            bucket = _BUCKET.match(address)
            if bucket is not None and bucket[1].lower() != self._folded.container:
                return ()
        return self._relative_spellings(address)

    def _relative_spellings(self, address: str) -> tuple[str, ...]:
        found: list[str] = []
        failure: ConfigError | None = None
        understood = False
        for spelling in _spellings(address):
            try:
                place = Location.parse(spelling, namespace_root=self.namespace_root)
            except ConfigError as error:
                failure = error
                continue
            understood = True
            relative = self._folded.relative(_fold(place))
            if relative and relative not in found:
                found.append(relative)
        if not understood:
            raise UnsafeToSweepError(
                f"The address {address.partition('?')[0]!r} is in an entry of the repository, and it is not known "
                "whether it lies in the storage namespace. Nothing was deleted. Remove or re-import that entry.",
                kind="address-not-understood",
            ) from failure
        return tuple(found)


def may_overlap(uri: str, place: Location, namespace_root: str | None = None) -> bool:
    """Whether a URI may name a place in, around or on another one, in any way that a server or a store may read it."""
    other = _fold(place)
    for spelling in _spellings(uri):
        with suppress(ConfigError):
            one = _fold(Location.parse(spelling, namespace_root=namespace_root))
            if one.contains(other) or other.contains(one):
                return True
    return False


def _fold(place: Location) -> Location:
    # Bucket and container names have no upper case; a spelling with one can only mean the same place.
    return replace(place, container=place.container.lower(), account=place.account.lower())


def _spellings(address: str) -> list[str]:
    scheme, _, rest = address.partition(":")
    authority_end = rest.find("/", 2) if rest.startswith("//") else 0
    if authority_end < 0:
        return [address]
    authority = f"{scheme}:{rest[:authority_end]}"
    paths = _path_spellings(rest[authority_end:])
    hosts = dict.fromkeys((authority, unquote(authority)))
    return [host + path for host in hosts for path in dict.fromkeys(paths)]


def _path_spellings(path: str) -> list[str]:
    """The path as it is, decoded, and both with `//`, `/./` and `/../` folded."""
    decoded = unquote(path)
    return [path, decoded, *(_folded_path(text) for text in (path, decoded))]


def _folded_path(path: str) -> str:
    folded = posixpath.normpath("/" + path.lstrip("/"))
    return folded if path.startswith("/") else folded[1:]
