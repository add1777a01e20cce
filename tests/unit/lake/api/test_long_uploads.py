"""Bodies that do not fit into one request, for stores that read what they write in a thread of their own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

import pytest

from lakesweep.storage.memory import MemoryBackend
from lakesweep.storage.parallel import merged_streams
from lakesweep_testing.asgi import AsgiLake

MIB = 1024 * 1024
BODY = b"0123456789abcdef" * (9 * MIB // 16)
ETAG = hashlib.md5(BODY, usedforsecurity=False).hexdigest()


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[AsgiLake]:
    plain = MemoryBackend.put_stream

    def put_stream(store: MemoryBackend, key: str, chunks: Iterable[bytes]) -> object:
        # As CloudBackend does.
        return plain(store, key, merged_streams([lambda: iter(chunks)], workers=1, depth=2))

    monkeypatch.setattr(MemoryBackend, "put_stream", put_stream)
    with AsgiLake() as lake:
        lake.create()
        yield lake


def test_long_upload_reaches_a_store_that_reads_in_its_own_thread(lake: AsgiLake) -> None:
    """Whole, through the REST API and through the gateway."""
    objects = "/repositories/repo/branches/main/objects"
    assert lake.send("POST", f"{objects}?path=a", content=BODY).json()["checksum"] == ETAG
    form = {"content": BODY}
    assert lake.send("POST", f"{objects}?path=b", files=form).json()["checksum"] == ETAG
    assert lake.send_s3("PUT", "/repo/main/c", BODY).headers["ETag"] == f'"{ETAG}"'
    assert lake.send_s3("GET", "/repo/main/c").content == BODY


def test_long_part_reaches_a_store_that_reads_in_its_own_thread(lake: AsgiLake) -> None:
    """Parts are streams whatever their length."""
    begun = lake.send_s3("POST", "/repo/main/m?uploads=").text
    upload_id = re.search("<UploadId>(.*)</UploadId>", begun)
    assert upload_id is not None
    part = lake.send_s3("PUT", f"/repo/main/m?partNumber=1&uploadId={upload_id[1]}", BODY)
    assert part.headers["ETag"] == f'"{ETAG}"'
