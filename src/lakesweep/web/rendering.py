"""Templates to answers. Everything that a template is handed is escaped: names from a lake are anybody's text."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lakesweep.domain.durations import format_time
from lakesweep.progress import human_bytes, human_count, human_seconds
from lakesweep.report.accounts import collected_text
from lakesweep.secrets import known_secrets
from lakesweep.web.admission import site_of
from lakesweep.web.commands import Command

__all__ = ["TEMPLATES", "render", "started", "whole_seconds"]

TEMPLATES = Path(__file__).parent / "templates"


def render(request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
    """A page, or a part of one."""
    site = site_of(request)
    text = (
        _environment()
        .get_template(template)
        .render(
            base=site.base,
            caller=getattr(request.state, "caller", None),
            form_token=getattr(request.state, "form_token", ""),
            has_live_sets=site.live_sets is not None,
            **values,
        )
    )
    return HTMLResponse(site.hide(text.encode()), status_code=status)


def started(request: Request, command: Command) -> RedirectResponse:
    """Lead on to the page of a command that was started."""
    base = site_of(request).base
    return RedirectResponse(f"{base}/r/{command.repository}/started/{command.id}", 303)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_masked,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["collected"] = collected_text
    environment.filters["size"] = human_bytes
    environment.filters["objects"] = lambda number: human_count(number, "objects")
    environment.filters["count"] = lambda number: f"{number:,}"
    environment.filters["seconds"] = human_seconds
    environment.filters["time"] = whole_seconds
    environment.filters["part"] = lambda text: quote(str(text), safe="")
    return environment


def _masked(value: object) -> object:
    """What a template is about to write: a message in it may quote what a server was sent."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return known_secrets.mask(value)
    return value


def whole_seconds(time: datetime | None) -> str:
    """A time as people read it; empty where there is none."""
    return "" if time is None else format_time(time.replace(microsecond=0)).replace("T", " ")
