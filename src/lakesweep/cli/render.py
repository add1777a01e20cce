"""Results on stdout: tables for people, JSON for programs. Whatever goes out is masked here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakesweep.cli.streams import write_result
from lakesweep.secrets import known_secrets
from lakesweep.settings.values import OutputSettings

__all__ = [
    *("print_json", "print_json_parts", "print_lines", "print_result", "print_text", "table_lines"),
]


def print_text(text: str) -> None:
    """A result for people."""
    write_result(known_secrets.mask(text))


def print_lines(lines: Iterable[str]) -> None:
    """A result for people, line by line; there may be millions."""
    for line in lines:
        print_text(line)


def print_result(output: OutputSettings, document: object, lines: Iterable[str]) -> None:
    """A result as the user wants it: one JSON document for programs, or lines for people."""
    if output.output == "json":
        print_json(document)
    else:
        print_lines(lines)


def print_json(value: object) -> None:
    """A result for programs: one JSON document."""
    write_result(json.dumps(known_secrets.mask_json(value), indent=2, ensure_ascii=False))


def print_json_parts(head: Mapping[str, object], lists: Mapping[str, Iterable[object]]) -> None:
    """One JSON document with long lists behind its other values, written item by item."""
    whole = json.dumps(known_secrets.mask_json(dict(head)), indent=2, ensure_ascii=False)
    write_result(whole.removesuffix("\n}"), nl=False)
    for name, items in lists.items():
        write_result(f",\n  {json.dumps(name)}: [", nl=False)
        for number, item in enumerate(items):
            text = json.dumps(known_secrets.mask_json(item), ensure_ascii=False)
            write_result(f"{',' if number else ''}\n    {text}", nl=False)
        write_result("\n  ]", nl=False)
    write_result("\n}")


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; plain text, so that it can be piped and pasted."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
