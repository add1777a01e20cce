"""The tutorial, typed from its first line to its last into a real shell."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakesweep_testing.servers.process import free_port

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.timeout(600)]


def test_the_tutorial_works_line_by_line(tmp_path: Path) -> None:
    """With another port and folder, and after the set-up, which this environment has had."""
    page = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    script = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S))
    script = re.sub(r"^(make setup|source .*)\n", "", script, flags=re.M)
    script = script.replace("kill %1", "kill $!")  # a script has no jobs to name
    script = script.replace("8000", str(free_port()))
    script = script.replace("/tmp/lakesweep-tutorial-backup", f"{tmp_path}/backup")
    # A reader takes longer to type than a server to start.
    script = re.sub(
        r"^api=.*$",
        lambda line: f"{line[0]}\nuntil curl -s $api/config > /dev/null; do sleep 0.2; done",
        script,
        count=1,
        flags=re.M,
    )
    known = {
        name: os.environ[name]
        for name in ("HOME", "LAKESWEEP_CACHE", "JAVA_HOME", "PYTHONPATH")
        if name in os.environ
    }
    (tmp_path / "tutorial.sh").write_text(script, "utf-8")
    said = tmp_path / "said.txt"
    with said.open(
        "w"
    ) as out:  # a pipe would stay open as long as the server that the script starts
        shell = subprocess.Popen(
            ["bash", "-e", tmp_path / "tutorial.sh"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            env={**known, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            start_new_session=True,
        )
        try:
            status = shell.wait(570)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
    text = said.read_text("utf-8")
    assert status == 0, text
    young, garbage, deleted, restored = (
        re.search(pattern, text)
        for pattern in (r"young +1 ", r"garbage +1 ", r"deleted +1 ", r"(copied|restored) +1 ")
    )
    assert young
    assert garbage
    assert deleted
    assert restored
    assert "better" in text
    assert not (tmp_path / "lake").exists()
