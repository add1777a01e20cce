"""`explain` on a real lakeFS server on MinIO: the same words as a mark, and what the server can't tell is said."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from lakesweep.collector.lakefs.collect import run_gc, run_mark
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.explain.explain import ExplainRequest, explain
from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import MarkId
from lakesweep.domain.explanations import Explanation, Said
from lakesweep.formats.tables import read_mark
from lakesweep_testing.embedded import source_of
from lakesweep_testing.user import User

pytestmark = pytest.mark.real

AT_ONCE = MarkRequest(min_age=timedelta(seconds=1), allow_lower_min_age=True)


def marked(context: RunContext) -> set[str]:
    mark_id = run_mark(context, AT_ONCE).mark_id
    keys = context.store.keys(mark_folder(MarkId(mark_id)))
    return {a for k in keys for a in read_mark(context.store.read(k))["address"].to_pylist()}


def test_a_real_server_is_asked_and_nothing_is_written(
    new_user: Callable[[], User], open_run: Callable[..., RunContext]
) -> None:
    """Live, staged, expired, orphaned and dropped objects: no word differs from a mark's, but for what no server tells."""
    user = new_user()
    user.set_rules(7)
    uris = {name: user.upload("main", name) for name in ("expired", "retained", "live")}
    user.commit("main", days=40)
    user.delete("main", "expired")
    user.commit("main", days=30)
    user.delete("main", "retained")
    last = user.commit("main", days=3)
    uris["staged"] = user.upload("main", "staged")
    uris["orphan"] = user.upload("main", "orphan")
    user.delete("main", "orphan")
    # The same content once more: a server calls it no change and lists it nowhere.
    uris["again"] = user.upload("main", "live")
    user.branch("gone", "main")
    uris["dropped"] = user.upload("gone", "dropped")
    user.commit("gone", days=20)
    user.drop_branch("gone")
    time.sleep(2.1)  # until all of it is older than a mark asks for

    context = open_run(user.repository)
    before = set(context.store.keys(""))

    def explained() -> dict[str, Explanation]:
        request = ExplainRequest(min_age=timedelta(seconds=1))
        found = explain(source_of(context), list(uris.values()), request)
        assert "not known by this server" in found.notes[0]
        return dict(zip(uris, found.objects, strict=True))

    found = explained()
    assert set(context.store.keys("")) == before
    said = {name: e.said for name, e in found.items()}
    assert said == {
        "expired": Said.UNKNOWN,  # a commit that no branch reaches may hold it, too
        "retained": Said.LIVE,
        "live": Said.LIVE,
        "staged": Said.LIVE,
        "orphan": Said.GARBAGE,
        "again": Said.LIVE,
        "dropped": Said.UNKNOWN,
    }
    retained = found["retained"]
    assert retained.goes_at is not None
    assert retained.commits[0].branch == "main"
    made = context.repository.client.commit(user.repository, last).creation_date
    assert timedelta(0) <= retained.goes_at - (made + timedelta(days=7)) <= timedelta(seconds=1)
    assert [(h.branch, h.path) for h in found["again"].outside] == [("main", "live")]
    garbage = {e.address for e in found.values() if e.said in (Said.GARBAGE, Said.UNKNOWN)}
    assert marked(context) == garbage

    record = run_gc(context, AT_ONCE, SweepRequest())
    deletion = explained()["expired"].deletion
    assert deletion is not None
    assert deletion.run_id == record.run_id
