"""What a URL of a ref store may look like."""

from __future__ import annotations

import pytest

from lakesweep.errors import ConfigError
from lakesweep.lake.kv.sql import open_sql_store


@pytest.mark.parametrize("url", ["lake.db", "postgresql://[::1", "postgresql://host:port/lake"])
def test_a_url_that_can_not_be_right_is_a_wrong_setting(url: str) -> None:
    """Nothing is opened or made."""
    with pytest.raises(ConfigError, match="not understood"):
        open_sql_store(url)
