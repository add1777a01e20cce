"""What lowers a guard works on the command line only."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesweep.errors import ConfigError
from lakesweep.secrets import SecretMask
from lakesweep.settings.load import load_settings

HOME = Path("/nonexistent")


@pytest.mark.parametrize(
    ("name", "value"),
    [("unsafe_min_age", "repo"), ("confirm", "plan-1"), ("max_delete_share", "51")],
)
def test_guards_are_lowered_on_the_command_line_only(tmp_path: Path, name: str, value: str) -> None:
    """The same value is taken as a flag and refused from the environment and a file."""
    load_settings({name: value}, env={}, home=HOME, mask=SecretMask())
    config = tmp_path / "c.toml"
    config.write_text(f'{name} = "{value}"\n')
    for flags, env in (({}, {f"LAKESWEEP_{name.upper()}": value}), ({"config": config}, {})):
        with pytest.raises(ConfigError) as error:
            load_settings(flags, env=env, home=HOME, mask=SecretMask())
        assert error.value.kind == "command-line-only"


def test_a_smaller_share_may_come_from_anywhere() -> None:
    """Making a guard stricter is always fine."""
    env = {"LAKESWEEP_MAX_DELETE_SHARE": "10%"}
    assert load_settings({}, env=env, home=HOME, mask=SecretMask()).collect.max_delete_share == 10


@pytest.mark.parametrize("share", ["-1", "101", "much", "nan"])
def test_a_share_is_a_percentage(share: str) -> None:
    """Anything else would switch the guard off by accident."""
    with pytest.raises(ConfigError, match="percentage"):
        load_settings({"max_delete_share": share}, env={}, home=HOME, mask=SecretMask())


def test_now_is_never_in_the_future() -> None:
    """Retention can't run ahead of time."""
    at = datetime(2024, 5, 1, tzinfo=UTC)
    flags = {"now": "2024-05-01T00:00:01Z"}
    with pytest.raises(ConfigError) as error:
        load_settings(flags, env={}, home=HOME, current_time=at, mask=SecretMask())
    assert error.value.kind == "now-in-future"
    same = {"now": "2024-05-01T02:00:00+02:00"}
    loaded = load_settings(same, env={}, home=HOME, current_time=at, mask=SecretMask())
    assert loaded.collect.now == at


@pytest.mark.parametrize(
    "flags",
    [
        {"mark_id": "a/b"},
        {"mark_id": ""},
        {"what": "everything"},
        {"min_age": "5"},
        {"backup_to": "ftp://x"},
        {"conf": ["no-equals"]},
        {"storage_option": ["nonsense=1"]},
        {"master": "local[2]", "remote": "sc://x"},
    ],
)
def test_wrong_values_are_errors_of_use(flags: dict[str, object]) -> None:
    """Exit status 2, and nothing touched."""
    with pytest.raises(ConfigError) as error:
        load_settings(flags, env={}, home=HOME, mask=SecretMask())
    assert error.value.exit_status == 2
