"""Results on stdout: tables for people, JSON for programs. Whatever goes out is masked here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import typer

from lakesweep.secrets import known_secrets

__all__ = ["print_json", "print_json_parts", "print_lines", "print_table", "print_text"]


def print_text(text: str) -> None:
    """A result for people."""
    typer.echo(known_secrets.mask(text))


def print_lines(lines: Iterable[str]) -> None:
    """A result for people, line by line; there may be millions."""
    for line in lines:
        print_text(line)


def print_json(value: object) -> None:
    """A result for programs: one JSON document."""
    typer.echo(json.dumps(known_secrets.mask_json(value), indent=2, ensure_ascii=False))


def print_json_parts(head: Mapping[str, object], lists: Mapping[str, Iterable[object]]) -> None:
    """One JSON document with long lists behind its other values, written item by item."""
    whole = json.dumps(known_secrets.mask_json(dict(head)), indent=2, ensure_ascii=False)
    typer.echo(whole.removesuffix("\n}"), nl=False)
    for name, items in lists.items():
        typer.echo(f",\n  {json.dumps(name)}: [", nl=False)
        for number, item in enumerate(items):
            text = json.dumps(known_secrets.mask_json(item), ensure_ascii=False)
            typer.echo(f"{',' if number else ''}\n    {text}", nl=False)
        typer.echo("\n  ]", nl=False)
    typer.echo("\n}")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their widest cell; plain text, so that it can be piped and pasted."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print_text("  ".join(cells).rstrip())
