"""`python -m lakesweep_testing.schedules.rejected PAGE`: draw the traces on the page anew."""

from __future__ import annotations

import sys
from pathlib import Path

from lakesweep_testing.schedules.rejected.drawing import put_into

if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(put_into(page.read_text("utf-8")), "utf-8")
