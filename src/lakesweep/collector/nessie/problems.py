"""Live files that can't be read: what is said of each, and by whom it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.errors import UnsafeToSweepError

_NAMED_AT_MOST = 1000


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One unreadable file, what it is, and the contents that need it."""

    file: str
    what: str  # "metadata file", "manifest list", "manifest"
    why: str
    content_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # the metadata files that lead to it
    is_missing: bool = False

    def __str__(self) -> str:
        needed = f" (needed by {', '.join(self.content_ids)})" if self.content_ids else ""
        return f"{self.what} {self.file}{needed}: {self.why}"


def refuse_unreadable(problems: Sequence[Problem], command: str, undone: str) -> None:
    """End the run when a live file can't be read, naming every one of them once.

    Args:
        problems: the files; several ones of one name are one.
        command: what goes on, once it is told which contents to give up.
        undone: what was not done.
    """
    by_file = {problem.file: problem for problem in sorted(problems, reverse=True)}
    if not by_file:
        return
    named = "\n".join(f"  {problem}" for problem in sorted(by_file.values())[:_NAMED_AT_MOST])
    more = len(by_file) - _NAMED_AT_MOST
    ids = sorted({content_id for problem in problems for content_id in problem.content_ids})
    flags = " ".join(f"--give-up {content_id}" for content_id in ids)
    raise UnsafeToSweepError(
        f"{len(by_file)} live files can't be read, so nobody knows what they refer to:\n{named}\n"
        + (f"  … and {more} more\n" if more > 0 else "")
        + f"{undone} Bring them back"
        + (
            ", or go on without these contents, which keeps all that they can own: "
            f"`{command} {flags}` (with --inmemory: `gc` with the same --give-up)."
            if ids
            else "."
        ),
        kind="unreadable",
    )
