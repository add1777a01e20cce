"""The completion scripts, loaded by the shells that they are for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakesweep_testing.real_parts import SHELLS

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

BASH = """
source <(lakesweep completion bash)
COMP_WORDS=(lakesweep mark --min-) COMP_CWORD=2
_lakesweep_completion lakesweep
echo "${COMPREPLY[@]}"
"""
# What a press of Tab needs besides is zsh's own: who registers functions, and who shows the words.
ZSH = """
compdef() { }
_arguments() { print -r -- $@ }
source <(lakesweep completion zsh)
words=(lakesweep mark --min-) CURRENT=3
_lakesweep_completion
"""
FISH = """
lakesweep completion fish | source
complete -C "lakesweep mark --min-"
"""


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        (["bash", "--norc"], BASH),
        ([str(SHELLS.folder / "bin/zsh"), "-f"], ZSH),
        ([str(SHELLS.folder / "usr/bin/fish"), "--no-config"], FISH),
    ],
    ids=["bash", "zsh", "fish"],
)
def test_a_shell_completes_an_option(shell: list[str], script: str, tmp_path: Path) -> None:
    """`--min-` becomes `--min-age`, in the shell's own language."""
    SHELLS.file()
    libraries = ":".join(map(str, (SHELLS.folder / "usr/lib").glob("*-linux-gnu")))
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LD_LIBRARY_PATH": libraries,
    }
    done = subprocess.run([*shell, "-c", script], env=env, capture_output=True, text=True)
    assert "--min-age" in done.stdout, done.stderr
    assert "--mark-id" not in done.stdout
