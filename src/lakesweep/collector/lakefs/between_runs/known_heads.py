"""Heads of branches that the last mark has seen. No server removes a commit, so one that lacks such a head went back in time.

It was restored from an older backup. What was committed since that backup is in no commit there, and would look like
garbage until somebody restores a newer one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from lakesweep.catalogs.lakefs.graph import RepositoryRefs
from lakesweep.catalogs.lakefs.history import History
from lakesweep.collector.lakefs.paths import OWN
from lakesweep.domain.commits import BranchHead
from lakesweep.domain.durations import format_time
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.commit_columns import texts
from lakesweep.json_text import parse_json
from lakesweep.storage import ObjectStore

__all__ = ["KNOWN_HEADS", "refuse_older_refs", "save_known_heads"]

KNOWN_HEADS = f"{OWN}known-heads.json"
_SCHEMA = "lakesweep.known-heads/1"


def save_known_heads(store: ObjectStore, heads: Sequence[BranchHead], at: datetime) -> None:
    """Leave the heads of all branches for later runs to look for."""
    values = {head.id: head.commit_id for head in heads}
    note = {"schema": _SCHEMA, "seen_at": format_time(at), "heads": values}
    store.write(KNOWN_HEADS, json.dumps(note, indent=2).encode())


def refuse_older_refs(store: ObjectStore, repository: str, refs: RepositoryRefs[History]) -> None:
    """Refuse refs that lack a head which the last mark has seen.

    Raises:
        UnsafeToSweepError: they lack one, or what the last mark left can't be read.
    """
    if not refs.complete:
        return  # commits on no branch are not known, and every range counts as live
    try:
        note = parse_json(store.read(KNOWN_HEADS))
        if note["schema"] != _SCHEMA:
            raise ValueError(f"schema {note['schema']!r}")
        seen_at, heads = str(note["seen_at"]), list(note["heads"].items())
        rows = refs.graph.rows_of(texts([commit_id for _, commit_id in heads]))
    except ObjectNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnsafeToSweepError(
            f"{KNOWN_HEADS} in {store.root.uri}, which says where branches were at the last mark, can't be read ({error}). "
            "Nothing was deleted. If the server was not restored from a backup since, delete that file, and run again.",
            kind="older-refs",
        ) from error
    missing = [head for head, row in zip(heads, rows.tolist(), strict=True) if row < 0]
    if missing:
        branch, commit_id = missing[0]
        more = f", and those of {len(missing) - 1} more branches," if len(missing) > 1 else ""
        raise UnsafeToSweepError(
            f"The server does not know commit {commit_id}, which was the head of branch {branch} of {repository} at "
            f"{seen_at}{more} and servers remove no commits: it was restored from an older backup, or its list of commits is "
            "cut short. What was committed since that backup would look like garbage. Nothing was deleted. Restore a newer "
            f"backup; if what it lacks is given up for good, delete {KNOWN_HEADS} in {store.root.uri}, and run again.",
            kind="older-refs",
        )
