"""On random catalogs, an expiry deletes what the plain model calls garbage, and nothing else."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import UnsafeToSweepError
from lakesweep_testing.nessie_scene import NessieScene
from lakesweep_testing.nessie_story import FIRST_STEPS, VERBS, Story

# Short lists tell nothing: what goes wrong needs several tables, references and commits at once.
steps = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 7)), min_size=12, max_size=30)
kept = st.one_of(st.none(), st.integers(0, 4))


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 8)  # each is some five sweeps
@given(steps, kept)
def test_an_expiry_deletes_exactly_what_the_model_calls_garbage(
    story_steps: list[tuple[str, int]], commits_kept: int | None
) -> None:
    """Live, young, foreign and dropped tables' files stay; all else in live tables' folders goes.

    Sweeps stand between other work, under any policy, and commits that they cut off become live again. A second run
    finds nothing.
    """
    with tempfile.TemporaryDirectory() as folder, NessieScene(Path(folder)) as scene:
        # Commits are as old as files.
        scene.nessie.now = scene.written_at
        story = Story(scene)
        for verb, number in [*FIRST_STEPS, *story_steps]:
            story.tell(verb, number)
        before = scene.files()
        deferred = scene.mark("NONE" if commits_kept is None else str(commits_kept))
        with suppress(UnsafeToSweepError):
            scene.defer(deferred)
        record = story.sweep(commits_kept)

        assert scene.deferred(deferred) == before - scene.files()
        again = story.sweep(commits_kept)
        assert (again is None) == (record is None)
        assert again is None or again.objects["garbage"] == 0
