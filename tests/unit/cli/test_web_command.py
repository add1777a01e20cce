"""`lakesweep web` starts where only this machine reaches it, and hands its options to what it starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.cli.main import run
from lakesweep.web import server
from lakesweep.web.site import Site


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Site]:
    """The sites that would have been served."""
    sites: list[Site] = []
    for name in list(os.environ):
        if name.startswith(("LAKESWEEP_", "LAKECTL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LAKESWEEP_CACHE", str(tmp_path))
    monkeypatch.setenv("LAKECTL_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("LAKESWEEP_SECRET_ACCESS_KEY", "the secret")
    monkeypatch.setattr(server, "serve_pages", lambda site, listener: sites.append(site))
    return sites


SERVER = ("--endpoint-url", "http://lake.example", "--access-key-id", "AKIA", "--port", "0")


def test_the_link_is_printed_and_options_reach_the_commands(
    served: list[Site], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As variables: what a command line has, other users can read."""
    config = tmp_path / "own.toml"
    config.write_text("keep-runs = 7\n")
    more = ("--storage-option", "s3_region=a b", "--storage-option", "s3_path_style=true")
    chosen = ("--conf", "spark.x=1", "--config", str(config), "--repo", "one", "--repo", "two")
    assert run(["web", *SERVER, *more, *chosen, "--quiet"]) == 0
    out = capsys.readouterr().out
    site = served[0]
    caller = site.accounts.find("local")
    assert caller is not None
    assert caller.settings.collect.keep_runs == 7
    assert caller.repositories == {"one", "two"}
    expected = {
        "LAKESWEEP_ENDPOINT_URL": "http://lake.example",
        "LAKESWEEP_ACCESS_KEY_ID": "AKIA",
        "LAKESWEEP_SECRET_ACCESS_KEY": "the secret",
        "LAKESWEEP_STORAGE_OPTION": "'s3_region=a b' s3_path_style=true",
        "LAKESWEEP_CONF": "spark.x=1",
        "LAKESWEEP_CONFIG": str(config),
    }
    assert {name: caller.environment.get(name) for name in expected} == expected
    assert "LAKESWEEP_QUIET" not in caller.environment
    port = next(iter(site.hosts)).rpartition(":")[2]
    assert site.hosts == {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    assert f"http://127.0.0.1:{port}/login?token=" in out
    assert "the secret" not in out


def test_other_machines_are_let_in_by_name_only(
    served: list[Site], capsys: pytest.CaptureFixture[str]
) -> None:
    """An address that they reach needs a flag that says how browsers call it."""
    for host in ("0.0.0.0", "::", "10.0.0.1", "lake.example"):
        assert run(["web", *SERVER, "--host", host]) == 2
        assert "--allow-host" in capsys.readouterr().err
    assert served == []
    assert run(["web", *SERVER, "--host", "0.0.0.0", "--allow-host", "sweep.example"]) == 0
    assert "sweep.example" in served[0].hosts
    assert "http://sweep.example/login?token=" in capsys.readouterr().out


def test_a_server_is_needed(served: list[Site], capsys: pytest.CaptureFixture[str]) -> None:
    """Said at the start, not on the first page."""
    assert run(["web", "--port", "0"]) == 2
    assert "endpoint URL" in capsys.readouterr().err
    assert served == []


@pytest.mark.parametrize("flag", ["--confirm", "--no-lease", "--unsafe-min-age"])
def test_no_option_lowers_a_guard(
    served: list[Site], capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    """There is no such option to hand on."""
    assert run(["web", *SERVER, flag, "x"]) == 2
    assert served == []


def test_live_sets_come_from_a_database(served: list[Site], tmp_path: Path) -> None:
    """Where one is named."""
    assert run(["web", *SERVER, "--jdbc-url", f"sqlite:///{tmp_path}/sets.db"]) == 0
    assert served[0].live_sets is not None
