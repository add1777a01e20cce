"""stdout has results alone: what a JVM that pyspark starts prints there goes to stderr."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["stdout_in_use", "stdout_kept_clean"]

# A session may start in a thread while a command prints: held by whoever prints a result, and while stdout leads elsewhere.
stdout_in_use = threading.Lock()


@contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """Send what a JVM started in the block writes to stdout to our stderr. Results wait until the block ends."""
    with stdout_in_use:
        sys.stdout.flush()
        try:
            ours = os.dup(1)
        except OSError:
            yield  # there is no stdout to keep clean
            return
        os.dup2(2, 1)
        try:
            yield
        finally:
            os.dup2(ours, 1)
            os.close(ours)
