"""A sweep keeps what its own settings name, also where its mark was made without them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.collector.lakefs.collect import run_sweep
from lakesweep.collector.lakefs.opening import sweep_request
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import ConfigError
from lakesweep.settings.load import load_settings
from lakesweep_testing.scene import AGED, Scene

MakeScene = Callable[..., Scene]
EXPIRED = {f"expired-{number}" for number in range(3)}


@pytest.mark.parametrize(
    "given", [{"LAKESWEEP_KEEP_TAGS": "true"}, {"LAKESWEEP_KEEP_REF": "v1"}], ids=["tags", "ref"]
)
def test_what_the_settings_keep_is_kept_by_a_sweep_of_an_older_mark(
    make_scene: MakeScene, given: dict[str, str], tmp_path: Path
) -> None:
    """`gc` with do_mark=false and `sweep` read the same settings as a mark, and the mark may be older than they are."""
    scene = make_scene()
    scene.user.tag("v1", scene.expired_commit)
    marked = scene.mark()
    assert scene.marked(marked.mark_id) == set(scene.garbage.values())
    settings = load_settings({}, env=given, home=tmp_path)
    request = sweep_request(settings, scene.name)
    swept = run_sweep(scene.context(), marked.mark_id, request)
    assert scene.left() == EXPIRED
    assert swept.objects["revived"] == 3
    assert scene.user.status("v1", "expired-1") == 200
    scene.assert_nothing_else_gone()


def test_a_sweep_with_a_higher_minimum_age_refuses_a_mark_of_younger_objects(scene: Scene) -> None:
    """The mark's cut-off may lie after the time that the sweep allows; once the mark is old enough, it may go."""
    marked = scene.mark()
    assert AGED.min_age is not None
    request = SweepRequest(min_age=AGED.min_age + timedelta(days=7))
    with pytest.raises(ConfigError, match="Mark again") as refused:
        run_sweep(scene.context(), marked.mark_id, request)
    assert refused.value.kind == "mark-too-young"
    assert scene.left() == set(scene.garbage)
    scene.lake.clock.advance(timedelta(days=8))
    run_sweep(scene.context(), marked.mark_id, request)
    assert not scene.left()
    scene.assert_nothing_else_gone()
