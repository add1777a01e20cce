"""Every page with what a lake may hold: hostile names, damaged runs, secrets in messages, files that were changed."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesweep.catalogs.nessie.live_sets.memory import InMemoryLiveSets
from lakesweep.collector.lakefs.marks import save_plan, write_mark
from lakesweep.collector.lakefs.paths import LATEST_WHAT_IF, OWN, RunFolder
from lakesweep.collector.lease import Lease
from lakesweep.collector.parts import Part
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunRecord, RunStatus, encode_record
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.domain.live_sets import new_live_set_id
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import Curve, NamedCurve, RulesFigure, WhatIf
from lakesweep.formats import tables
from lakesweep.lake.server import LakeServer
from lakesweep.secrets import known_secrets
from lakesweep.storage import ObjectStore
from lakesweep.web.callers import Caller
from lakesweep.web.commands import Command
from lakesweep.web.reading import opened_repository
from lakesweep_testing.commands import Repository
from lakesweep_testing.web_site import Browser, Pages, browse, local_caller

pytestmark = pytest.mark.slow

HOSTILE = "data/<script>alert(1)</script>\"'&{{7*7}}"
SECRET = "correct-horse-battery"


@pytest.fixture
def store(server: LakeServer, repository: Repository) -> Iterator[ObjectStore]:
    with opened_repository(local_caller(server), repository.name) as opened:
        yield opened.store


def write_run(store: ObjectStore, name: str, status: RunStatus, addresses: list[str]) -> Plan:
    """A run that marked these addresses, and everything that it says in hostile words."""
    import pyarrow as pa

    rows = [(address, 3, datetime(2024, 1, 1, tzinfo=UTC), "expired") for address in addresses]
    columns = dict(zip(tables.MARK_SCHEMA.names, zip(*rows, strict=True), strict=True))
    key = f"{RunFolder(RunId(name)).root}part.parquet"
    store.write(key, tables.write_mark(pa.table(columns, schema=tables.MARK_SCHEMA)))
    files = write_mark(store, MarkId(name), [Part(key, len(rows), 3 * len(rows))])
    found = Tally(len(rows), 3 * len(rows))
    plan = Plan(
        repository="garden",
        namespace=store.root.uri,
        run_id=RunId(name),
        mark_id=MarkId(name),
        what="all",
        cutoff=datetime(2024, 2, 1, tzinfo=UTC),
        live=Tally(10, 100),
        garbage=found,
        files=files,
    )
    save_plan(store, plan)
    record = RunRecord(
        repository="garden",
        run_id=name,
        mark_id=name,
        what=HOSTILE,
        flow="clean",
        status=status,
        started_at=datetime(2024, 2, 2, tzinfo=UTC),
        plan_id=plan.id,
        reason=f"{HOSTILE} with {SECRET}",
        notes=(HOSTILE,),
        protected={HOSTILE: [HOSTILE]},
        revived=(HOSTILE,),
        failures={HOSTILE: HOSTILE},
        backup_to=f"s3://{HOSTILE}" if status is RunStatus.PARTLY_SWEPT else "",
    ).tallied({"garbage": found, "listed": found, "expired": found})
    store.write(RunFolder(RunId(name)).record, encode_record(record))
    return plan


def test_names_of_a_lake_are_only_text(store: ObjectStore, browser: Browser) -> None:
    """A path may hold a script; no page runs it, nor a template of its own."""
    write_run(store, "hostile", RunStatus.PARTLY_SWEPT, [HOSTILE, "data/plain"])
    paths = [
        "",
        "/runs",
        "/runs/hostile",
        "/marks/hostile",
        "/backups",
        "/marks/hostile?reason=expired",
    ]
    pages = [browser.text(f"/r/garden{path}") for path in paths]
    pages += [
        browser.get(
            "/r/garden/marks/hostile",
        ).text,
        browser.send("GET", "/r/garden/marks/hostile", params={"prefix": HOSTILE}).text,
        browser.send("GET", "/r/garden/explain", params={"object": HOSTILE}).text,
        browser.send("GET", "/r/garden/marks/hostile", params={"reason": HOSTILE}).text,
        browser.send("GET", "/r/garden/runs/" + "<script>alert(1)<%2Fscript>").text,
        browser.send("GET", "/r/<script>alert(1)").text,
        browser.post("/r/garden/runs/hostile/resume", {"plan_id": HOSTILE}).text,
        browser.post("/r/garden/runs", {"what": HOSTILE}).text,
    ]
    for page in pages:
        assert "<script>" not in page.replace('<script src="/static/pages.js" defer></script>', "")
        assert "alert(1)</" not in page
        assert "data/49" not in page
    assert any("&lt;script&gt;alert(1)" in page for page in pages)


def answer_of_what_if(name: str) -> WhatIf:
    """1000 objects that 10 days keep, 10 that 30 keep, of one path."""
    curve = Curve.of({10: Tally(1000, 1 << 20), 30: Tally(10, 1 << 10)})
    at = datetime(2024, 1, 1, tzinfo=UTC)
    return WhatIf(
        catalog="lakefs",
        name="garden",
        what="all",
        asked_at=at,
        now=at,
        cutoff=at,
        curve=curve,
        unreferenced=Tally(1, 1),
        groups=(NamedCurve("path", name, curve),),
        branch_days=(NamedCurve("branch", name, curve),),
        rules=(RulesFigure(name, {"default_retention_days": 7}, Tally(3, 3), 1, 1),),
        notes=(name,),
    )


def test_sliders_move_along_the_saved_answer(store: ObjectStore, browser: Browser) -> None:
    """What each number of days frees, for all branches and for one; what can't be a number is none."""
    store.delete_many([LATEST_WHAT_IF])
    assert "Nobody has asked yet" in browser.text("/r/garden/what-if")
    store.write(LATEST_WHAT_IF, json.dumps(answer_of_what_if("main").as_json()).encode())
    figures = "/r/garden/what-if/figures"
    assert "1,011" in browser.text(f"{figures}?days=0")
    assert "1,011" not in browser.text(f"{figures}?days=10")
    page = browser.text(f"{figures}?days=29&b0=9")
    assert page.count(">11<") == 1
    assert page.count(">1,011<") == 1
    for wrong in ("-1", "x", "9" * 30, "٣"):
        assert browser.get(f"{figures}?days={wrong}").status_code == 200
    assert "<svg" in browser.text("/r/garden/what-if?days=3")
    store.write(LATEST_WHAT_IF, b"{}")
    assert browser.get("/r/garden/what-if").status_code == 409


