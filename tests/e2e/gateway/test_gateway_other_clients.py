"""S3 clients that share no code with boto3: Arrow's (AWS's C++ SDK) and obstore's (Rust)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from lakesweep.lake.server import LakeServer

MIB = 1024 * 1024


@pytest.fixture
def arrow_fs(lake_server: LakeServer) -> pafs.S3FileSystem:
    return pafs.S3FileSystem(
        access_key=lake_server.access_key_id,
        secret_key=lake_server.secret_access_key,
        endpoint_override=lake_server.url.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
    )


def test_arrow_writes_reads_moves_and_deletes(arrow_fs: pafs.S3FileSystem, repo: str) -> None:
    """Parquet through Arrow's own S3 client, an upload in parts, a rename and a removed folder."""
    table = pa.table({"a": list(range(10_000))})
    pq.write_table(table, f"{repo}/main/d/t/x.parquet", filesystem=arrow_fs)
    assert pq.read_table(f"{repo}/main/d/t/x.parquet", filesystem=arrow_fs).equals(table)
    with arrow_fs.open_output_stream(f"{repo}/main/d/t/big") as stream:
        for _ in range(12):
            stream.write(bytes(MIB))
    arrow_fs.move(f"{repo}/main/d/t/big", f"{repo}/main/d/t/moved +%")
    found = arrow_fs.get_file_info(pafs.FileSelector(f"{repo}/main/d/t"))
    assert {(info.base_name, info.size) for info in found if info.is_file} >= {
        ("moved +%", 12 * MIB)
    }
    assert arrow_fs.get_file_info(f"{repo}/main").type == pafs.FileType.Directory
    # Arrow leaves a marker for the folder above, which in a branch's root (`main/`) is no key, here as in lakeFS.
    arrow_fs.delete_dir(f"{repo}/main/d/t")
    assert arrow_fs.get_file_info(f"{repo}/main/d/t/x.parquet").type == pafs.FileType.NotFound


def test_obstore_writes_reads_lists_and_deletes(lake_server: LakeServer, repo: str) -> None:
    """The Rust client's puts, ranges, parts, create-if-absent, copies, listings and bulk deletes."""
    store = S3Store(
        repo,
        config={
            "endpoint": lake_server.url,
            "access_key_id": lake_server.access_key_id,
            "secret_access_key": lake_server.secret_access_key,
            "region": "us-east-1",
            "virtual_hosted_style_request": False,
        },
        client_options={"allow_http": True},
    )
    store.put("main/a b+c%", b"hello")
    assert store.get_range("main/a b+c%", start=1, length=2).to_bytes() == b"el"
    with pytest.raises(AlreadyExistsError):
        store.put("main/a b+c%", b"other", mode="create")
    store.put("main/d/parts", bytes(12 * MIB))
    store.rename("main/d/parts", "main/d/renamed")
    assert store.head("main/d/renamed")["size"] == 12 * MIB
    listed = [entry["path"] for batch in store.list("main/") for entry in batch]
    assert listed == ["main/a b+c%", "main/d/renamed"]
    store.delete(listed)
    assert [entry for batch in store.list("main/") for entry in batch] == []
