"""The high-level Python package `lakefs`, as notebooks use it, on both lakes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import lakefs
import pytest
from lakefs.client import Client
from lakefs.exceptions import LakeFSException
from lakefs.namedtuple import LenientNamedTuple

pytestmark = pytest.mark.real

REPO = "wrapper-repo"
START = 1_600_000_000


class WrapperSession:
    """One run of the script."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.transcript = target.transcript()
        self.client = Client(
            host=target.url, username=target.access_key_id, password=target.secret_access_key
        )

    def see(self, step: str, call: Callable[[], Any]) -> Any:
        """Take a step and write down its value, or the class of error that a notebook would catch."""
        try:
            value = call()
        except LakeFSException as error:
            self.transcript.add(step, type(error).__name__)
            return None
        self.transcript.add(step, _plain(value))
        return value


def _plain(value: Any) -> Any:
    if isinstance(value, LenientNamedTuple):
        return {key: _plain(item) for key, item in sorted(vars(value).items()) if key[0] != "_"}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (lakefs.Repository, lakefs.Reference)):
        return f"{type(value).__name__} {value.id}"
    if isinstance(value, lakefs.StoredObject):
        return f"object {value.path}"
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value if isinstance(value, (str, int, bool, type(None))) else repr(value)


def _read_and_write(run: WrapperSession, repo: Any) -> None:
    see, main = run.see, repo.branch("main")
    see("upload text", lambda: main.object("notes/a.txt").upload(data="line 1\nline 2\n").stat())
    see(
        "upload with metadata",
        lambda: (
            main.object("notes/b.bin")
            .upload(data=b"\x00\x01", content_type="image/png", metadata={"made": "here"})
            .stat()
        ),
    )
    see("exclusive upload", lambda: main.object("notes/a.txt").upload(data="no", mode="x"))

    def write() -> Any:
        with main.object("notes/written.txt").writer(mode="w") as writer:
            writer.write("one ")
            writer.write("two")
        return main.object("notes/written.txt").reader(mode="r").read()

    see("write as a file", write)

    def seek() -> Any:
        with main.object("notes/a.txt").reader(mode="rb") as reader:
            first = reader.read(4)
            reader.seek(7)
            return [
                first,
                reader.read(4),
                reader.tell(),
                reader.readline(),
                reader.read(),
                reader.read(),
            ]

    see("seek in a file", seek)
    see("exists", lambda: [main.object(name).exists() for name in ("notes/a.txt", "nothing")])
    see("read nothing", lambda: main.object("nothing").reader().read())
    see("listed", lambda: list(main.objects(prefix="notes/")))
    see("listed, folded", lambda: list(main.objects(delimiter="/")))
    see("uncommitted", lambda: list(main.uncommitted()))


def _history(run: WrapperSession, repo: Any) -> None:
    see, main = run.see, repo.branch("main")
    see("commit", lambda: main.commit("notes", metadata={"k": "v"}, date=START).get_commit())
    see("commit nothing", lambda: main.commit("nothing"))
    dev = see("branch", lambda: repo.branch("dev").create("main"))
    see("branch again", lambda: repo.branch("dev").create("main"))
    see("branch again, gladly", lambda: repo.branch("dev").create("main", exist_ok=True))
    dev.object("notes/a.txt").upload(data="changed")
    dev.object("notes/c.txt").upload(data="new")
    see("delete many", lambda: dev.delete_objects(["notes/b.bin", "nothing"]))
    see("commit on dev", lambda: dev.commit("changes", date=START + 1))
    see("diff", lambda: list(main.diff("dev")))
    see("merge", lambda: dev.merge_into(main))
    see("merge again", lambda: dev.merge_into(main))
    see("log", lambda: list(main.log(max_amount=3)))
    see("head", lambda: main.get_commit())
    see("read the old", lambda: repo.ref("main~1").object("notes/a.txt").reader(mode="r").read())
    see("tag", lambda: repo.tag("v1").create(main).get_commit().id == main.get_commit().id)
    see("tags", lambda: list(repo.tags()))
    see("revert", lambda: main.revert("main", parent_number=1).message)
    see("read after the revert", lambda: main.object("notes/a.txt").reader(mode="r").read())
    see("copy", lambda: main.object("notes/a.txt").copy("main", "copy.txt").stat().checksum)
    see("reset", lambda: main.reset_changes())
    see("branches", lambda: [branch.id for branch in repo.branches()])
    see("delete a tag", lambda: repo.tag("v1").delete())
    see("delete a branch", lambda: dev.delete())
    see("delete it again", lambda: dev.delete())


def _more(run: WrapperSession, repo: Any) -> None:
    see, main = run.see, repo.branch("main")

    def transact() -> Any:
        with main.transact(commit_message="all or nothing") as work:
            work.object("tx/1").upload(data="1")
            work.object("tx/2").upload(data="2")
        return [entry.path for entry in main.objects(prefix="tx/")]

    see("transaction", transact)
    run.target.write(f"s3://{run.target.bucket}/wrapper-import/x/1", b"outside")

    def bring_in() -> Any:
        manager = main.import_data("import").prefix(
            f"s3://{run.target.bucket}/wrapper-import/", destination="in/"
        )
        status = manager.run(poll_interval=timedelta(milliseconds=100))
        return [
            status.completed,
            status.ingested_objects,
            main.object("in/x/1").reader(mode="r").read(),
        ]

    see("import", bring_in)
    see("delete repository", lambda: repo.delete())
    see("delete it once more", lambda: repo.delete())


def run_script(target: Any) -> Any:
    run = WrapperSession(target)
    repo = lakefs.Repository(REPO, client=run.client)
    namespace = f"s3://{target.bucket}/{REPO}"
    run.see("create", lambda: repo.create(namespace).properties)
    run.see("create again", lambda: repo.create(namespace))
    run.see("create again, gladly", lambda: repo.create(namespace, exist_ok=True).id)
    run.see("metadata", lambda: repo.metadata)
    for chapter in (_read_and_write, _history, _more):
        chapter(run, repo)
    return run.transcript


def test_transcripts_agree(compare_lakes: Any) -> None:
    """A notebook can't tell the embedded lake from lakeFS."""
    compare_lakes(run_script, {})
