"""What-if on a repository with something of every kind: it says what marks would find, and leaves nothing behind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.cli import what_if as what_if_command
from lakesweep.cli.main import run
from lakesweep.collector.lakefs.context import open_repository
from lakesweep.collector.lakefs.paths import LATEST_WHAT_IF, mark_folder
from lakesweep.collector.lakefs.request import What, WhatIfRequest
from lakesweep.collector.lakefs.what_if.what_if import run_what_if
from lakesweep.collector.run_files import MarkId
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import WhatIf
from lakesweep.errors import CatalogDeniedError, ConfigError, UnsafeToSweepError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.tables import read_mark
from lakesweep.storage import StorageOptions
from lakesweep_testing.embedded import MIN_AGE
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.user import User

ASKED = WhatIfRequest(min_age=MIN_AGE, allow_lower_min_age=True)


def ask(scene: Scene, **changes: object) -> WhatIf:
    return run_what_if(scene.context(), replace(ASKED, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("what", list(What))
def test_the_present_rules_free_what_a_mark_finds(scene: Scene, what: What) -> None:
    """In objects and bytes, whatever is collected."""
    asked = ask(scene, what=what)
    marked = scene.mark(replace(AGED, what=what))
    freed = asked.rules[0].freed + asked.unreferenced
    assert freed == asked.freed(5) == Tally(marked.objects["garbage"], marked.bytes["garbage"])
    assert freed.objects == {What.ALL: 6, What.COMMITTED: 3, What.UNCOMMITTED: 3}[what]


def test_everything_listed_is_freed_or_kept(scene: Scene) -> None:
    """The young, the protected, the unreferenced and the live are told apart, and add up to what is there."""
    asked = ask(scene)
    kept = {why: tally.objects for why, tally in asked.kept.items()}
    # Not looked into: a folder of somebody else's beside data/.
    assert kept == {"live": 5, "too young": 1, "protected": 3}
    assert asked.unreferenced.objects == 3
    assert asked.curve.at(0).objects == 4  # and one of them is kept by two days


def test_nothing_is_left_behind_but_the_answer(scene: Scene) -> None:
    """No lease, no listing, none of the server's lists: only the file that a report reads."""
    before = scene.present_keys()
    asked = ask(scene)
    assert scene.present_keys() - before == {LATEST_WHAT_IF}
    assert before <= scene.present_keys()
    assert WhatIf.from_json(scene.store.read(LATEST_WHAT_IF)) == asked


def test_without_saving_nothing_is_left_at_all(scene: Scene) -> None:
    """`--no-save` leaves the store as it was."""
    before = scene.present_keys()
    ask(scene, save=False)
    assert scene.present_keys() == before


def test_an_answer_does_not_wait_for_a_run(scene: Scene) -> None:
    """A what-if deletes nothing, so it works while a collector holds the lease."""
    scene.put("_lakefs/retention/gc/lakesweep/leases/held.json", b"{}")
    assert ask(scene).curve.at(0).objects == 4


def test_cached_ranges_give_the_same_answer(scene: Scene) -> None:
    """After a mark the hashes of ranges come out of its cache; figures and folders are the same."""
    first = ask(scene, depth=0)
    scene.mark()
    again = ask(scene, depth=0)
    assert (again.curve, again.groups, again.kept) == (first.curve, first.groups, first.kept)


def test_paths_are_grouped_by_their_first_folders(make_scene: Callable[..., Scene]) -> None:
    """A range that spans several folders counts each path in its own; a path without that many in what it has."""
    scene = make_scene()
    for path in ("t/a/1", "t/a/2", "t/b/1", "t/plain", "u/c/1"):
        scene.upload("main", path)
    scene.user.commit("main")
    for path in ("t/a/1", "t/a/2", "t/b/1", "t/plain", "u/c/1"):
        scene.user.delete("main", path)
    scene.user.commit("main")
    scene.lake.clock.advance(timedelta(days=2))

    def paths(depth: int) -> dict[str, int]:
        groups = ask(scene, depth=depth).groups
        return {g.name: g.curve.at(0).objects for g in groups if g.kind == "path"}

    assert paths(0) == {"": 9}
    assert paths(1) == {"": 4, "t/": 4, "u/": 1}
    assert paths(2) == {"": 4, "t/a/": 2, "t/b/": 1, "t/": 1, "u/c/": 1}