def test_a_question_is_answered_by_its_command(pages: Pages, repository: Repository) -> None:
    """Explain and what-if are commands as well; what they print is shown."""
    browser = pages.browser()
    asked = browser.post("/r/garden/explain", {"object": repository.expired})
    assert "EXPIRED" in browser.text(asked.headers["location"]).upper()
    assert browser.post("/r/garden/explain", {"object": " "}).status_code == 400
    tried = browser.post("/r/garden/what-if", {"keep_tags": "1"})
    assert "answered" in browser.text(tried.headers["location"])
    assert "Every branch" in browser.text("/r/garden/what-if")
    assert [command.words for command in pages.site.commands.of("garden")] == [
        ("what-if", "--keep-tags", "--output", "json", "--", "garden"),
        ("explain", "--", "garden", repository.expired),
    ]


@pytest.fixture
def running(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """A sweep that runs for as long as the test, in this process; signals to it are only noted."""
    monkeypatch.setattr(pages.site.commands, "_launch", lambda *_: None)
    command = pages.site.commands.start(local_caller_of(pages), "garden", ("sweep", "--", "garden"))
    (command.folder / "process").write_text(str(os.getpid()))
    with (command.folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield command


def local_caller_of(pages: Pages) -> Caller:
    """The one user of these pages."""
    found = pages.site.accounts.find("local")
    assert found is not None
    return found


def test_a_running_command_is_stopped_once_that_is_confirmed(
    pages: Pages, running: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the signal of Ctrl-C, and by whoever could have started it."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *call: sent.append(call))
    browser, path = pages.browser(), f"/r/garden/started/{running.id}"
    assert "Yes, stop this sweep" in browser.text(path)
    assert browser.post(f"{path}/stop", {}).status_code == 400
    assert browser.post(f"{path}/stop", {"confirmed": "1", "form_token": "x"}).status_code == 403
    assert sent == []
    assert browser.post(f"{path}/stop", {"confirmed": "1"}).status_code == 303
    assert sent == [(os.getpid(), signal.SIGINT)]
    assert "you asked it to stop" in browser.text(path)


def test_who_may_not_sweep_may_not_stop_a_sweep(
    server: LakeServer, running: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the form for it shown."""
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent"))
    browser = browse(local_caller(server, may_sweep=False), running.folder.parent).browser()
    path = f"/r/garden/started/{running.id}"
    assert "Yes, stop this sweep" not in browser.text(path)
    assert browser.post(f"{path}/stop", {"confirmed": "1"}).status_code == 403


def test_a_command_that_has_ended_is_not_stopped(pages: Pages, repository: Repository) -> None:
    """Its number may be another process's by now."""
    browser = pages.browser()
    asked = browser.post("/r/garden/explain", {"object": repository.live})
    path = asked.headers["location"]
    assert "Yes, stop" not in browser.text(path)
    answer = browser.post(f"{path}/stop", {"confirmed": "1"})
    assert answer.status_code == 400
    assert "Nothing was stopped" in answer.text


def test_a_backup_goes_where_the_form_says(
    server: LakeServer, store: ObjectStore, pages: Pages, tmp_path: Path
) -> None:
    """Of a mark that is there, and for those who may have data copied with the rights of the server."""
    write_run(store, "copied", RunStatus.MARKED, ["data/a"])
    browser = pages.browser()
    fields = {"mark_id": "copied", "to": f"file://{tmp_path}/copies"}
    assert "copied of " in browser.text("/r/garden/backups")
    assert browser.post("/r/garden/backups", {**fields, "to": " "}).status_code == 400
    assert browser.post("/r/garden/backups", {**fields, "mark_id": "none"}).status_code == 404
    assert pages.site.commands.of("garden") == []
    assert browser.post("/r/garden/backups", fields).status_code == 303
    asked = ("--mark-id", "copied", f"--to=file://{tmp_path}/copies", "--output", "json")
    assert [c.words for c in pages.site.commands.of("garden")] == [
        ("backup", *asked, "--", "garden")
    ]
    limited = browse(local_caller(server, may_sweep=False), tmp_path / "limited").browser()
    assert "Start a backup" not in limited.text("/r/garden/backups")
    refused = limited.post("/r/garden/backups", fields)
    assert refused.status_code == 403
    assert "may not have data copied elsewhere" in refused.text


def test_a_report_stands_alone_under_its_own_policy(store: ObjectStore, browser: Browser) -> None:
    """No script, no frame; its style is allowed by what is in it."""
    write_run(store, "reported", RunStatus.MARKED, [HOSTILE])
    answer = browser.get("/r/garden/runs/reported/report")
    assert answer.status_code == 200
    assert "<script" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "script-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "style-src 'sha256-" in policy
    assert browser.get("/drawings.css").headers["content-type"].startswith("text/css")


def test_messages_show_no_secret(store: ObjectStore, browser: Browser) -> None:
    """A server may quote what it was sent."""
    write_run(store, "secretive", RunStatus.MARKED, ["data/a"])
    known_secrets.remember([SECRET])
    page = browser.text("/r/garden/runs/secretive")
    assert SECRET not in page
    assert "***" in page


def test_a_mark_is_searched(store: ObjectStore, browser: Browser) -> None:
    """By the beginning of the address, also when the whole place is pasted, and by reason."""
    write_run(store, "many", RunStatus.MARKED, [f"data/{n:03}" for n in range(250)])
    first = browser.text("/r/garden/marks/many")
    assert "data/099" in first
    assert "data/100" not in first
    assert "at=0.100" in first
    last = browser.text("/r/garden/marks/many?at=0.200")
    assert "data/249" in last
    assert "Next page" not in last
    for prefix in ("data/12", "local://garden/data/12"):
        found = browser.text(f"/r/garden/marks/many?prefix={prefix}")
        assert found.count("<code>data/") == 10
    assert "None." in browser.text("/r/garden/marks/many?reason=unreferenced")
    assert browser.get("/r/garden/marks/many?at=x").status_code == 400
    assert browser.get("/r/garden/marks/nothing").status_code == 404


def test_a_changed_mark_is_not_shown_as_its_plan(store: ObjectStore, browser: Browser) -> None:
    """What is browsed is what a sweep would read."""
    plan = write_run(store, "changed", RunStatus.MARKED, ["data/a"])
    store.write(plan.files[0].key, b"another")
    assert browser.get("/r/garden/marks/changed").status_code == 409


def test_a_plan_that_needs_a_lowered_guard_is_for_the_command_line(
    store: ObjectStore, browser: Browser
) -> None:
    """The page offers no form for it."""
    plan = write_run(store, "lowered", RunStatus.MARKED, ["data/a"])
    record = json.loads(store.read(RunFolder(plan.run_id).record))
    store.write(
        RunFolder(plan.run_id).record, json.dumps(record | {"min_age_lowered": True}).encode()
    )
    page = browser.text("/r/garden/runs/lowered")
    assert "on the command line only" in page
    assert 'name="plan_id"' not in page


def test_a_sweep_that_left_something_is_gone_on_with(
    store: ObjectStore, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its run's own command, once the plan's id is typed; a mark that waits for its sweep is not resumed."""
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr(pages.site.commands, "_launch", lambda words, *_: started.append(words))
    browser = pages.browser()
    plan = write_run(store, "left", RunStatus.PARTLY_SWEPT, ["data/a"])
    record = json.loads(store.read(RunFolder(plan.run_id).record))
    store.write(RunFolder(plan.run_id).record, json.dumps(record | {"backup_to": ""}).encode())
    assert "Continue the sweep" in browser.text("/r/garden/runs/left")
    assert browser.post("/r/garden/runs/left/resume", {"plan_id": "x"}).status_code == 400
    assert browser.post("/r/garden/runs/left/sweep", {"plan_id": plan.id}).status_code == 400
    assert started == []
    assert browser.post("/r/garden/runs/left/resume", {"plan_id": plan.id}).status_code == 303
    assert started == [("runs", "resume", "--output", "json", "--", "garden", "left")]
    waiting = write_run(store, "waiting", RunStatus.MARKED, ["data/a"])
    assert browser.post("/r/garden/runs/waiting/resume", {"plan_id": waiting.id}).status_code == 400


def test_a_collector_elsewhere_is_told_of(store: ObjectStore, browser: Browser) -> None:
    """Its lease says that it runs, and nothing any more when it has ended."""
    with Lease(store, "garden", "sweep", folder=OWN):
        assert f"sweep on {socket.gethostname()}" in browser.text("/r/garden")
    assert "Under way" not in browser.text("/r/garden")


def test_a_damaged_run_stops_no_page(store: ObjectStore, browser: Browser) -> None:
    """The others are shown, and it is named."""
    store.write(RunFolder(RunId("broken")).record, b"{")
    assert "broken" in browser.text("/r/garden/runs")
    assert browser.get("/r/garden/runs/broken").status_code == 409
    assert browser.get("/r/garden/runs/none").status_code == 404


def test_live_sets_are_shown_where_there_is_a_database(
    server: LakeServer, tmp_path: Path, browser: Browser
) -> None:
    """And pages without one say so."""
    assert browser.get("/live-sets").status_code == 404
    assert "Live sets" not in browser.text("/")
    with InMemoryLiveSets() as sets:
        live_set = new_live_set_id()
        sets.start_identify(live_set, datetime(2024, 1, 1, tzinfo=UTC))
        sets.fail_identify(live_set, datetime(2024, 1, 2, tzinfo=UTC), HOSTILE)

        @contextmanager
        def opened() -> Iterator[InMemoryLiveSets]:
            yield sets

        with_sets = browse(local_caller(server), tmp_path / "n", live_sets=opened).browser()
        for path in ("/live-sets", f"/live-sets/{live_set}"):
            page = with_sets.text(path)
            assert str(live_set) in page
            assert "&lt;script&gt;" in page
        assert with_sets.get(f"/live-sets/{new_live_set_id()}").status_code == 404
        assert with_sets.get("/live-sets/x").status_code == 400
