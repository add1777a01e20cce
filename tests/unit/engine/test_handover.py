"""One process takes the part of another: words, environment, standard streams."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakesweep.engine.handover import SOCKET_VARIABLE, hand_over

TAKER = """
import os, socket, sys
from lakesweep.engine.handover import take_over
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(1)
print("listening", flush=True)
with take_over(listener):
    said = sys.stdin.readline().strip()
    print(f"{sys.argv[1:]} {os.environ['WHO']} {said}", flush=True)
"""
GIVER = (
    "import sys; from lakesweep.engine.handover import hand_over; sys.exit(0 if hand_over() else 7)"
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "socket")


def test_the_other_reads_and_writes_our_streams(path: str) -> None:
    """What is said to the one is heard by the other, under the one's name; the one stays until the other is done."""
    with subprocess.Popen(
        [sys.executable, "-c", TAKER, path], stdout=subprocess.PIPE, text=True
    ) as taker:
        assert taker.stdout is not None
        assert taker.stdout.readline() == "listening\n"
        giver = subprocess.run(
            [sys.executable, "-c", GIVER, "one", "two"],
            input="good day\n",
            env={**os.environ, SOCKET_VARIABLE: path, "WHO": "giver", "LONG": "x" * 100_000},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert (giver.returncode, giver.stdout) == (0, "['one', 'two'] giver good day\n")
        assert taker.wait(30) == 0
    assert not Path(path).exists()


def test_where_nobody_listens_everybody_does_their_own_part(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody was named, or nobody is there."""
    monkeypatch.delenv(SOCKET_VARIABLE, raising=False)
    assert not hand_over()
    monkeypatch.setenv(SOCKET_VARIABLE, path)
    assert not hand_over()
    assert SOCKET_VARIABLE not in os.environ


def test_one_who_ends_before_taking_over_has_not_taken_over(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Having been heard is not enough."""
    monkeypatch.setenv(SOCKET_VARIABLE, path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        assert not hand_over()
        thread.join()
