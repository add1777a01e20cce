"""Explanations of every file of random catalogs, held against sweeps of the same moment and of the day that is named."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from lakesweep.domain.explanations import Said
from lakesweep.errors import UnsafeToSweepError
from lakesweep_testing.nessie_scene import NessieScene
from lakesweep_testing.nessie_story import FIRST_STEPS, VERBS, Story

MOMENT = timedelta(microseconds=1)
HOURS = timedelta(hours=7)
GRACE = timedelta(hours=24)
# What sweeps do to a catalog is told in other tests; here all files are there.
QUIET = [verb for verb in VERBS if "sweep" not in verb]

steps = st.lists(st.tuples(st.sampled_from(QUIET), st.integers(0, 7)), min_size=8, max_size=20)
policies = st.sampled_from(["P1D", "PT30H", "P3D", "2", "NONE"])


@pytest.mark.slow
@settings(max_examples=max(2, settings().max_examples // 25))
@given(steps, policies, policies, st.booleans(), st.booleans(), st.data())
def test_explanations_agree_with_sweeps_and_name_the_day(
    story_steps: list[tuple[str, int]],
    default: str,
    of_main: str,
    keep_state: bool,
    collect_dropped: bool,
    data: st.DataObject,
) -> None:
    """What is said of a file is what a sweep says now; on the day that is named a sweep takes it, and not before."""
    rules = {
        "default": default,
        "cutoffs": {"main": of_main},
        "keep_state_at_cutoff": keep_state,
        "dropped_grace": timedelta(days=2) if collect_dropped else None,
    }
    with tempfile.TemporaryDirectory() as folder, NessieScene(Path(folder)) as scene:
        scene.written_at = datetime.now(UTC) - timedelta(days=60)
        story = Story(scene)
        for verb, number in [*FIRST_STEPS, *story_steps]:
            scene.written_at += HOURS
            scene.nessie.now = scene.written_at
            story.tell(verb, number)
        now = scene.written_at + timedelta(hours=data.draw(st.integers(1, 40), label="hours"))

        def swept(at: datetime) -> set[str]:
            """Files that a sweep of that time would delete."""
            marked = scene.mark(at=at, **rules)
            scene.defer(marked, grace=GRACE)
            return scene.deferred(marked)

        files = sorted(scene.files())
        try:
            garbage = swept(now)
        except UnsafeToSweepError:
            with pytest.raises(UnsafeToSweepError):
                scene.explain(*files, at=now, grace=GRACE, **rules)
            assume(False)
        found = {e.asked: e for e in scene.explain(*files, at=now, grace=GRACE, **rules).files}
        assert {uri for uri, e in found.items() if e.said is Said.GARBAGE} == garbage
        assert not any(e.unread for e in found.values())
        days = sorted({e.goes_at for e in found.values() if e.goes_at is not None})
        chosen = data.draw(st.lists(st.sampled_from(days), max_size=2, unique=True)) if days else []
        for day in chosen:
            going = {uri for uri, e in found.items() if e.goes_at == day}
            note(f"{day}: {sorted(going)}")
            assert not going & swept(day - MOMENT)
            assert going <= swept(day)
        later = swept(now + timedelta(days=30))
        note(f"stay: {sorted(u for u in later if found[u].stays)}")
        assert not {uri for uri in later if found[uri].stays}
