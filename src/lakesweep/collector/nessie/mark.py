"""Find garbage by a live set: list the base locations, and judge every file by all that is live."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakesweep.collector.judge.candidates import listed_parts
from lakesweep.collector.listing import Listing, list_objects
from lakesweep.collector.mark import Found, MarkedCatalog, Settled
from lakesweep.collector.nessie.judging import FilesJudged, file_judge, judge_files
from lakesweep.collector.nessie.listing import (
    UNTOUCHABLE,
    FoundTable,
    ListedFolders,
    cut,
    tables_of,
)
from lakesweep.collector.nessie.live_catalog import LiveCatalog
from lakesweep.collector.nessie.live_files import FULLER
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.collector.target import Target
from lakesweep.domain.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class FilesFound(Found):
    """The result of a search by a live set: all files in the base locations, judged."""

    judged: FilesJudged
    tables: frozenset[FoundTable] = frozenset()  # folders that look like a table's
    untouchable: tuple[str, ...] = ()  # examples of names that a store can't carry unchanged


@dataclass(frozen=True, slots=True)
class MarkedLiveSet(MarkedCatalog):
    """Looks for garbage among the files in base locations by what a live set holds: implements `MarkedCatalog`."""

    target: Target  # our own folder
    folder: SetFolder
    live: LiveCatalog
    cutoff: datetime  # inclusive

    @property
    def name(self) -> str:
        return f"live set {self.folder.live_set_id}"

    def search(self) -> FilesFound:
        """List the base locations and judge every file. What is live was read before; newer files are young, and kept."""
        table_reader, folder, listing = self.live.reader.table_reader, self.folder, self._list()
        tables = tables_of(listing)
        with table_reader.phases.phase("judge") as step:
            judged = judge_files(
                table_reader,
                self.live.references(),
                listed_parts(listing.parts),
                self.live.folders.protection(tables),
                file_judge(self.target, folder.verdicts, self.cutoff),
                folder.manifests,
                self.live.canaries(),
            )
            step.handled(listing.listed)
            kinds = (Verdict.LIVE, Verdict.PROTECTED, Verdict.YOUNG)
            step.said = ", ".join(f"{judged.tallies[v].objects} {v}" for v in kinds)
            step.said += f", {judged.garbage_tally.objects} garbage"
        odd = tuple(listing.notices.get(UNTOUCHABLE, ()))
        garbage, listed, protected = judged.garbage, listing.listed, listing.protected
        return FilesFound(judged, garbage, listed, protected, tables=tables, untouchable=odd)

    def settle(self, found: Found) -> Settled:
        """End the run where a manifest can't be read that must be."""
        assert isinstance(found.judged, FilesJudged)
        if found.judged.fuller_manifests:
            self.live.folders.live.notices[FULLER] = found.judged.fuller_manifests
        self.live.refuse_bad_manifests(found.judged.bad_manifests, "Nothing was deleted.")
        return Settled(found.garbage)

    def _list(self) -> Listing:
        table_reader = self.live.reader.table_reader
        with table_reader.phases.phase("list") as step:
            roots = self.live.folders.roots
            found = list_objects(
                table_reader.engine,
                self.target,
                self.folder.listing,
                ListedFolders(table_reader.stores),
                cut(table_reader.stores, roots, table_reader.engine.slots),
                most_tasks=table_reader.most_tasks,
            )
            step.handled(found.listed)
            step.said = f"{found.listed} in {len(roots)} folders"
        return found
