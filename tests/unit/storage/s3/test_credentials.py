"""Credentials that end, or are replaced, while a process works with them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import StorageDeniedError, StorageError, ThrottledError
from lakesweep.storage import StorageOptions, open_store
from lakesweep.storage.s3.credentials import S3Credentials
from lakesweep.storage.translate import TRANSIENT

_PAGE = (
    b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
)
_ENDED = b"<Error><Code>ExpiredToken</Code><Message>ended</Message></Error>"
_ROLE = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
<Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""

Answer = Callable[[str, str], tuple[int, bytes]]


@pytest.fixture(autouse=True)
def _nothing_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file or role of this machine takes part, and botocore does not try again for seconds."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A server on loopback that answers a path and an Authorization header: its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status, content = answer(self.path, self.headers.get("authorization", ""))
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Keys:
    """A container's service: each question gives a new key with an end."""

    def __init__(self, seconds: float) -> None:
        self._life = timedelta(seconds=seconds)
        self.ends_at: list[datetime] = []

    def answer(self) -> tuple[int, bytes]:
        number = len(self.ends_at)
        self.ends_at.append(datetime.now(UTC) + self._life)
        key = {
            "AccessKeyId": f"KEY{number}",
            "SecretAccessKey": "s",
            "Token": "t",
            "Expiration": self.ends_at[-1].strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        return 200, json.dumps(key).encode()

    def number_in(self, authorization: str) -> int:
        return int(authorization.partition("Credential=KEY")[2].partition("/")[0])


def write_keys(folder: Path, key: str, secret: str | None = "s") -> None:
    lines = ["[default]", f"aws_access_key_id = {key}"]
    lines += [f"aws_secret_access_key = {secret}"] if secret else []
    (folder / "credentials").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_own_requests_and_obstore_outlive_their_first_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that takes no key past its end is listed and read for longer than any of them lasts."""
    keys = Keys(seconds=1.0)
    grace = timedelta(seconds=4)  # for requests that a laden machine holds up on their way
    used: set[tuple[int, bool]] = set()

    def answer(path: str, authorization: str) -> tuple[int, bytes]:
        if path == "/credentials":
            return keys.answer()
        number = keys.number_in(authorization)
        used.add((number, "list-type" in path))
        if datetime.now(UTC) >= keys.ends_at[number] + grace:
            return 403, _ENDED
        return 200, _PAGE

    with serving(answer) as url:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/credentials")
        options = StorageOptions(s3_endpoint=url, s3_region="eu-west-1", transient_retries=0)
        store = open_store(Location.parse("s3://ending/root"), options)
        end = time.monotonic() + 7.0
        while time.monotonic() < end or min(map(len, _keys_by_kind(used))) < 3:
            assert list(store.keys("")) == []
            assert store.read("x") == _PAGE
            time.sleep(0.05)
    assert all(len(numbers) >= 3 for numbers in _keys_by_kind(used))


def _keys_by_kind(used: set[tuple[int, bool]]) -> tuple[set[int], set[int]]:
    """The numbers of the keys that listed, and of those that read."""
    lists, reads = ({n for n, is_list in used if is_list is kind} for kind in (True, False))
    return lists, reads


def test_who_gives_keys_is_not_asked_for_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in its last minutes is asked for anew at every use, by botocore; a node's service bears no thousands of that."""
    keys, now = Keys(seconds=60), [100.0]
    with serving(lambda path, authorization: keys.answer()) as url:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/credentials")
        credentials = S3Credentials("lake", StorageOptions(), clock=lambda: now[0])
        first = credentials.signing_key()
        asked = len(keys.ends_at)
        assert all(credentials.signing_key() == first for _ in range(50))
        assert len(keys.ends_at) == asked
        now[0] += 1.1
        assert credentials.signing_key() != first


def test_a_good_key_is_used_while_another_thread_waits_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service that takes its time holds up one request, not all."""
    keys, now = Keys(seconds=60), [100.0]
    is_slow, goes_on = threading.Event(), threading.Event()

    def answer(path: str, authorization: str) -> tuple[int, bytes]:
        if is_slow.is_set():
            goes_on.wait(20)
        return keys.answer()

    with serving(answer) as url:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/credentials")
        credentials = S3Credentials("lake", StorageOptions(), clock=lambda: now[0])
        first = credentials.signing_key()
        now[0] += 1.1
        is_slow.set()
        asking = threading.Thread(target=credentials.signing_key)
        asking.start()
        while not credentials._lock.locked():
            time.sleep(0.01)
        assert credentials.signing_key() == first
        goes_on.set()
        asking.join()
    assert credentials.signing_key() != first


def test_a_file_with_new_keys_is_noticed(tmp_path: Path) -> None:
    """An agent that replaces them need not restart us; one that is half-way through changes nothing."""
    now = [100.0]
    write_keys(tmp_path, "FIRST")
    credentials = S3Credentials("lake", StorageOptions(), clock=lambda: now[0])
    assert credentials.signing_key().access_key == "FIRST"
    write_keys(tmp_path, "SECOND")
    now[0] += 59
    assert credentials.signing_key().access_key == "FIRST"
    now[0] += 2
    assert credentials.signing_key().access_key == "SECOND"
    write_keys(tmp_path, "THIRD", secret=None)
    now[0] += 61
    assert credentials.signing_key().access_key == "SECOND"
    ends_at = credentials.for_obstore()["expires_at"]
    assert ends_at is not None, "obstore comes back for what the file says then"
    assert credentials.ends_at is None, "and a URL that is signed with them ends by itself only"


def test_keys_of_the_options_are_not_looked_for_elsewhere(tmp_path: Path) -> None:
    """They are what the user gave, and obstore keeps them."""
    now = [100.0]
    write_keys(tmp_path, "FILE")
    options = StorageOptions(s3_access_key_id="GIVEN", s3_secret_access_key="s")
    credentials = S3Credentials("lake", options, clock=lambda: now[0])
    assert credentials.signing_key().access_key == "GIVEN"
    now[0] += 61
    assert credentials.signing_key().access_key == "GIVEN"
    assert credentials.for_obstore()["expires_at"] is None


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [(403, "AccessDenied", StorageDeniedError), (503, "Throttling", ThrottledError)],
)
def test_a_role_that_is_not_given_again(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, error: type[StorageError]
) -> None:
    """Refused for good is a denial; an overworked service is waited for. Neither is called a bug."""
    asked: list[str] = []
    ends = (datetime.now(UTC) + timedelta(seconds=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    refusal = (
        f"<ErrorResponse><Error><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>"
    )

    def answer(path: str, authorization: str) -> tuple[int, bytes]:
        asked.append(authorization)
        if len(asked) == 1:
            return 200, _ROLE.format(key="FIRST", ends=ends).encode()
        return status, refusal.encode()

    with serving(answer) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        options = StorageOptions(
            s3_access_key_id="own",
            s3_secret_access_key="s",
            s3_region="eu-west-1",
            s3_assume_role_arn="arn:aws:iam::123456789012:role/collector",
        )
        with pytest.raises(error, match="renewing the credentials for s3://lake"):
            S3Credentials("lake", options).signing_key()


def test_a_service_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its absence is of the kind that a request is repeated for."""
    keys, now = Keys(seconds=30), [100.0]
    is_away = threading.Event()

    def answer(path: str, authorization: str) -> tuple[int, bytes]:
        return (500, b"") if is_away.is_set() else keys.answer()

    with serving(answer) as url:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/credentials")
        monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
        credentials = S3Credentials("lake", StorageOptions(), clock=lambda: now[0])
        credentials.signing_key()
        is_away.set()
        now[0] += 2
        with pytest.raises(StorageError) as caught:
            credentials.signing_key()
        assert caught.value.kind == TRANSIENT
        is_away.clear()
        assert credentials.signing_key().access_key.startswith("KEY")


def test_new_keys_that_have_ended_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service with a wrong clock is told apart from a bug of ours."""
    keys = Keys(seconds=-5)
    with serving(lambda path, authorization: keys.answer()) as url:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/credentials")
        with pytest.raises(StorageDeniedError, match="clock"):
            S3Credentials("lake", StorageOptions()).signing_key()
