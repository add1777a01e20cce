"""A user who may not dump refs: every range file counts as live, and nothing that was ever committed goes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.request import MarkRequest, What
from lakesweep.errors import CatalogDeniedError
from lakesweep_testing.embedded import EmbeddedLake


def test_without_the_right_to_dump_only_what_was_never_committed_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dangling commits can't be found through branch logs, so their ranges are taken from the store."""

    def denied(self: LakeFSClient, repository: str) -> None:
        raise CatalogDeniedError("insufficient permissions")

    monkeypatch.setattr(LakeFSClient, "dump_refs", denied)
    with EmbeddedLake(tmp_path / "lake") as lake:
        user = lake.new_user("repo")
        user.set_rules(1)
        kept = user.upload("main", "kept")
        user.commit("main")
        user.branch("side", "main")
        dangling = user.upload("side", "dangling")
        user.commit("side")
        user.drop_branch("side")
        user.delete("main", "kept")
        user.commit("main")
        lost = user.upload("main", "lost")
        user.reset("main")
        for address in (kept, dangling, lost):
            lake.date_file(address)
        lake.clock.advance(timedelta(days=30))

        record = lake.gc("repo")
        assert record.objects["unreferenced"] == record.objects["deleted"] == 1
        assert not lake.file_of(lost).exists()
        assert lake.file_of(kept).exists()
        assert lake.file_of(dangling).exists()
        assert any("no right to dump refs" in note for note in record.notes)
        committed = lake.gc("repo", MarkRequest(What.COMMITTED))
        assert committed.objects["garbage"] == 0
