"""From a mark to a sweep in the browser: what is found is shown, and nothing goes whose plan's id was not typed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from lakesweep.lake.server import LakeServer
from lakesweep_testing.commands import Repository
from lakesweep_testing.web_site import Browser, Pages


def started(browser: Browser, path: str, fields: dict[str, str]) -> str:
    """The page of the command that a form started."""
    answer = browser.post(path, fields)
    assert answer.status_code == 303, answer.text
    return browser.text(answer.headers["location"].removeprefix(browser.base))


def marked_run(browser: Browser, repo: str) -> tuple[str, str]:
    """The path of a run that the pages marked, and the id of its plan."""
    page = started(browser, f"/r/{repo}/runs", {"what": "all", "flow": "auto"})
    found = re.search(rf'href="(/r/{repo}/runs/[^"]+)"', page)
    assert found, page
    shown = re.search(r"the plan's id: <code>([0-9a-f]{16})</code>", browser.text(found[1]))
    assert shown
    return found[1], shown[1]


def test_a_mark_is_browsed_refused_and_swept(
    make_repository: Callable[[str], Repository], pages: Pages, tmp_path: Path
) -> None:
    """The wrong id deletes nothing, the right one what the plan names. No guard is lowered on the way."""
    browser = pages.browser()
    repo = make_repository("story")
    run, plan_id = marked_run(browser, "story")
    assert "<svg" in browser.text(run)
    mark = browser.text(run.replace("/runs/", "/marks/"))
    assert repo.expired in mark
    assert repo.unreferenced in mark
    assert repo.live not in mark
    assert "only in commits past their retention" in mark

    for wrong in ("", "0" * 16, plan_id[:-1], plan_id.upper() + "x"):
        answer = browser.post(f"{run}/sweep", {"plan_id": wrong})
        assert answer.status_code == 400
        assert "Nothing was deleted" in answer.text
    assert repo.has(repo.expired)

    tried = started(browser, f"{run}/sweep", {"plan_id": plan_id, "dry_run": "1"})
    assert "marked" in tried
    assert repo.has(repo.expired)

    to = {"mark_id": run.rpartition("/")[2], "to": f"file://{tmp_path}/copies"}
    assert "copied" in started(browser, "/r/story/backups", to)
    assert (tmp_path / "copies" / repo.expired).exists()
    assert repo.has(repo.expired)

    swept = started(browser, f"{run}/sweep", {"plan_id": plan_id})
    assert "swept" in swept
    assert "re-verify" in swept
    assert not repo.has(repo.expired)
    assert not repo.has(repo.unreferenced)
    assert repo.has(repo.live)
    again = browser.post(f"{run}/sweep", {"plan_id": plan_id})
    assert again.status_code == 400
    assert "swept" in again.text
    mark_id, asked = run.rpartition("/")[2], ("--output", "json", "--", "story")
    assert [command.words for command in pages.site.commands.of("story")] == [
        ("sweep", "--mark-id", mark_id, *asked),
        ("backup", "--mark-id", mark_id, f"--to={to['to']}", *asked),
        ("sweep", "--dry-run", "--mark-id", mark_id, *asked),
        ("mark", "--what", "all", "--run", "auto", *asked),
    ]


def test_rules_are_set_by_whoever_types_the_name(
    make_repository: Callable[[str], Repository], browser: Browser, server: LakeServer
) -> None:
    """A click alone changes nothing, nor does JSON that is none of rules."""
    make_repository("ruled")
    wanted = (
        '{"default_retention_days": 3, "branches": [{"branch_id": "gone", "retention_days": 1}]}'
    )
    for fields in (
        {"rules": wanted},
        {"rules": wanted, "repository": "other"},
        {"rules": "{", "repository": "ruled"},
    ):
        assert browser.post("/r/ruled/rules", fields).status_code == 400
    assert server.lake.rules.get(server.lake.repositories.get("ruled")).default_retention_days == 7
    done = browser.post("/r/ruled/rules", {"rules": wanted, "repository": "ruled"})
    assert "there is no branch gone now" in done.text
    assert server.lake.rules.get(server.lake.repositories.get("ruled")).default_retention_days == 3
