"""Workers of this machine load pyspark from where it is installed."""

from __future__ import annotations

from lakesweep.engine.worker_daemon import prefer_installed


def test_zipped_copies_of_pyspark_come_last() -> None:
    """Found first, every module in them would be compiled again by every worker; they stay as the last resort."""
    path = [
        "/spark/python/lib/pyspark.zip",
        "/spark/python/lib/py4j-src.zip",
        "/app",
        "/site-packages",
    ]
    assert prefer_installed(path) == [*path[1:], path[0]]
    assert prefer_installed(["/app"]) == ["/app"]
