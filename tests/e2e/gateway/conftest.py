"""One embedded lake for the gateway's tests, boto3 clients to it, and a fresh repository for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lakesweep.lake.server import LakeServer

MakeClient = Callable[..., Any]
Refusal = Callable[..., tuple[str, int]]


@pytest.fixture(scope="session")
def lake_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    with LakeServer(tmp_path_factory.mktemp("lake")) as server:
        yield server


@pytest.fixture(scope="session")
def make_client(lake_server: LakeServer) -> MakeClient:
    """Builds an S3 client for the lake; arguments go over ours."""

    def make(**changes: Any) -> Any:
        arguments = {
            "endpoint_url": lake_server.url,
            "region_name": "us-east-1",
            "aws_access_key_id": lake_server.access_key_id,
            "aws_secret_access_key": lake_server.secret_access_key,
        }
        config = Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"} | changes.pop("s3", {}),
            retries={"total_max_attempts": 1},
            proxies={},
            **changes.pop("config", {}),
        )
        return boto3.session.Session().client("s3", config=config, **(arguments | changes))

    return make


@pytest.fixture(scope="session")
def s3(make_client: MakeClient) -> Any:
    return make_client()


@pytest.fixture(scope="session")
def refusal() -> Refusal:
    """Runs a call that must be refused, and gives the error's code and HTTP status."""

    def run(operation: Callable[..., Any], **arguments: Any) -> tuple[str, int]:
        with pytest.raises(ClientError) as error:
            operation(**arguments)
        response = error.value.response
        return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]

    return run


_numbers = itertools.count()


@pytest.fixture
def repo(lake_server: LakeServer) -> str:
    """A new repository with the branches main and side."""
    name = f"repo-{next(_numbers)}"
    lake_server.lake.repositories.create(name, f"local://{name}")
    lake_server.lake.refs.create_branch(lake_server.lake.writable(name), "side", "main")
    return name
