"""What all clients of catalog servers share: sending again, the server's own words, and what is wrong with an answer."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

import httpx
from pydantic import ValidationError

from lakesweep.json_text import parse_json

__all__ = ["problems_of", "send_with_retries", "server_message"]

logger = logging.getLogger(__name__)

_RETRIED_STATUSES = frozenset({429, 503})
_MESSAGE_LIMIT = 300


def send_with_retries(
    send: Callable[[], httpx.Response],
    what: str,
    *,
    retries: int,
    sleep: Callable[[float], None],
) -> httpx.Response:
    """The answer to a question that changes nothing: asked again when the server was busy or out of reach.

    Raises:
        httpx.RequestError: it could not be reached the last time either.
    """
    for attempt in range(retries):
        try:
            response = send()
        except httpx.RequestError as error:
            _back_off(what, attempt, type(error).__name__, "", sleep)
            continue
        if response.status_code not in _RETRIED_STATUSES:
            return response
        asked = response.headers.get("retry-after", "")
        _back_off(what, attempt, str(response.status_code), asked, sleep)
    return send()


def _back_off(
    what: str, attempt: int, why: str, asked: str, sleep: Callable[[float], None]
) -> None:
    # Full jitter, so that many collectors do not come back in step.
    delay = random.uniform(0, min(20.0, 0.5 * 2**attempt))
    if asked.isdigit():
        delay = max(delay, min(float(asked), 60.0))
    logger.info("%s: %s, trying again in %.1f s", what, why, delay)
    sleep(delay)


def server_message(response: httpx.Response) -> str:
    """The server's own words, shortened and on one line."""
    try:
        message = parse_json(response.text)["message"]
    except (ValueError, KeyError, TypeError):
        is_text = response.headers.get("content-type", "").startswith("text/plain")
        message = response.text.strip() if is_text else ""
        if not message:
            return ""
    printable = "".join(c if c.isprintable() else " " for c in str(message))
    return f" ({printable[:_MESSAGE_LIMIT]})"


def problems_of(error: ValidationError) -> str:
    """What an answer lacks to be what it should be, without its content."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'body'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)[:5]
    )
