"""Which folders belong to contents that are neither tables nor views."""

from __future__ import annotations

from lakesweep.collector.nessie.folders import OTHER_KIND, BaseFolder, TableFolders
from lakesweep.collector.nessie.live_files import LiveFiles
from lakesweep.domain.live_sets import OtherContent
from lakesweep.domain.location import Location

TABLE = "s3://lake/t"


def test_a_folder_of_another_kind_may_have_a_dot_in_its_name() -> None:
    """Nobody knows whether what an unknown kind names is a file or a folder, so it is both."""
    places = (f"{TABLE}/vectors.lance", f"{TABLE}/model/v1.2/")
    bases = [BaseFolder(TABLE, Location.parse(TABLE))]
    others = [OtherContent("id", ("v",), "LANCE_TABLE", places)]
    folders = TableFolders(bases, LiveFiles(), LiveFiles(), others, ())
    of_others = [f"{TABLE}/vectors.lance/data/1.lance", f"{TABLE}/model/v1.2/weights.bin"]
    said = folders.protection().label_of
    assert [said(file) for file in of_others] == [OTHER_KIND] * 2
    assert said(f"{TABLE}/data/1.parquet") == ""
