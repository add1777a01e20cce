"""Assertions of the shared suite are shown in full."""

import pytest

pytest.register_assert_rewrite("lakesweep_testing.store_contract")
