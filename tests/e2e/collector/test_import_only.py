"""A repository whose every commit holds imported data alone: nothing of it lies in the namespace, and that is no doubt."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from lakesweep.collector.lakefs.collect import run_mark, run_sweep
from lakesweep.collector.request import SweepRequest
from lakesweep.formats.entries import AddressType, Entry
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import MeddlingTransport, as_a_real_server


class ImportOnly(Scene):
    """Two imported entries on a branch, and one upload that was taken back."""

    def _write_history(self, each: int) -> None:
        at = self.lake.clock.now
        self.commit_entries(
            "imported",
            {
                name: Entry(f"{where}/{name}", at, 5, "e", address_type=AddressType.FULL)
                for name, where in (("a", "mem://elsewhere"), ("b", f"mem://{self.name}/other"))
            },
        )
        self.garbage["orphan"] = self.upload("main", "orphan")
        self.user.delete("main", "orphan")
        self.lake.clock.advance(timedelta(days=2))


@pytest.fixture
def imported(lake: EmbeddedLake) -> Iterator[ImportOnly]:
    scene = ImportOnly(lake, "import-only")
    yield scene
    scene.close()


def test_import_only_repository_is_collected(imported: ImportOnly) -> None:
    """Outside addresses are no blindness, on the embedded lake or on a real server, with ranges cached or not."""
    for transport in (MeddlingTransport(), as_a_real_server()):
        imported.rewind()
        marked = run_mark(imported.context(transport=transport), AGED)
        assert marked.objects["garbage"] == 1
        again = run_mark(imported.context(transport=transport), AGED)
        assert again.objects["garbage"] == 1
        run_sweep(imported.context(transport=transport), again.mark_id, SweepRequest())
        assert not imported.left()
        imported.assert_nothing_else_gone()
