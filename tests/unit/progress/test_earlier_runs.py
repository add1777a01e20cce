"""How long phases took is kept where it is safe to lose."""

from __future__ import annotations

from pathlib import Path

from lakesweep.progress.earlier_runs import earlier_seconds, keep_seconds


def test_the_last_run_of_a_kind_is_remembered(tmp_path: Path) -> None:
    """Phases that came several times are added up, in the order of their first time."""
    env = {"LAKESWEEP_CACHE": str(tmp_path)}
    assert earlier_seconds("gc repo", env) == {}
    keep_seconds("gc repo", [("list", 1.0), ("delete", 2.0), ("list", 0.5)], env)
    assert list(earlier_seconds("gc repo", env).items()) == [("list", 1.5), ("delete", 2.0)]
    assert earlier_seconds("mark repo", env) == {}


def test_a_damaged_or_locked_memory_is_none(tmp_path: Path) -> None:
    """It only tells how long a run may take."""
    env = {"LAKESWEEP_CACHE": str(tmp_path)}
    keep_seconds("gc repo", [("list", 1.0)], env)
    (file,) = (tmp_path / "phases").iterdir()
    for damage in ("[1]", "{", '{"list": "x"}', '{"list": null}'):
        file.write_text(damage)
        assert earlier_seconds("gc repo", env) == {}
    (tmp_path / "file").write_text("")
    keep_seconds("gc repo", [("list", 1.0)], {"LAKESWEEP_CACHE": str(tmp_path / "file")})