def test_an_object_counts_for_the_branch_that_keeps_it_longest(
    make_scene: Callable[..., Scene],
) -> None:
    """What only dev had is dev's, however few days there are."""
    scene = make_scene()

    def of_dev() -> int:
        groups = ask(scene).groups
        return sum(g.curve.at(0).objects for g in groups if (g.kind, g.name) == ("branch", "dev"))

    before = of_dev()
    scene.upload("dev", "of dev")
    scene.user.commit("dev")
    scene.user.delete("dev", "of dev")
    scene.user.commit("dev")
    scene.lake.clock.advance(timedelta(days=2))
    assert of_dev() == before + 1


def test_groups_by_age_and_size_are_those_of_the_objects_that_a_mark_takes(
    make_scene: Callable[..., Scene],
) -> None:
    """Each object that a mark takes out of expired commits is in one class of age and one of size."""
    scene = make_scene()
    for path, size, days in (("a", 2**16 - 1, 70), ("b", 2**16, 23), ("c", 2**20, 1)):
        scene.user.upload("main", path, "x" * size)
        scene.lake.clock.advance(timedelta(days=days))
    scene.user.commit("main")
    for path in ("a", "b", "c"):
        scene.user.delete("main", path)
    scene.user.commit("main")
    scene.lake.clock.advance(timedelta(days=6))
    asked = ask(scene)
    marked = scene.mark()
    found: dict[str, Counter[str]] = {"age": Counter(), "size": Counter()}
    for key in scene.store.keys(mark_folder(MarkId(marked.mark_id))):
        for row in read_mark(scene.store.read(key)).to_pylist():
            if row["reason"] == "expired":
                age = (scene.lake.clock.now - row["last_modified"]).days
                found["age"][next(f"under {d} days" for d in (7, 30, 90, 365) if age < d)] += 1
                limits = {2**16: "64.0 KiB", 2**20: "1.0 MiB", 2**24: "16.0 MiB"}
                below = next(said for size, said in limits.items() if row["size_bytes"] < size)
                found["size"][f"under {below}"] += 1
    assert {"under 64.0 KiB", "under 1.0 MiB", "under 16.0 MiB"} == set(found["size"])
    assert len(found["age"]) >= 2
    for kind, classes in found.items():
        groups = {g.name: g.curve.at(5).objects for g in asked.groups if g.kind == kind}
        assert {name: objects for name, objects in groups.items() if objects} == classes


def test_names_at_the_root_go_only_where_commits_hold_such(
    make_scene: Callable[..., Scene],
) -> None:
    """32 hex digits at the root are anybody's file, until a commit of the repository has such a name."""
    scene = make_scene()
    scene.put("f" * 32, b"stray", days_ago=30)
    before = ask(scene)
    assert before.kept["protected"].objects == 4
    held = scene.put("e" * 32, b"held", days_ago=30)
    entry = Entry(held, scene.lake.clock.now, 4, "e", address_type=AddressType.RELATIVE)
    scene.commit_entries("old-names", {"held": entry})
    after = ask(scene)
    assert after.kept["protected"].objects == 3
    assert after.unreferenced == before.unreferenced + Tally(1, len(b"stray"))
    marked = scene.mark()
    assert after.freed(5) == Tally(marked.objects["garbage"], marked.bytes["garbage"])


def test_what_our_runs_deleted_is_not_looked_for_in_commits(
    make_scene: Callable[..., Scene],
) -> None:
    """Somebody put deleted objects back past the collector: committed data leaves them alone, as its marks do."""
    scene = make_scene()
    scene.gc()
    scene.put_back(scene.garbage.values())
    asked = ask(scene, what=What.COMMITTED)
    marked = scene.mark(replace(AGED, what=What.COMMITTED))
    assert asked.freed(5) == Tally(marked.objects["garbage"], marked.bytes["garbage"]) == Tally()
    assert asked.kept["deleted by an earlier run, and there again"].objects == 3 + 3


