"""Assertions of the shared suite are shown in full; the loopback S3 server of the benchmarks serves tests too."""

import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("lakesweep_testing.store_contract")
sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
