"""Command lines as picocli reads them, so that a script written for nessie-gc works word for word.

Typer reads one value per option. picocli also lets an option that may be repeated take several words, or none
(`--cutoff main=10 dev=5`), lets a single letter have its value after `=` (`-u=URL`), reads words from a file
(`@arguments.txt`), and refuses an option that is given twice.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from lakesweep.errors import ConfigError
from lakesweep.settings.nessie_options import NESSIE_OPTIONS

__all__ = ["NessieCommand", "NessieGroup"]

_VALUE_MAY_BE_MISSING = {option.flag for option in NESSIE_OPTIONS if option.may_be_bare}


class NessieGroup(TyperGroup):
    """The group of commands: `@file` stands for the words in it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_expanded(args)))


class NessieCommand(TyperCommand):
    """A command whose words are read as picocli reads them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [parameter for parameter in self.get_params(ctx) if hasattr(parameter, "is_flag")]
        words = list(_one_value_each(args, options))
        _, _, order = self.make_parser(ctx).parse_args(args=list(words))
        for parameter in order:
            if not getattr(parameter, "multiple", True) and order.count(parameter) > 1:
                ctx.fail(f"{parameter.opts[-1]} is given twice, and only one can be meant.")
        return super().parse_args(ctx, words)


def _expanded(words: Iterable[str]) -> Iterator[str]:
    """A word `@file` becomes the words in that file; `@@` is one `@`; a file that is not there is a word."""
    for word in words:
        if word.startswith("@@"):
            yield word[1:]
        elif word.startswith("@") and Path(word[1:]).is_file():
            try:
                yield from shlex.split(Path(word[1:]).read_text("utf-8"), comments=True)
            except (OSError, ValueError) as error:
                # The parser's message quotes nothing of the file, which may hold a password.
                raise ConfigError(
                    f"The arguments in {word[1:]} can't be read: {error}. Nothing was touched."
                ) from error
        else:
            yield word


def _one_value_each(words: list[str], options: list[Any]) -> Iterator[str]:
    """The words with one value for each option that takes one, as Typer reads them."""
    names = {name: parameter for parameter in options for name in parameter.opts}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from (word, *rest)
            return
        name, attached = _named(word, names)
        parameter = names.get(name)
        if parameter is None or parameter.is_flag:
            yield word
        elif parameter.multiple:
            values = [attached] if attached is not None else []
            while rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
            for value in values:
                yield from (name, value)
        elif attached is not None:
            yield from (name, attached)
        elif name in _VALUE_MAY_BE_MISSING and (not rest or rest[0].startswith("-")):
            continue
        else:
            yield from (name, *rest[:1])
            del rest[:1]


def _named(word: str, names: Iterable[str]) -> tuple[str, str | None]:
    """An option's name and the value attached to it: `--uri=X`, `-uX`, `-u=X`; None where there is none."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    letter = word[:2]
    if word != letter and letter in names:
        return letter, word[2:].removeprefix("=")
    return word, None
