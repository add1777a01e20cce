"""Whatever ends a run, it is told of; and telling changes nothing of how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.collector.phases import Phases
from lakesweep.errors import ThrottledError
from lakesweep.metrics.watched import current_run, watched_run
from lakesweep.progress.earlier_runs import earlier_seconds


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lakesweep.progress.earlier_runs.cache_folder", lambda env: tmp_path)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ThrottledError("slow down"), 3, "throttled"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("x"), 1, "bug"),
    ],
)
def test_a_run_that_fails_is_told_of_and_fails_as_it_did(
    tmp_path: Path, error: BaseException, status: int, kind: str
) -> None:
    """With its status and its kind."""
    file = tmp_path / "x.prom"
    with pytest.raises(type(error)) as caught, watched_run("gc", file, repository="lakefs://repo"):
        raise error
    assert caught.value is error
    labels = 'catalog="lakefs",repository="repo",command="gc"'
    text = file.read_text()
    assert f"lakesweep_last_run_exit_status{{{labels}}} {status}\n" in text
    assert f'lakesweep_last_run_error{{{labels},kind="{kind}"}} 1\n' in text
    assert "last_success" not in text


def test_only_a_good_run_tells_how_long_a_run_takes(tmp_path: Path) -> None:
    """One that failed after a second would promise too much."""

    def run(error: BaseException | None) -> None:
        with watched_run("gc", None, repository="repo") as watched:
            watched.phases = Phases("repo")
            with watched.phases.phase("list"):
                pass
            assert current_run() is watched
            if error is not None:
                raise error

    with pytest.raises(KeyboardInterrupt):
        run(KeyboardInterrupt())
    assert earlier_seconds("lakefs gc repo") == {}
    run(None)
    assert list(earlier_seconds("lakefs gc repo")) == ["list"]
    assert current_run().command == ""
    assert list(tmp_path.glob("*.prom")) == []
