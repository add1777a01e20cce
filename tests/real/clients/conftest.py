"""Two lakes on one MinIO, the real and the embedded, and the transcripts that official clients write of them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lakefs_sdk as sdk
import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.exceptions import ApiException

from lakesweep.lake.server import LakeServer
from lakesweep.lake.values import LakeSettings
from lakesweep.storage import StorageOptions
from lakesweep_testing.servers import MinIOServer, RealLakeFS

# What differs between any two runs. Each is replaced by a name; ids keep a number, so that "the same id as before"
# stays visible and two transcripts agree only if their ids have the same pattern.
_NUMBERED = {
    "address": re.compile(r"<bucket>/[\w-]+/data/[0-9a-v]{20}/[0-9a-v]{20}(?:,[\w-]+)?"),
    "id": re.compile(r"\b[0-9a-f]{64}\b"),
    "short id": re.compile(r"\b[0-9a-f]{16}\b"),
    "task": re.compile(r"\b(?:GCPC|DR|RR)[\w-]{20,}(?![\w-])"),
    "xid": re.compile(r"\b[0-9a-v]{20}\b"),
}
_PLAIN = {
    "<date>": re.compile(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d)?(?: [A-Z]{3,4})?)"
    ),
    "<http date>": re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"),
    "<now>": re.compile(r"\b1[789]\d{8}\b"),
}


_COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass(slots=True)
class Transcript:
    """What a client saw, step by step, with everything accidental named away."""

    steps: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, step: str, seen: object) -> None:
        assert step not in self.steps, f"two steps are called {step!r}"
        self.steps[step] = self._normalise(seen if isinstance(seen, str) else _to_text(seen))

    def _normalise(self, text: str) -> str:
        text = _COLOURS.sub("", text)
        for secret, name in self.secrets.items():
            text = text.replace(secret, name)
        for kind, pattern in _NUMBERED.items():
            text = pattern.sub(lambda match, kind=kind: self._name(kind, match[0]), text)
        for name, pattern in _PLAIN.items():
            text = pattern.sub(name, text)
        return text

    def _name(self, kind: str, text: str) -> str:
        number = 1 + sum(known == kind for known, _ in self._names)
        return self._names.setdefault((kind, text), f"<{kind} {number}>")


def _to_text(seen: object) -> str:
    return json.dumps(seen, sort_keys=True, default=str, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Target:
    """A lake that a script runs against, with the store under it."""

    name: str
    url: str
    access_key_id: str
    secret_access_key: str
    bucket: str
    minio: MinIOServer

    def transcript(self) -> Transcript:
        return Transcript(
            secrets={self.url: "<url>", f"s3://{self.bucket}": "<bucket>", self.bucket: "<bucket>"}
        )

    def write(self, address: str, data: bytes) -> None:
        """Put bytes straight into the store, as a client with an issued address does."""
        bucket, _, key = address.removeprefix("s3://").partition("/")
        self.minio.client().put_object(Bucket=bucket, Key=key, Body=data)

    def remove(self, address: str) -> None:
        """Take bytes away, as a sweep does."""
        bucket, _, key = address.removeprefix("s3://").partition("/")
        self.minio.client().delete_object(Bucket=bucket, Key=key)


@pytest.fixture(scope="session")
def real_target(minio: MinIOServer) -> Iterator[Target]:
    # The embedded lake below makes no presigned URLs, so both take the same road. Both sign in test_presigned.py.
    without_presign = {"LAKEFS_BLOCKSTORE_S3_DISABLE_PRE_SIGNED": "true"}
    minio.make_bucket("clients-real")
    with RealLakeFS(minio, env=without_presign) as server:
        keys = server.access_key_id, server.secret_access_key
        yield Target("lakeFS", server.url, *keys, "clients-real", minio)


@pytest.fixture(scope="session")
def embedded_target(
    minio: MinIOServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    minio.make_bucket("clients-embedded")
    storage = StorageOptions(
        s3_access_key_id=minio.access_key_id,
        s3_secret_access_key=minio.secret_access_key,
        s3_endpoint=minio.url,
        s3_region=minio.region,
    )
    folder = tmp_path_factory.mktemp("embedded")
    settings = LakeSettings(
        folder, storage=storage, allow_namespaces=("s3://",), allow_imports=("s3://",)
    )
    with LakeServer(folder, settings=settings) as server:
        keys = server.access_key_id, server.secret_access_key
        yield Target("embedded lake", server.url, *keys, "clients-embedded", minio)


# Step -> what lakeFS shows, what the embedded lake shows, and the row of the document that says why.
Differences = dict[str, tuple[str, str, str]]
Script = Callable[[Target], Transcript]
Compare = Callable[[Script, Differences], None]

_DOCUMENT = Path(__file__).parents[3] / "docs" / "embedded-lake-differences.md"


@pytest.fixture
def compare_lakes(real_target: Target, embedded_target: Target) -> Compare:
    """Run a script against both and hold the transcripts side by side."""

    def compare(script: Script, differences: Differences) -> None:
        real, embedded = script(real_target).steps, script(embedded_target).steps
        assert list(real) == list(embedded)
        unexplained = [
            {"step": step, "real": seen, "embedded": embedded[step]}
            for step, seen in real.items()
            if (seen, embedded[step]) != differences.get(step, (seen, seen))[:2]
        ]
        assert not unexplained, json.dumps(unexplained, indent=1, ensure_ascii=False)
        assert set(differences) <= set(real), "a difference is listed for a step that is not taken"
        explained = _DOCUMENT.read_text()
        for step, (_, _, row) in differences.items():
            assert f"| {row} |" in explained, f"{step}: the document does not say why"

    return compare


FIRST_DATE = 1_600_000_000


class SdkSession:
    """One run of the script: a client, the lake it talks to, and the transcript it writes."""

    def __init__(self, target: Target, repo: str) -> None:
        self.target = target
        self.repo = repo
        self.transcript = target.transcript()
        configuration = sdk.Configuration(
            host=f"{target.url}/api/v1",
            username=target.access_key_id,
            password=target.secret_access_key,
        )
        self.client = LakeFSClient(configuration)
        self._date = FIRST_DATE

    def see(self, step: str, call: Callable[[], Any]) -> Any:
        """Take a step and write down what came back; the value is returned for steps to come."""
        try:
            value = call()
        except ApiException as error:
            self.transcript.add(step, f"error {error.status}")
            return None
        self.transcript.add(step, _plain(value))
        return value

    def upload(self, path: str, content: bytes, branch: str = "main") -> Any:
        return self.client.objects_api.upload_object(self.repo, branch, path, content=content)

    def commit(self, message: str, branch: str = "main", **more: Any) -> Any:
        # Commits a day apart, so that the log's order does not hang on ids.
        self._date += 86_400
        creation = sdk.CommitCreation(message=message, date=self._date, **more)
        return self.client.commits_api.commit(self.repo, branch, creation)


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return repr(bytes(value))
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


def wait_for(status: Callable[[], Any]) -> Any:
    """The status of a task that has ended."""
    for _ in range(600):
        found = status()
        if found.completed:
            return found
        time.sleep(0.1)
    raise AssertionError("the task did not end")


@pytest.fixture
def open_session() -> type[SdkSession]:
    """Opens a session of the generated SDK: `open_session(target, repository)`."""
    return SdkSession


@pytest.fixture
def wait_until_completed() -> Callable[[Callable[[], Any]], Any]:
    return wait_for
