"""`lakesweep serve` refuses options that don't fit together before it opens anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakesweep.cli.main import app
from lakesweep.errors import ConfigError


@pytest.mark.parametrize("namespaces", [[], ["file:///srv"], ["s3://a", "gs://b"]])
def test_presigned_urls_are_of_one_kind_of_store(tmp_path: Path, namespaces: list[str]) -> None:
    """Clients are told of one kind; with none, or two, the lake does not start."""
    data = tmp_path / "lake"
    allowed = [word for uri in namespaces for word in ("--allow-namespace", uri)]
    # A certificate without its key is refused later, so that no server starts if this check is ever lost.
    words = ["serve", "--data", str(data), "--tls-cert", "x", "--presign", *allowed]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ConfigError)
    assert "--presign needs --allow-namespace" in done.exception.message
    assert not data.exists()
