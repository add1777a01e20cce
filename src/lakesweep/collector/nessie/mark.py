"""Find garbage by a live set: list the base locations, and judge every file by all that is live."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakesweep.collector.judge.candidates import listed_parts
from lakesweep.collector.mark import Found, Settled
from lakesweep.collector.nessie.context import SetFolder
from lakesweep.collector.nessie.folders import outermost
from lakesweep.collector.nessie.judging import FilesJudged, file_judge, judge_files
from lakesweep.collector.nessie.list_folders import FoundTable
from lakesweep.collector.nessie.listing import ListedFiles, list_base_folders
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
        with context.phases.phase("judge") as step:
            judged = judge_files(
                context,
                self.live.references(),
                listed_parts(listed.parts),
                self.live.folders.protection(listed.tables),
                file_judge(context.target, folder.verdicts, self.cutoff),
                folder.manifests,
                self.live.canaries(),
            )
            step.handled(listed.seen)
            kinds = (Verdict.LIVE, Verdict.PROTECTED, Verdict.YOUNG)
            step.said = ", ".join(f"{judged.tallies[v].objects} {v}" for v in kinds)
            step.said += f", {judged.garbage_tally.objects} garbage"
        return FilesFound(
            judged,
            judged.garbage,
            listed.seen,
            listed.protected,
            listed.tables,
            listed.untouchable,
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

    def _list(self, folder: SetFolder) -> ListedFiles:
        context = self.opened.context
        with context.phases.phase("list") as step:
            roots = outermost(base.location for base in self.live.folders.bases)
            listed = list_base_folders(context, roots, folder.listing)
            step.handled(listed.seen)
            step.said = f"{listed.seen} in {len(roots)} folders"
        return listed
