"""The Avro scanner and the hashing of file names check their own bounds; these runs show that none is ever passed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Reads sound and damaged files: whatever index leaves its array raises IndexError here.
SCRIPT = """
import random
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", ".*Cannot cache compiled function")  # without optimisation
import pyarrow as pa
from lakesweep.errors import FormatError
from lakesweep.formats.avro.reader import read_columns
from lakesweep_testing.one_by_one import hash_file
from lakesweep.formats.file_hashes import hash_listed_files
from lakesweep_testing.avro_writer import Branch, write_avro

def record(name, **fields):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}

node = record("node", next=["null", "node"], v="boolean")
inner = record("inner", path="string", hash={"type": "fixed", "name": "h", "size": 2}, node=node)
schema = record("row", n="int", flag=["null", "boolean"], kind={"type": "enum", "name": "k", "symbols": ["A", "B"]},
                sizes={"type": "array", "items": record("kv", k="int", v="bytes")}, counts={"type": "array", "items": "long"},
                deep={"type": "map", "values": ["double", {"type": "array", "items": "node2"}]} , inner=["null", inner])
schema["fields"].insert(0, {"name": "first", "type": record("node2", next=["null", "node2"])})
chain = {"next": {"next": {"next": None, "v": True}, "v": False}, "v": True}
rows = [{"first": {"next": {"next": None}}, "n": i, "flag": None if i % 2 else True, "kind": "AB"[i % 2],
         "sizes": [{"k": j, "v": b"x" * j} for j in range(i % 4)], "counts": list(range(i % 5)),
         "deep": {"a": Branch(0, 1.5), "b": Branch(1, [{"next": None}] * (i % 3))},
         "inner": None if i % 3 == 0 else {"path": "s3a://lake/%d" % i, "hash": b"hh", "node": chain}} for i in range(12)]
columns = ["n", "flag", "kind", "inner.path", "inner.hash", "gone"]
expected = [{"n": r["n"], "flag": r["flag"], "kind": r["kind"], "inner.path": (r["inner"] or {}).get("path"),
             "inner.hash": (r["inner"] or {}).get("hash"), "gone": None} for r in rows]
random.seed(1)
refused = 0
for sized in (False, True):
    data = write_avro(schema, rows, per_block=5, sized=sized)
    assert read_columns(data, columns, what="file").to_pylist() == expected
    body = data.index(bytes(range(16))) + 16
    for _ in range(ROUNDS):
        noise = bytearray(data)
        for _ in range(random.randint(1, 3)):
            noise[random.randrange(body, len(noise))] = random.choice([0, 1, 2, 3, 127, 128, 255, random.randrange(256)])
        try:
            read_columns(bytes(noise[: random.choice([len(noise), random.randrange(body, len(noise))])]), columns, what="file")
        except FormatError:
            refused += 1

names = ["s3://b/k", "s3a://b/k", "s3", "s3:", "s3:/", "s3://", "s3a:", "s3a://", "f", "file", "file:", "file:/", "file://",
         "file:///", "file:/x", "file:///x", "gs://b/k", "gs://b", "/", "/x", "", "a:", "x" * 50, "s3://b/", "gs:/x"]
names += [name[: random.randrange(len(name) + 1)] for name in names]
hashes, is_sound = hash_listed_files(pa.array(names))
for name, value, sound in zip(names, hashes.tolist(), is_sound.tolist()):
    assert not sound or value == hash_file(name), name
print("refused", refused)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "rounds"),
    [
        ("NUMBA_DISABLE_JIT", 40),
        pytest.param("NUMBA_BOUNDSCHECK", 2000, marks=pytest.mark.search),
    ],
)
@pytest.mark.timeout(300)
def test_no_index_leaves_its_array(variable: str, rounds: int) -> None:
    """Uncompiled, and compiled with numba's own checks, the same code gives the same values and only FormatError."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("ROUNDS", str(rounds))],
        # No optimisation: what matters is the checks, and compiling takes most of the time.
        env={**os.environ, variable: "1", "NUMBA_OPT": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused ")
