"""What a run adds to its record for reports: sums over its garbage, and its commits in short."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from lakesweep.domain.commit_summary import CommitSummary, decode_commits
from lakesweep.domain.durations import format_time, parse_time
from lakesweep.domain.garbage_summary import GarbageSummary, decode_garbage
from lakesweep.errors import ConfigError, FormatError
from lakesweep.json_text import parse_json

__all__ = ["RunSummary", "decode_summary", "encode_summary"]

SCHEMA = "lakesweep.summary/1"


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The sums of one run. Ages were counted back from `as_of`."""

    as_of: datetime
    garbage: GarbageSummary
    commits: CommitSummary | None = None  # None: the catalog has no commits of its own


def encode_summary(summary: RunSummary) -> bytes:
    """The summary as a file."""
    values = {
        "schema": SCHEMA,
        "as_of": format_time(summary.as_of),
        "garbage": summary.garbage.as_json(),
        "commits": summary.commits.as_json() if summary.commits is not None else None,
    }
    return json.dumps(values).encode()


def decode_summary(data: bytes, what: str) -> RunSummary:
    """A summary from its file; `what` names it in the error."""
    try:
        values = parse_json(data)
        if values["schema"] != SCHEMA:
            raise ValueError("unknown schema")
        commits = values["commits"]
        return RunSummary(
            parse_time(values["as_of"]),
            decode_garbage(values["garbage"]),
            decode_commits(commits) if commits is not None else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise FormatError(
            f"The summary {what} can't be read ({error}). Nothing was deleted.", kind="bad-summary"
        ) from error
