"""`lakesweep demo`: the whole story on an embedded lake, in a temporary folder, in about a minute."""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

from lakesweep.cli.render import print_text

__all__ = ["demo"]


def demo() -> None:
    """Show everything on a lake of its own, in about a minute.

    It plays six weeks of history, a mark, a backup, a sweep and a restore. No server is needed. Everything lies in a
    temporary folder that is removed at the end.
    """
    # Imported here: the embedded lake and Spark are extras.
    from lakesweep.cli.demo_acts import Acts
    from lakesweep.cli.demo_story import Story, StoryClock
    from lakesweep.cli.running import start_engine
    from lakesweep.collector.lakefs.opening import open_client
    from lakesweep.engine.late import LateEngine
    from lakesweep.lake.server import LakeServer
    from lakesweep.settings.load import load_settings

    began = time.monotonic()
    logging.getLogger().setLevel(logging.WARNING)
    clock = StoryClock(days_ago=43)
    with (
        tempfile.TemporaryDirectory(prefix="lakesweep-demo-") as name,
        LakeServer(name, clock=clock) as server,
    ):
        folder = Path(name)
        # The environment is left out: the demo must not find its way to somebody's real lake.
        settings = load_settings(
            {
                "endpoint_url": server.url,
                "access_key_id": server.access_key_id,
                "secret_access_key": server.secret_access_key,
                "namespace_root": name,
            },
            env={},
            home=folder,
        )
        engine = LateEngine(lambda: start_engine(settings))
        with open_client(settings) as client:
            Acts(Story(server.lake, clock, folder), settings, engine, client).play()
    print_text(f"\nThat took {time.monotonic() - began:.0f} s, and the folder is gone again.")
