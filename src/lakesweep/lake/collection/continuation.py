"""How far a run of prepare-uncommitted has come, as the continuation token that clients hand back."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, replace
from typing import Any

from lakesweep.formats.xid import is_xid
from lakesweep.json_text import parse_json
from lakesweep.lake.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Place:
    """Everything up to `key` of `token` of `branch_id` is written; no branch means that nothing is."""

    run_id: str
    branch_id: str | None = None
    token: str | None = None
    key: bytes | None = None
    rows_before: int = 0

    @classmethod
    def in_copies(cls, run_id: str, key: bytes | None) -> Place:
        """All branches are written, and tracked copies up to `key`. No branch has an empty name."""
        return cls(run_id, "", "", key)

    @property
    def is_in_copies(self) -> bool:
        """Whether all branches are written."""
        return self.branch_id == ""

    def with_rows(self, rows: int) -> Place:
        """This place, with the rows that the run has written so far."""
        return replace(self, rows_before=rows)

    def encode(self) -> str:
        """The continuation token."""
        fields = {
            "run_id": self.run_id,
            "branch": self.branch_id,
            "token": self.token,
            "key": None if self.key is None else self.key.hex(),
            "rows": self.rows_before,
        }
        return base64.b64encode(json.dumps(fields).encode()).decode()

    @classmethod
    def decode(cls, continuation_token: str) -> Place:
        """The place in a continuation token; `InvalidRequestError` when it is none of ours."""
        try:
            fields = parse_json(base64.b64decode(continuation_token, validate=True))
            place = cls(
                run_id=_checked(fields["run_id"], str),
                branch_id=_checked(fields["branch"], str),
                token=_checked(fields["token"], str),
                key=bytes.fromhex(_checked(fields["key"], str)),
                rows_before=_checked(fields["rows"], int),
            )
        except (binascii.Error, UnicodeError, ValueError, KeyError, TypeError) as wrong:
            raise _refused() from wrong
        # The run id becomes part of a key in the store.
        if not is_xid(place.run_id) or place.rows_before < 0:
            raise _refused()
        return place


def _checked(value: object, kind: type) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError
    return value


def _refused() -> InvalidRequestError:
    return InvalidRequestError(
        "the continuation token is not one that this server gave; nothing was written."
        " Start the run again without one.",
        kind="bad-continuation-token",
    )
