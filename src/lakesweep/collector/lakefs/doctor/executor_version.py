"""What an executor says of itself, for the doctor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa

TOLD_SCHEMA = pa.schema([pa.field("python", pa.string()), pa.field("version", pa.string())])


def lakesweep_version() -> str:
    """The version that is installed here."""
    try:
        return version("lakesweep")
    except PackageNotFoundError:
        return "of unknown version"  # shipped as plain files


def tell_of_executor(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    """Work function: which Python runs here, and which lakesweep it has."""
    for _ in items:
        python = f"{sys.executable} {sys.version.split()[0]}"
        told = {"python": [python], "version": [lakesweep_version()]}
        yield pa.RecordBatch.from_pydict(told, schema=TOLD_SCHEMA)