def test_a_repository_without_objects_frees_nothing(scene: Scene) -> None:
    """New ones have none, and of a large one some partitions may have none."""
    name = f"{scene.name}-new"
    User.create(scene.lake.api, name, f"mem://{name}/ns", scene.lake.clock)
    context = open_repository(
        scene.lake.client, name, StorageOptions(), InProcessEngine(), clock=scene.lake.clock
    )
    asked = run_what_if(context, ASKED)
    assert (asked.freed(0), asked.kept) == (Tally(), {})


def test_an_unknown_branch_is_refused(scene: Scene) -> None:
    """A misspelt branch would answer nothing."""
    with pytest.raises(ConfigError, match="no such branch"):
        ask(scene, branches=("mian",))


def test_a_repository_without_rules_has_no_present_figure(make_scene: Callable[..., Scene]) -> None:
    """Days are answered all the same; one branch's days while all others keep everything."""
    scene = make_scene()
    scene.user.clear_rules()
    asked = ask(scene)
    assert asked.rules == ()
    assert asked.curve.at(5).objects == 3
    assert {b.name: b.curve.at(0).objects for b in asked.branch_days} == {"dev": 0, "main": 0}


def test_the_future_is_refused(scene: Scene) -> None:
    """More would have expired by then than can be known now."""
    with pytest.raises(ConfigError, match="in the future"):
        ask(scene, now=scene.lake.clock.now + timedelta(days=1))


def test_without_the_right_to_dump_there_is_no_answer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits on no branch are not seen then, and nothing expires: days would free nothing, which is not what was asked."""

    def denied(self: LakeFSClient, repository: str) -> None:
        raise CatalogDeniedError("may not dump refs")

    monkeypatch.setattr(LakeFSClient, "dump_refs", denied)
    with pytest.raises(CatalogDeniedError, match="no right to dump"):
        ask(scene)
    assert not any("uncommitted/" in key for key in scene.present_keys())


def test_a_lost_range_is_doubt(make_scene: Callable[..., Scene]) -> None:
    """What a missing range held is not known, so no figure is given."""
    scene = make_scene()
    known = {key for key in scene.present_keys() if key.startswith("_lakefs/")}
    for key in known:
        if len(key) == len("_lakefs/") + 64:
            del scene.container.objects[f"ns/{key}"]
    with pytest.raises(UnsafeToSweepError, match="missing"):
        ask(scene)


@pytest.fixture
def command(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`lakesweep what-if` on the scene, in this process and without Spark."""
    server = scene.lake.server
    monkeypatch.setattr(what_if_command, "start_engine", lambda settings: InProcessEngine())
    monkeypatch.setenv("LAKESWEEP_ENDPOINT_URL", server.endpoint)
    monkeypatch.setenv("LAKESWEEP_ACCESS_KEY_ID", server.access_key_id)
    monkeypatch.setenv("LAKESWEEP_SECRET_ACCESS_KEY", server.secret_access_key)
    return lambda *words: run(["what-if", scene.name, "--quiet", *words])


def test_the_command_compares_files_of_rules_side_by_side(
    command: Callable[..., int], scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By position and by --rules, in one answer."""
    for days in (1, 10_000):
        rules = {"default_retention_days": days, "branches": []}
        (tmp_path / f"{days}.json").write_text(json.dumps(rules))
    words = (str(tmp_path / "1.json"), "--rules", str(tmp_path / "10000.json"))
    assert command(*words, "--price", "0.023", "--output", "json") == 0
    answer = WhatIf.from_json(capsys.readouterr().out)
    # Young by the lake's clock, and years old by that of the command.
    assert [figure.freed.objects for figure in answer.rules] == [4, 4, 0]
    assert answer.price == 0.023
    assert command("--no-save") == 0
    assert "Goes whatever the days, in no commit:" in capsys.readouterr().out


def test_the_command_refuses_a_file_that_is_no_rules(
    command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is read from the server."""
    assert command(str(tmp_path / "none.json")) == 2
    assert "can't be read" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text('{"default_retention_days": -1}')
    assert command(str(tmp_path / "bad.json")) == 2
    assert "is negative" in capsys.readouterr().err
