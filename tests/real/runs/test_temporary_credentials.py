"""Executors with temporary credentials of a real STS, which end while their tasks run."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lakesweep_testing.servers import MinIOServer, RealLakeFS, SparkMaster, SparkWorker
from lakesweep_testing.tcp_proxy import TcpProxy
from lakesweep_testing.user import User

pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(900)]

LIFE = timedelta(seconds=10)
_SIGNED_BY = re.compile(r"Credential=([^/]+)/")


@dataclass(frozen=True, slots=True)
class Given:
    """A key, and which node asked for it."""

    node: str
    key: str
    secret: str
    token: str
    ends_at: datetime


class NodeKeys:
    """The service by which nodes get the credentials of their role: each question gives a new key of MinIO's AssumeRole.

    MinIO refuses a key that is older than `life`, and that is the end which the node is told.
    """

    def __init__(self, minio: MinIOServer, life: timedelta) -> None:
        self._minio, self._life = minio, life
        self.given: dict[str, Given] = {}  # by access key, in order
        give = self._give

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                one = give(self.path.strip("/"))
                answer = {
                    "AccessKeyId": one.key,
                    "SecretAccessKey": one.secret,
                    "Token": one.token,
                    "Expiration": f"{one.ends_at:%Y-%m-%dT%H:%M:%SZ}",
                }
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environment(self, node: str) -> dict[str, str]:
        """What a node finds in its environment: no key, but who gives it one."""
        url = f"http://127.0.0.1:{self._server.server_port}/{node}"
        return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}

    def _give(self, node: str) -> Given:
        ends_at = datetime.now(UTC).replace(microsecond=0) + self._life
        answer = self._minio.temporary_key(ends_at, node)
        key, secret = answer["AccessKeyId"], answer["SecretAccessKey"]
        self.given[key] = Given(node, key, secret, answer["SessionToken"], ends_at)
        return self.given[key]


class Holding:
    """Holds the answer to an executor's first page of a listing, and to its first intent, until its key has ended."""

    def __init__(self, keys: NodeKeys) -> None:
        self._keys = keys
        self.held: dict[str, Given] = {}
        self.signed: list[tuple[str, Given]] = []  # what was asked, with which key, in order

    def __call__(self, request: str, piece: bytes) -> bytes:
        line = request.split("\r\n", 1)[0]
        signed_by = _SIGNED_BY.search(request)
        one = self._keys.given.get(signed_by[1]) if signed_by is not None else None
        if one is None:
            return piece
        self.signed.append((line, one))
        what = "list" if "list-type=2" in line else "intent" if ".intent.json" in line else ""
        if what and one.node == "worker" and self.held.setdefault(what, one) is one:
            while datetime.now(UTC) < one.ends_at + timedelta(seconds=1):
                time.sleep(0.1)
        return piece

    def signed_after(self, held: str, what: str) -> list[Given]:
        """The executor's keys for requests with `what` in their line after a held answer."""
        first = next(n for n, (_, one) in enumerate(self.signed) if one is self.held[held])
        after = self.signed[first + 1 :]
        return [one for line, one in after if what in line and one.node == "worker"]


def write_history(user: User) -> None:
    user.set_rules(5)
    user.upload("main", "base")
    user.upload("main", "expired")
    user.commit("main", days=40)
    user.delete("main", "expired")
    user.commit("main", days=30)
    user.upload("main", "orphan")
    user.reset("main")
    time.sleep(2.1)


def test_executors_renew_keys_that_end_in_the_middle_of_a_task(
    minio: MinIOServer,
    real_lakefs: RealLakeFS,
    new_user: Callable[[], User],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task of the mark and one of the sweep go on with a newer key than they began with, which MinIO takes no more."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    user = new_user()
    write_history(user)
    with (
        NodeKeys(minio, LIFE) as keys,
        TcpProxy(minio.port, holding := Holding(keys)) as proxy,
        SparkMaster() as master,
        SparkWorker(master, keys.environment("worker")),
    ):
        environment = {
            **real_lakefs.lakectl_environment,
            **keys.environment("driver"),
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
            "AWS_REGION": minio.region,
        }
        ages = ("--min-age", "1s", "--unsafe-min-age", user.repository)
        command = master.start_command("gc", user.repository, *ages, environment=environment)
        try:
            out, talk = command.communicate(timeout=600)
        finally:
            command.kill()
    assert command.returncode == 0, talk[-4000:]
    record = json.loads(out)
    assert (record["status"], record["objects"]["deleted"]) == ("swept", 2)
    assert record["objects"]["failed"] == 0
    assert user.status("main", "base") == 200
    for held, next_request in (("list", "/listing/"), ("intent", "?delete")):
        old = holding.held[held]
        newer = holding.signed_after(held, next_request)
        assert newer, "the task went on"
        assert all(one.ends_at > old.ends_at for one in newer)
        assert refused(minio, old) == "AccessDenied"


def refused(minio: MinIOServer, ended: Given) -> str:
    """What MinIO says to a key."""
    client = botocore.session.Session().create_client(
        "s3",
        endpoint_url=minio.url,
        region_name=minio.region,
        aws_access_key_id=ended.key,
        aws_secret_access_key=ended.secret,
        aws_session_token=ended.token,
        config=Config(s3={"addressing_style": "path"}, proxies={}),
    )
    with pytest.raises(ClientError) as caught:
        client.list_buckets()
    return str(caught.value.response["Error"]["Code"])
