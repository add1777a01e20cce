"""The collector one would write first in PySpark: the yardstick of bench_collector.py.

boto3 lists the slices in tasks, a plain-Python reader reads the ranges in tasks, DataFrames subtract the addresses from
each other, and the driver deletes what is left with boto3. It believes the server's list of retained commits, and it
checks, records and re-reads nothing: no counts, no plan, no second look before deleting.

    python benchmarks/naive_gc.py bench         servers and credentials in the environment, as for `lakesweep gc`
"""

from __future__ import annotations

import csv
import json
import os
import sys
import tempfile
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakesweep.formats.metaranges import read_metarange
from plain_sstable import read_addresses

_OBJECT = "address string, size bigint, last_modified timestamp"


def s3() -> Any:
    return boto3.client("s3", config=Config(s3={"addressing_style": "path"}, proxies={}))


def call_lakefs(method: str, path: str, body: object = None) -> Any:
    words = f"{os.environ['LAKECTL_CREDENTIALS_ACCESS_KEY_ID']}:{os.environ['LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY']}"
    request = urllib.request.Request(
        f"{os.environ['LAKECTL_SERVER_ENDPOINT_URL']}/api/v1/{path}",
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": f"Basic {b64encode(words.encode()).decode()}"},
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as reply:
        return json.load(reply)


def list_slice(bucket: str, root: str, prefix: str) -> Iterator[tuple[str, int, datetime]]:
    pages = s3().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        for row in page.get("Contents", ()):
            yield row["Key"][len(root) :], row["Size"], row["LastModified"]


def read_range(bucket: str, key: str) -> Iterator[tuple[str]]:
    data = s3().get_object(Bucket=bucket, Key=key)["Body"].read()
    for address, _, _ in read_addresses(data):
        yield (address.decode(),)


def retained_ranges(client: Any, repository: str, bucket: str, root: str) -> list[str]:
    """Keys of the ranges of all commits that the server retains."""
    call_lakefs("POST", f"repositories/{repository}/gc/prepare_commits/async")
    status = call_lakefs("GET", f"repositories/{repository}/gc/prepare_commits/status?id=GCPC1")
    _, key = split_uri(status["result"]["gc_commits_location"])
    text = client.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    ranges = set()
    for metarange in {row["metarange_id"] for row in csv.DictReader(text.splitlines())}:
        data = client.get_object(Bucket=bucket, Key=f"{root}_lakefs/{metarange}")["Body"].read()
        ranges |= {f"{root}_lakefs/{info.id}" for info in read_metarange(data)}
    return sorted(ranges)


def download_staged(client: Any, repository: str, folder: Path) -> None:
    """The server's list of uncommitted objects, as files that Spark can read."""
    path = f"repositories/{repository}/gc/prepare_uncommited"
    page = call_lakefs("POST", path)
    bucket, prefix = split_uri(page["gc_uncommitted_location"])
    while token := page.get("continuation_token"):
        page = call_lakefs("POST", path, {"continuation_token": token})
    for row in client.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]:
        client.download_file(bucket, row["Key"], str(folder / row["Key"].rsplit("/", 1)[-1]))


def split_uri(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def main(repository: str) -> None:
    client = s3()
    namespace = call_lakefs("GET", f"repositories/{repository}")["storage_namespace"]
    bucket, root = split_uri(namespace + "/")
    cutoff = datetime.now(UTC) - timedelta(days=1)
    spark = (
        SparkSession.builder.master("local[*]").config("spark.driver.memory", "4g").getOrCreate()
    )
    context = spark.sparkContext
    with tempfile.TemporaryDirectory() as folder:
        download_staged(client, repository, Path(folder))
        ranges = retained_ranges(client, repository, bucket, root)
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{root}data/", Delimiter="/"
        )
        slices = [row["Prefix"] for page in pages for row in page["CommonPrefixes"]]
        listed = spark.createDataFrame(
            context.parallelize(slices, min(len(slices), 64)).flatMap(
                lambda prefix: list_slice(bucket, root, prefix)
            ),
            _OBJECT,
        )
        committed = spark.createDataFrame(
            context.parallelize(ranges, min(len(ranges), 64)).flatMap(
                lambda key: read_range(bucket, key)
            ),
            "address string",
        )
        staged = spark.read.parquet(folder).select(F.col("physical_address").alias("address"))
        old = listed.where(F.col("last_modified") < F.lit(cutoff)).select("address")
        garbage = [row.address for row in old.subtract(committed).subtract(staged).collect()]
    for first in range(0, len(garbage), 1000):
        keys = [{"Key": root + address} for address in garbage[first : first + 1000]]
        client.delete_objects(Bucket=bucket, Delete={"Objects": keys})
    print(json.dumps({"deleted": len(garbage)}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
