"""Retention rules: shown, and set by whoever types the repository's name."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request, Response

from lakesweep.collector.lakefs.opening import open_client
from lakesweep.collector.lakefs.retention_rules import change_rules, parse_rules
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import ConfigError
from lakesweep.web.admission import caller_of, form_of
from lakesweep.web.callers import Need
from lakesweep.web.rendering import render

__all__ = ["router"]

router = APIRouter()


@router.get("/r/{repo}/rules", name="rules")
def show_rules(request: Request, repo: str) -> Response:
    """The rules as the server answers them."""
    with open_client(caller_of(request).settings) as client:
        client.repository(repo)
        rules = client.rules(repo)
    return _page(request, repo, rules, _text_of(rules))


@router.post("/r/{repo}/rules", name="set_rules")
def set_rules(request: Request, repo: str) -> Response:
    """Set the rules to the JSON that was typed, as `lakesweep rules set` does."""
    form = form_of(request)
    text = form.get("rules", "")
    with open_client(caller_of(request).settings) as client:
        try:
            wanted = parse_rules(text, "the form")
            if form.get("repository", "") != repo:
                raise ConfigError(
                    f"Type {repo!r} to set the rules of this repository. Nothing was changed."
                )
        except ConfigError as error:
            rules = client.rules(repo)
            return _page(request, repo, rules, text, status=400, problem=error.message)
        warnings = change_rules(client, repo, wanted)
    said = ["The rules were set. Runs that begin from now on go by them.", *warnings]
    return _page(request, repo, wanted, _text_of(wanted), said=said)


def _page(
    request: Request,
    repo: str,
    rules: RetentionRules | None,
    text: str,
    *,
    status: int = 200,
    problem: str = "",
    said: list[str] | None = None,
) -> Response:
    return render(
        request,
        "rules.html",
        status,
        repo=repo,
        rules=rules,
        text=text,
        problem=problem,
        said=said or [],
        may_write=caller_of(request).may(Need.WRITE),
    )


def _text_of(rules: RetentionRules | None) -> str:
    return json.dumps((rules or RetentionRules(30)).as_json(), indent=2, ensure_ascii=False)
