"""The loopback S3 server of the benchmarks serves tests too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
