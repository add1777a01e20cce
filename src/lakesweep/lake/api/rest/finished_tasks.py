"""Tasks that end before their submission is answered.

lakectl submits a dump and then polls it. Here the submission does the work, and the task's id carries the outcome,
signed, so that any server process can answer the poll and nothing has to be kept or cleaned up.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any, Literal

from lakesweep.domain.durations import format_time
from lakesweep.json_text import parse_json
from lakesweep.lake.api.rest.wire import Document
from lakesweep.lake.errors import MissingError
from lakesweep.lake.lake import Lake

TaskKind = Literal["dump", "restore"]


def issue_id(lake: Lake, repository_id: str, kind: TaskKind, outcome: Document) -> str:
    """An id that says what the task brought."""
    ended_at = format_time(datetime.now(UTC))
    payload = json.dumps({"ended_at": ended_at, "outcome": outcome}).encode()
    return _encode(_signature(lake, repository_id, kind, payload) + payload)


def status_document(lake: Lake, repository_id: str, kind: TaskKind, task_id: str) -> Document:
    """The status that the id stands for; `MissingError` when it is not one of this repository's."""
    lake.repositories.get(repository_id)
    try:
        data = base64.urlsafe_b64decode(task_id + "=" * (-len(task_id) % 4))
    except (binascii.Error, ValueError):
        data = b""
    signature, payload = data[:32], data[32:]
    if not hmac.compare_digest(signature, _signature(lake, repository_id, kind, payload)):
        raise MissingError(
            f"There is no {kind} task {task_id!r} in {repository_id}.", kind="task-not-found"
        )
    task: dict[str, Any] = parse_json(payload)
    return {"id": task_id, "done": True, "update_time": task["ended_at"], **task["outcome"]}


def _signature(lake: Lake, repository_id: str, kind: TaskKind, payload: bytes) -> bytes:
    scope = f"{repository_id}\n{kind}\n".encode()
    return hmac.new(
        lake.credentials.signing_secret("task-id"), scope + payload, hashlib.sha256
    ).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
