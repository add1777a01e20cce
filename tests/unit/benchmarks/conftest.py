"""Makes the benchmarks' modules importable: they are programs beside the packages, and in none of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
