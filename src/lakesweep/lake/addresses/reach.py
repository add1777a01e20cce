"""Where this server may go with its own credentials: its folder, and the places its operator listed.

Users name storage namespaces and addresses to import; the server reads and writes them with rights that the users
don't have. So a place counts as listed only if every way to read its spelling lies below one listed prefix.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.lake.addresses.spellings import readings
from lakesweep.lake.errors import ForbiddenError, InvalidRequestError
from lakesweep.storage import is_odd_key

LONGEST_ADDRESS = 4096
_WHOLE_KIND = re.compile(r"(s3|gs|mem)://")
# What may stand in a bucket's or container's name. Anything else might end the host, or begin a path, in some client.
_CONTAINER = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]*")
_SEPARATOR = re.compile(r"[/\\]")
_REF_STORE = "refs.db"


@dataclass(frozen=True, slots=True)
class _Prefix:
    """One listed prefix: a place and all below it, or every bucket of a kind of store."""

    kind: str
    place: Location | None

    @classmethod
    def parse(cls, text: str, data_dir: Path) -> _Prefix:
        whole = _WHOLE_KIND.fullmatch(text.lower())
        if whole is not None:
            return cls(whole[1], None)
        place = Location.parse(text, namespace_root=str(data_dir))
        if not _is_plain(place):
            raise ConfigError(
                f"{text} can't be allowed: write it plainly, without '//', '.', '..', '%' or '\\'."
                " The lake was not opened."
            )
        return cls(place.kind, place)

    def covers(self, location: Location) -> bool:
        if self.place is None or location.kind != self.kind:
            return location.kind == self.kind
        if location.kind == "local":
            return _real_path(location).is_relative_to(_real_path(self.place))
        return self.place.contains(location)


class Reach:
    """The operator's lists. `ConfigError` when one of them can't be read."""

    def __init__(
        self, data_dir: Path, allow_namespaces: Iterable[str], allow_imports: Iterable[str]
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._folder = Location.parse(f"file://{self._data_dir}")
        self._namespaces = [_Prefix.parse(text, self._data_dir) for text in allow_namespaces]
        self._imports = [_Prefix.parse(text, self._data_dir) for text in allow_imports]

    def check_namespace(self, uri: str) -> Location:
        """The place of a storage namespace, if a repository may lie there.

        Raises:
            InvalidRequestError: it is no place, or not written plainly.
            ForbiddenError: `namespace-not-allowed`.
        """
        location = self._parse_namespace(uri)
        if location.kind == "local" and self._is_own_folder(location):
            return location
        if not self._covers(self._namespaces, uri):
            raise ForbiddenError(
                f"this server keeps no repository at {uri}: the place is not among those that its"
                " operator allows. Nothing was done; use local://NAME, or have it allowed with"
                " --allow-namespace.",
                kind="namespace-not-allowed",
            )
        return location

    def check_import(self, uri: str) -> None:
        """Refuse an address that may not be read from: `ForbiddenError` (`import-not-allowed`)."""
        is_own = any(
            location.kind == "local" and _contains_real(self._folder, location)
            for location in self._places(uri)
        )
        # The server's own folder holds its ref store and other users' repositories, whatever is listed around it.
        if is_own or not self._covers(self._imports, uri):
            raise ForbiddenError(
                f"this server does not read {uri}: the place is not among those that its operator allows."
                " Nothing was done; have it allowed with --allow-import.",
                kind="import-not-allowed",
            )

    def _parse_namespace(self, uri: str) -> Location:
        if len(uri) > LONGEST_ADDRESS:
            raise _not_plain(uri)
        try:
            location = Location.parse(uri, namespace_root=str(self._data_dir))
        except ConfigError as wrong:
            raise InvalidRequestError(wrong.message, kind="invalid-namespace") from wrong
        if not _is_plain(location):
            raise _not_plain(uri)
        return location

    def _is_own_folder(self, location: Location) -> bool:
        """Whether it is a folder in ours, but not ours itself, nor a file, nor the ref store's."""
        relative = self._folder.relative(location)
        if not relative or not _contains_real(self._folder, location):
            return False
        top = relative.partition("/")[0]
        return not (top.lower().startswith(_REF_STORE) or (self._data_dir / top).is_file())

    def _covers(self, prefixes: Iterable[_Prefix], uri: str) -> bool:
        if any(".." in _SEPARATOR.split(reading) for reading in readings(uri)):
            # Some client would climb out of the bucket, into any other.
            return False
        places = self._places(uri)
        return bool(places) and any(all(map(prefix.covers, places)) for prefix in prefixes)

    def _places(self, uri: str) -> list[Location]:
        places = []
        for reading in readings(uri):
            try:
                places.append(Location.parse(reading, namespace_root=str(self._data_dir)))
            except ConfigError:
                # Nothing understands it so; the other readings count.
                continue
        return places


def kinds_of_stores(prefixes: Iterable[str], data_dir: Path) -> set[str]:
    """The kinds of stores that prefixes of an operator's list lie in."""
    return {_Prefix.parse(text, data_dir.absolute()).kind for text in prefixes}


def _is_plain(location: Location) -> bool:
    key = location.key
    is_odd = bool(key) and (is_odd_key(key) or "\\" in key or "%" in key)
    return not is_odd and (
        location.kind == "local" or _CONTAINER.fullmatch(location.container) is not None
    )


def _not_plain(uri: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{uri[:200]!r} is not written plainly: no '//', '.', '..', '%', '\\' or control characters, and a"
        f" bucket's name of letters, digits, '.', '_' and '-', {LONGEST_ADDRESS} characters at most."
        " Nothing was created.",
        kind="invalid-namespace",
    )


def _real_path(location: Location) -> Path:
    return Path(os.path.realpath(f"/{location.key}"))


def _contains_real(folder: Location, location: Location) -> bool:
    return _real_path(location).is_relative_to(_real_path(folder))
