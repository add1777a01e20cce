"""The file that carries a live set's id from a mark to the commands after it."""

from __future__ import annotations

from pathlib import Path

from lakesweep.domain.live_sets import LiveSetId
from lakesweep.errors import ConfigError
from lakesweep.settings.nessie_values import OptionValues

__all__ = ["IdFile", "wanted_id_file"]


class IdFile:
    """Written empty before the mark, so that a place that can't be written to is known at once, and filled after it.

    A mark that fails leaves it empty, and not with an older mark's id.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def prepare(self) -> None:
        """Make its folder and an empty file, where one is wanted."""
        if self._path is not None:
            try:
                self._path.absolute().parent.mkdir(parents=True, exist_ok=True)
                self._path.write_bytes(b"")
            except OSError as error:
                raise ConfigError(
                    f"--write-live-set-id-to: {self._path} can't be written: {error}. Nothing was touched.",
                    kind="bad-id-file",
                ) from error

    def fill(self, live_set_id: LiveSetId) -> None:
        """Write the id, and nothing else."""
        if self._path is not None:
            try:
                self._path.write_text(live_set_id, "utf-8")
            except OSError as error:
                raise ConfigError(
                    f"The live set {live_set_id} is marked, and its id can't be written to {self._path}: {error}. "
                    f"Go on with --live-set-id {live_set_id}.",
                    kind="bad-id-file",
                ) from error


def wanted_id_file(options: OptionValues) -> IdFile:
    """The file of `--write-live-set-id-to`."""
    name = options["write_live_set_id_to"]
    return IdFile(Path(name) if name is not None else None)
