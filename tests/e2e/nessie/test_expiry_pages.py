"""An expiry leaves its sums and its page in the work location."""

from __future__ import annotations

from lakesweep.cli.pages import nessie_place
from lakesweep.report.html.beside import write_page
from lakesweep_testing.nessie_scene import NessieScene


def test_an_expiry_has_sums_and_a_page(scene: NessieScene) -> None:
    """What is in the page is what was deleted."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orphan = orders.iceberg.write_orphan("x.parquet")
    record = scene.expire(scene.mark())
    resources = scene.context().resources
    assert nessie_place(resources, record.run_id) is None
    resources.phases.saved_record = record
    place = nessie_place(resources, record.run_id)
    assert place is not None
    summary = place.summary()
    assert summary is not None
    assert summary.garbage.total.objects == record.objects["garbage"] == 1
    assert summary.garbage.total.bytes == record.bytes["garbage"]
    assert [one.name for one in summary.garbage.largest] == [orphan]
    assert summary.commits is None
    write_page(place, record)
    page = place.store.read(place.files.page).decode()
    assert orphan in page
    assert "collectable by a new mark from" in page or not record.objects["young"]
