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

    def __str__(self) -> str:
        needed = f" (needed by {', '.join(self.content_ids)})" if self.content_ids else ""
        return f"{self.what} {self.file}{needed}: {self.why}"


def refuse_unreadable(problems: Sequence[Problem]) -> None:
    """End the run when a live file can't be read, naming every one of them."""
    if not problems:
        return
    named = "\n".join(f"  {problem}" for problem in sorted(problems)[:_NAMED_AT_MOST])
    more = len(problems) - _NAMED_AT_MOST
    ids = sorted({content_id for problem in problems for content_id in problem.content_ids})
    raise UnsafeToSweepError(
        f"{len(problems)} live files can't be read, so nobody knows what they refer to:\n{named}\n"
        + (f"  … and {more} more\n" if more > 0 else "")
        + "Nothing was deleted. Bring them back"
        + (
            ", or go on without these contents (nothing below their locations is then deleted): "
            + " ".join(f"--give-up {content_id}" for content_id in ids)
            if ids
            else "."
        ),
        kind="unreadable",
    )
