"""Tables on S3 whose locations are spelled in odd ways."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.storage import StorageOptions
from lakesweep_testing.nessie_scene import NessieScene
from s3_loopback import LoopbackS3


@pytest.fixture
def server(scene: NessieScene) -> Iterator[LoopbackS3]:
    """A store that takes every key; the scene's tables are written into it."""
    long_ago = (datetime.now(UTC) - timedelta(days=10)).timestamp()
    with LoopbackS3(buckets=("lake",), access_key_id="key", clock=lambda: long_ago) as server:
        scene.storage = StorageOptions(
            s3_endpoint=server.url,
            s3_access_key_id="key",
            s3_secret_access_key="secret-secret",
            s3_region="us-east-1",
            local_fsync=False,
        )

        def write(uri: str, data: bytes) -> None:
            server._keep(server.buckets["lake"], uri.partition("://lake/")[2], data)

        scene.write = write  # type: ignore[method-assign]
        yield server


def keys(uris: set[str]) -> set[str]:
    return {uri.partition("://lake/")[2] for uri in uris}


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_one_bucket_has_one_name(scene: NessieScene, server: LoopbackS3, scheme: str) -> None:
    """A table at s3:// whose manifests say s3a://: to nessie-gc all its data files are orphans."""
    orders = scene.table(
        "orders", "s3://lake/orders", spelling=lambda uri: uri.replace("s3://", f"{scheme}://")
    )
    orders.append("a.parquet")
    orders.iceberg.write_orphan("x.parquet")

    scene.expire(scene.mark())

    assert set(server.buckets["lake"]) == keys(orders.live_files())


def test_a_table_below_an_empty_segment_is_read_and_left_alone(
    scene: NessieScene, server: LoopbackS3
) -> None:
    """`s3://lake/wh//t` is another place than `s3://lake/wh/t`: its names can't be deleted exactly, so none is."""
    odd = scene.table("odd", "s3://lake/wh//odd")
    odd.append("a.parquet")
    odd.iceberg.write_orphan("x.parquet")
    plain = scene.table("plain", "s3://lake/wh/plain")
    plain.append("b.parquet")
    plain.iceberg.write_orphan("y.parquet")

    record = scene.expire(scene.mark())

    left = {key for key in server.buckets["lake"] if key.startswith("wh/plain")}
    assert left == keys(plain.live_files())
    assert len([key for key in server.buckets["lake"] if "//" in key]) == 5
    assert record.objects["protected"] == 5
    assert "odd names" in record.protected
