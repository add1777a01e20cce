"""How a table spells its base location, for lists that nessie-gc reads too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakesweep.collector.nessie.folders import BaseFolder
from lakesweep.collector.nessie.places import location_of
from lakesweep.domain.location import Location


class BaseSpelling:
    """Finds the innermost base location of a file, and names the file as its table would."""

    def __init__(self, bases: Sequence[BaseFolder]) -> None:
        self._by_location: dict[Location, str] = {}
        for base in bases:
            self._by_location.setdefault(base.location, _tidy(base))
        self._found: dict[Location, tuple[Location, str] | None] = {}

    def of(self, uri: str) -> tuple[str, str]:
        """The base location of a file, with a closing slash, and the file's URI, both spelled as its table spells them."""
        location = location_of(uri)
        folder, _, _ = location.key.rpartition("/")
        found = self._nearest(replace(location, key=folder))
        if found is None:
            return uri.rpartition("/")[0] + "/", uri
        base, spelled = found
        return spelled, spelled + (base.relative(location) or "")

    def _nearest(self, folder: Location) -> tuple[Location, str] | None:
        if folder not in self._found:
            at: Location | None = folder
            while at is not None and at not in self._by_location:
                at = replace(at, key=at.key.rpartition("/")[0]) if at.key else None
            self._found[folder] = None if at is None else (at, self._by_location[at])
        return self._found[folder]


def _tidy(base: BaseFolder) -> str:
    # Spark writes file:/path, others file:///path; a link on the way is left out, as the listing leaves it out.
    if base.location.kind == "local":
        return f"{base.location.uri}/"
    return base.spelled.rstrip("/") + "/"
