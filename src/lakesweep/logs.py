"""Log lines for people or machines, without secrets."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

from lakesweep.secrets import SecretMask, known_secrets

__all__ = ["LogFormat", "configure_logging"]

LogFormat = Literal["text", "json"]

# Libraries that say at INFO what we say better, or that would log requests with their headers at DEBUG.
_TALKATIVE = ("py4j", "botocore", "urllib3", "httpx", "httpcore", "numba", "asyncio", "pyspark")


class TextFormatter(logging.Formatter):
    """`12:00:01Z info message`, in UTC; the whole line is masked, tracebacks too."""

    def __init__(self, mask: SecretMask) -> None:
        super().__init__()
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%SZ")
        line = f"{time} {record.levelname.lower()} {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return self._mask.mask(line)


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, mask: SecretMask) -> None:
        super().__init__()
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, str] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(self._mask.mask_json(fields), ensure_ascii=False)


class _ToCurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to whatever `sys.stderr` is at that moment, which tests and progress bars replace."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None:
        """Ignored: the handler asks each time."""


def configure_logging(
    level: str = "info",
    log_format: LogFormat = "text",
    *,
    mask: SecretMask = known_secrets,
    stream: TextIO | None = None,
) -> logging.Handler:
    """Send all logging to stderr (or `stream`); takes the place of an earlier call. For programs, not libraries."""
    root = logging.getLogger()
    for handler in [h for h in root.handlers if getattr(h, "is_lakesweeps", False)]:
        root.removeHandler(handler)
    handler = logging.StreamHandler(stream) if stream is not None else _ToCurrentStderr()
    handler.is_lakesweeps = True  # type: ignore[attr-defined]
    handler.setFormatter(JsonFormatter(mask) if log_format == "json" else TextFormatter(mask))
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    return handler
