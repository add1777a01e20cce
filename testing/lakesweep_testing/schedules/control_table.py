"""`python -m lakesweep_testing.schedules.control_table PAGE`: search for all controls, and write their table into a page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from lakesweep_testing.schedules.controls import CONTROLS, Control, search

_PART = re.compile(r"(<!-- controls -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "| part | left out | program | leads to | found in schedule |\n|---|---|---|---|---|\n"


def row(part: str, control: Control) -> str:
    """What a row of the table says of a control, up to how many schedules it took to find the harm."""
    left_out = control.name.replace("; ", " **and** ")
    return f"| {part} | {left_out} | `{control.program}` | {control.leads_to} |"


def put_into(page: str) -> str:
    """A page with its table made anew."""
    rows = [
        f"{row(part, control)} {search(control).schedules} |\n"
        for part, controls in CONTROLS.items()
        for control in controls
    ]
    return _PART.sub(lambda found: f"{found[1]}\n{_HEAD}{''.join(rows)}\n{found[2]}", page)


def rows_in(page: str) -> list[str]:
    """The rows that a page shows, without the counts."""
    table = _PART.search(page)
    lines = table[0].splitlines() if table else []
    rows = [line for line in lines if line.startswith("| ") and line not in _HEAD]
    return [line.rsplit(" ", 2)[0] for line in rows]


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(put_into(path.read_text("utf-8")), "utf-8")
