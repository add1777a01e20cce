"""The same scope through the real lakectl binary, on both lakes."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from lakesweep_testing.real_parts import LAKEFS
from lakesweep_testing.servers.process import clean_environment

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

REPO = "ctl-repo"
URI = f"lakefs://{REPO}"
DAY = 86_400
START = 1_600_000_000


class LakectlSession:
    """One run of the script: a folder to work in, the lake, and the transcript."""

    def __init__(self, target: Any, folder: Path) -> None:
        self.target = target
        self.folder = folder
        self.transcript = target.transcript()
        self.transcript.secrets[str(folder)] = "<folder>"
        self._date = START

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = clean_environment(self.folder) | {
            "LAKECTL_SERVER_ENDPOINT_URL": self.target.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": self.target.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": self.target.secret_access_key,
            "LAKECTL_INTERACTIVE": "no",
            "TZ": "UTC",
        }
        return subprocess.run(
            [str(LAKEFS.file("lakectl")), *words],
            env=environment,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def see(self, *words: str, stdin: str = "", step: str = "") -> str:
        """Run a command and write down what it printed; of a failure, its status."""
        done = self.run(*words, stdin=stdin)
        seen = done.stdout
        if done.returncode:
            status = re.search(r"\b[45]\d\d [A-Z][\w ]+", done.stderr)
            seen += f"[exit {done.returncode}: {status[0] if status else 'no status'}]"
        self.transcript.add(step or " ".join(words), seen)
        return done.stdout

    def write_file(self, name: str, content: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return str(path)

    def upload(self, path: str, content: str, branch: str = "main") -> None:
        done = self.run("fs", "upload", f"{URI}/{branch}/{path}", "-s", "-", stdin=content)
        assert done.returncode == 0, done.stderr

    def commit(self, message: str, branch: str = "main", *more: str) -> None:
        # A day apart, so that the log's order does not hang on ids.
        self._date += DAY
        self.see(
            *("commit", f"{URI}/{branch}", "-m", message),
            *("--epoch-time-seconds", str(self._date), *more),
            step=f"commit {message}",
        )


def _repository(run: LakectlSession) -> None:
    namespace = f"s3://{run.target.bucket}/{REPO}"
    run.see("repo", "create", URI, namespace, step="repo create")
    run.see("repo", "create", URI, namespace, step="repo create, again")
    run.see("repo", "create", f"{URI}-2", namespace, step="repo create, namespace in use")
    run.see("branch", "list", "lakefs://nothing")
    run.see("identity")


def _objects(run: LakectlSession) -> None:
    run.see("fs", "upload", f"{URI}/main/a/b.txt", "-s", "-", stdin="hello world", step="fs upload")
    source = run.write_file("typed.csv", "1,2\n")
    run.see(
        *("fs", "upload", f"{URI}/main/a/typed.csv", "-s", source, "--content-type", "text/csv"),
        step="fs upload, typed",
    )
    for name in ("x/1", "x/2", "x/deep/3"):
        run.write_file(f"tree/{name}", name)
    tree = str(run.folder / "tree") + "/"
    run.run("fs", "upload", "-r", "--no-progress", "-s", tree, f"{URI}/main/tree/")
    run.upload("root", "at the root")
    run.see("fs", "cat", f"{URI}/main/a/b.txt")
    run.see("fs", "cat", f"{URI}/main/nothing")
    run.see("fs", "stat", f"{URI}/main/a/typed.csv")
    run.see("fs", "stat", f"{URI}/main/nothing")
    run.see("fs", "ls", f"{URI}/main/")
    run.see("fs", "ls", f"{URI}/main/tree/x/")
    run.see("fs", "ls", "-r", f"{URI}/main/")
    run.see("fs", "update-metadata", f"{URI}/main/a/b.txt", "--metadata", "k=v,k2=v2")
    run.see("fs", "stat", f"{URI}/main/a/b.txt")
    run.see("fs", "presign", f"{URI}/main/a/b.txt")
    run.see("fs", "upload", f"{URI}/nope/x", "-s", "-", stdin="x", step="fs upload, no branch")
    run.run("fs", "download", "-r", "--no-progress", f"{URI}/main/tree/", str(run.folder / "back"))
    found = sorted(
        p.relative_to(run.folder / "back") for p in (run.folder / "back").rglob("*") if p.is_file()
    )
    run.transcript.add("downloaded", [str(path) for path in found])
    run.see("diff", f"{URI}/main")


def _commits(run: LakectlSession) -> None:
    run.commit("first", "main", "--meta", "key=value")
    run.commit("nothing to commit")
    run.commit("empty", "main", "--allow-empty-commit")
    run.see("fs", "rm", f"{URI}/main/root")
    run.see("fs", "rm", f"{URI}/main/nothing")
    run.see("fs", "rm", "-r", f"{URI}/main/tree/x/deep/")
    run.see("diff", f"{URI}/main", step="diff after rm")
    run.see("branch", "reset", f"{URI}/main", "--object", "root", "-y")
    run.see("branch", "reset", f"{URI}/main", "--prefix", "tree/", "-y")
    run.see("diff", f"{URI}/main", step="diff after reset")
    run.upload("more", "more")
    run.see("branch", "reset", f"{URI}/main", "-y")
    run.upload("more", "more")
    run.commit("second")
    run.see("log", f"{URI}/main")
    run.see("log", f"{URI}/main", "--amount", "1", "--limit")
    run.see("log", f"{URI}/main", "--objects", "more")
    run.see("log", f"{URI}/main", "--prefixes", "tree/")
    run.see("log", f"{URI}/main", "--since", "2020-09-16T00:00:00Z")
    run.see("log", f"{URI}/main", "--show-meta-range-id")
    run.see("log", f"{URI}/nothing")
    run.see("show", "commit", f"{URI}/main~1", "--show-meta-range-id")
    run.see("annotate", "-r", f"{URI}/main/a/")


def _branches(run: LakectlSession) -> None:
    run.see("branch", "create", f"{URI}/dev", "-s", f"{URI}/main")
    run.see("branch", "create", f"{URI}/dev", "-s", f"{URI}/main", step="branch create, again")
    run.see("branch", "create", f"{URI}/dev2", "-s", f"{URI}/nothing")
    run.see("branch", "create", f"{URI}/old", "-s", f"{URI}/main~1")
    run.see("branch", "list", URI)
    run.see("branch", "show", f"{URI}/dev")
    run.see("branch", "show", f"{URI}/nothing")
    run.upload("a/b.txt", "dev's", "dev")
    run.upload("only-dev", "dev", "dev")
    run.see("diff", f"{URI}/dev")
    run.commit("on dev", "dev")
    run.see("diff", f"{URI}/main", f"{URI}/dev")
    run.see("diff", "--two-way", f"{URI}/dev", f"{URI}/main")
    run.see("find-merge-base", f"{URI}/dev", f"{URI}/main")
    run.see("merge", f"{URI}/dev", f"{URI}/main")
    run.see("merge", f"{URI}/dev", f"{URI}/main", step="merge again")
    run.upload("a/b.txt", "main's")
    run.commit("main changes it")
    run.upload("a/b.txt", "dev's second", "dev")
    run.commit("dev changes it", "dev")
    run.see("diff", f"{URI}/main", f"{URI}/dev", step="diff, conflict")
    run.see("merge", f"{URI}/dev", f"{URI}/main", step="merge, conflict")
    run.see("merge", f"{URI}/dev", f"{URI}/main", "--strategy", "dest-wins", "-m", "ours")
    run.see("fs", "cat", f"{URI}/main/a/b.txt", step="who won")
    run.see("branch", "revert", f"{URI}/main", "main", "-y", step="revert a merge, no parent")
    run.upload("bad", "bad")
    run.commit("a bad idea")
    run.see("branch", "revert", f"{URI}/main", "main", "-y", step="revert")
    run.see("fs", "cat", f"{URI}/main/bad", step="the bad idea")
    run.upload("cherry", "red", "dev")
    run.commit("grow a cherry", "dev")
    run.see("cherry-pick", f"{URI}/dev", f"{URI}/main")
    run.see("fs", "cat", f"{URI}/main/cherry")
    run.see("log", f"{URI}/main", "--first-parent", "--amount", "3", step="log of it all")
    run.see("branch", "delete", f"{URI}/old", "-y")
    run.see("branch", "delete", f"{URI}/old", "-y", step="branch delete, again")
    run.see("branch", "delete", f"{URI}/main", "-y")
    run.see("tag", "create", f"{URI}/v1", f"{URI}/main")
    run.see("tag", "create", f"{URI}/v1", f"{URI}/main", step="tag create, again")
    run.see("tag", "show", f"{URI}/v1")
    run.see("tag", "list", URI)
    run.see("fs", "cat", f"{URI}/v1/cherry")
    run.see("tag", "delete", f"{URI}/v1", "-y")
    run.see("tag", "show", f"{URI}/v1", step="tag show, gone")


def _outside(run: LakectlSession) -> None:
    outside = f"s3://{run.target.bucket}/ctl-outside"
    for name in ("one", "deep/two"):
        run.target.write(f"{outside}/{name}", name.encode())
    run.see(
        *("fs", "stage", f"{URI}/main/staged", "--location", f"{outside}/one"),
        *("--checksum", "c0ffee", "--size", "3", "--mtime", str(START)),
        step="fs stage",
    )
    run.see("fs", "cat", f"{URI}/main/staged")
    run.see("branch", "reset", f"{URI}/main", "-y", step="reset after staging")
    run.see(
        *("import", "--from", f"{outside}/", "--to", f"{URI}/main/imported/"),
        *("-m", "import", "--no-progress"),
        step="import",
    )
    run.see("fs", "cat", f"{URI}/main/imported/deep/two")


def _collection(run: LakectlSession) -> None:
    run.see("gc", "get-config", URI, step="gc get-config, none")
    rules = {"default_retention_days": 7, "branches": [{"branch_id": "dev", "retention_days": 3}]}
    file = run.write_file("rules.json", json.dumps(rules))
    run.see("gc", "set-config", URI, "-f", file, step="gc set-config")
    run.see("gc", "get-config", URI)
    run.see("gc", "get-config", "-p", URI)
    task = run.run("gc", "prepare-async", URI).stdout
    task_id = re.search(r"GCPC[\w-]+", task)
    assert task_id, task
    for _ in range(100):
        status = run.run("gc", "check-async", URI, "--id", task_id[0])
        if "Completed" in status.stdout:
            break
    run.see("gc", "check-async", URI, "--id", task_id[0], step="gc check-async")
    run.see("gc", "delete-config", URI)
    run.see("gc", "get-config", URI, step="gc get-config, deleted")


def _moving(run: LakectlSession) -> None:
    dump = run.see("refs-dump", URI, "--poll-interval", "1s", step="refs-dump")
    run.see("repo", "delete", URI, "-y")
    run.see("repo", "delete", URI, "-y", step="repo delete, again")
    namespace = f"s3://{run.target.bucket}/{REPO}"
    run.see("repo", "create-bare", f"{URI}-restored", namespace, step="repo create-bare")
    manifest = run.write_file("refs.json", dump)
    run.see(
        *("refs-restore", f"{URI}-restored", "--manifest", manifest, "--poll-interval", "1s"),
        step="refs-restore",
    )
    run.see("branch", "list", f"{URI}-restored")
    run.see("fs", "cat", f"{URI}-restored/main/cherry")


def run_script(target: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        run = LakectlSession(target, Path(folder))
        for chapter in (_repository, _objects, _commits, _branches, _outside, _collection, _moving):
            chapter(run)
        return run.transcript


_BASE_HEAD = f"Source: {URI}/dev\nDestination: {URI}/main\nFound base "

DIFFERENCES = {
    f"find-merge-base {URI}/dev {URI}/main": (
        f'{_BASE_HEAD}"<id 4>" when merging "<id 4>" into "<id 7>".\n',
        f'{_BASE_HEAD}"<id 4>" when merging "<id 7>" into "<id 4>".\n',
        "Merge base: which commit is the source",
    ),
}


def test_transcripts_agree(compare_lakes: Any) -> None:
    """lakectl can't tell the embedded lake from lakeFS but by the listed differences."""
    compare_lakes(run_script, DIFFERENCES)
