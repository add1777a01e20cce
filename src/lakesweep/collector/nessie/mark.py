"""Find garbage by a live set: list the base locations, and judge every file by all that is live."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakesweep.collector.judge.candidates import listed_parts
from lakesweep.collector.listing import Listing, list_objects
from lakesweep.collector.mark import Found, Settled
from lakesweep.collector.nessie.context import SetFolder
from lakesweep.collector.nessie.folders import outermost
from lakesweep.collector.nessie.judging import FilesJudged, file_judge, judge_files
from lakesweep.collector.nessie.listing import (
    UNTOUCHABLE,
    FoundTable,
    ListedFolders,
    cut,
    tables_of,
)
from lakesweep.collector.nessie.live_catalog import LiveCatalog, refuse_bad_manifests
from lakesweep.collector.nessie.live_files import FULLER
from lakesweep.collector.nessie.opening import LiveSetRun
from lakesweep.domain.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class FilesFound(Found):
    """What lies in the base locations, judged."""

    judged: FilesJudged
    tables: frozenset[FoundTable] = frozenset()  # folders that look like a table's
    untouchable: tuple[str, ...] = ()  # examples of names that a store can't carry unchanged


@dataclass(frozen=True, slots=True)
class MarkedLiveSet:
    """A live set by which garbage is looked for: implements `MarkedCatalog`."""

    opened: LiveSetRun
    live: LiveCatalog
    cutoff: datetime  # inclusive

    @property
    def name(self) -> str:
        return f"live set {self.opened.live_set.id}"

    def search(self) -> FilesFound:
        """What is live was read before; files that came since then are younger than the mark, and so kept."""
        context, folder = self.opened.context, SetFolder(self.opened.live_set.id)
        listed = self._list(folder)
        tables = tables_of(listed)
        with context.phases.phase("judge") as step:
            judged = judge_files(
                context,
                self.live.references(),
                listed_parts(listed.parts),
                self.live.folders.protection(tables),
                file_judge(context.target, folder.verdicts, self.cutoff),
                folder.manifests,
                self.live.canaries(),
            )
            step.handled(listed.listed)
            kinds = (Verdict.LIVE, Verdict.PROTECTED, Verdict.YOUNG)
            step.said = ", ".join(f"{judged.tallies[v].objects} {v}" for v in kinds)
            step.said += f", {judged.garbage_tally.objects} garbage"
        return FilesFound(
            judged,
            judged.garbage,
            listed.listed,
            listed.protected,
            tables,
            tuple(listed.notices.get(UNTOUCHABLE, ())),
        )

    def settle(self, found: Found) -> Settled:
        """End the run where a manifest can't be read that must be."""
        assert isinstance(found.judged, FilesJudged)
        opened = self.opened
        if found.judged.fuller_manifests:
            self.live.folders.live.notices[FULLER] = found.judged.fuller_manifests
        undone, bad = "Nothing was deleted.", found.judged.bad_manifests
        refuse_bad_manifests(opened.context, self.live, opened.request, undone, bad)
        return Settled(found.garbage)

    def _list(self, folder: SetFolder) -> Listing:
        context = self.opened.context
        with context.phases.phase("list") as step:
            roots = outermost(base.location for base in self.live.folders.bases)
            lake = context.lake
            listed = list_objects(
                lake.engine,
                context.target,
                folder.listing,
                ListedFolders(lake.stores),
                cut(lake.stores, roots, lake.engine.slots),
                most_tasks=lake.most_tasks,
            )
            step.handled(listed.listed)
            step.said = f"{listed.listed} in {len(roots)} folders"
        return listed
