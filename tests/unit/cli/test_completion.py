"""Shells complete the words of commands by asking the program."""

from __future__ import annotations

import pytest

from lakesweep.cli.main import run


@pytest.mark.parametrize(
    ("shell", "word"),
    [
        ("bash", "complete -o default -F"),
        ("zsh", "#compdef lakesweep"),
        ("fish", "complete --command lakesweep"),
    ],
)
def test_each_shell_gets_a_script_of_its_own(
    shell: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script names the variable that the program answers to."""
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert word in script
    assert "_LAKESWEEP_COMPLETE" in script


def test_the_program_answers_with_the_words_that_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What bash asks for after `lakesweep ma` and a press of Tab."""
    from lakesweep.cli.main import main

    monkeypatch.setenv("_LAKESWEEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "lakesweep ma")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    assert capsys.readouterr().out.split() == ["mark"]


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the shells that are known."""
    assert run(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
