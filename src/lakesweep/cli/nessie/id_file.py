"""The file that carries a live set's id from a mark to the commands after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lakesweep.domain.live_sets import LiveSetId
from lakesweep.errors import ConfigError
from lakesweep.settings.nessie_values import OptionValues

__all__ = ["IdFile", "wanted_id_file"]


@dataclass(frozen=True, slots=True)
class IdFile:
    """Written empty before the mark, so that a place that can't be written to is known at once, and filled after it.

    A mark that fails leaves it empty, and not with an older mark's id.
    """

    path: Path | None  # None: none is wanted

    def prepare(self) -> None:
        """Make its folder and an empty file."""
        flag = "--write-live-set-id-to"
        self._write("", f"{flag}: {self.path} can't be written: {{error}}. Nothing was touched.")

    def fill(self, live_set_id: LiveSetId) -> None:
        """Write the id, and nothing else."""
        self._write(
            live_set_id,
            f"The live set {live_set_id} is marked, and its id can't be written to {self.path}: {{error}}. "
            f"Go on with --live-set-id {live_set_id}.",
        )

    def _write(self, text: str, message: str) -> None:
        if self.path is None:
            return
        try:
            self.path.absolute().parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(text, "utf-8")
        except OSError as error:
            raise ConfigError(message.replace("{error}", str(error)), kind="bad-id-file") from error


def wanted_id_file(options: OptionValues) -> IdFile:
    """The file of `--write-live-set-id-to`."""
    name = options["write_live_set_id_to"]
    return IdFile(Path(name) if name is not None else None)
