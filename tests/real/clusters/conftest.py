"""Makes the benchmarks' modules importable: a lake that is large enough for many tasks is among them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
