"""The lake as a process: an HTTP server over one ref store, with its upkeep beside it.

with LakeServer(data_dir=folder) as server:
    httpx.get(f"{server.endpoint}/repositories", auth=(server.access_key_id, server.secret_access_key))
"""

from __future__ import annotations

import gc
import logging
import secrets
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from lakesweep.errors import ConfigError
from lakesweep.lake.api.app import API_PATH, build_app
from lakesweep.lake.api.limits import RequestLimits
from lakesweep.lake.api.observing import AuditLog
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import ConflictError
from lakesweep.lake.folders import make_folder
from lakesweep.lake.format_version import check_format
from lakesweep.lake.kv.interface import KeyValueStore
from lakesweep.lake.kv.sqlite import SqliteKeyValueStore
from lakesweep.lake.lake import Lake
from lakesweep.lake.repeating import repeating
from lakesweep.lake.review_process import (
    REVIEW_SECONDS,
    Review,
    review_until_told,
    reviewing_elsewhere,
)
from lakesweep.lake.strangers import protocol_with
from lakesweep.lake.users.credentials import CredentialStore
from lakesweep.lake.values import Clock, Credentials, LakeSettings
from lakesweep.lake.workers import watch_parent

__all__ = [
    "LakeServer",
    "Serving",
    "open_credentials",
    "open_lake",
    "review_of",
    "serve_lake",
    "serve_worker",
    "set_up_first_user",
]

logger = logging.getLogger(__name__)

FIRST_USERNAME = "admin"
REFS_FILE_NAME = "refs.db"
_HOUSEKEEPING_SECONDS = 60.0
_START_SECONDS = 30.0
_GRACEFUL_STOP_SECONDS = 20
# Of one idle connection. Clients keep theirs open between calls; the default of five seconds loses races with them.
_KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class Serving:
    """How a server speaks to its clients, and what it records of them."""

    tls_cert: Path | None = None
    """A PEM file with the certificate and those that lead to its root; https is spoken with it, and http without."""
    tls_key: Path | None = None
    audit_log: Path | None = None
    limits: RequestLimits = field(default_factory=RequestLimits)
    pages: Callable[[Lake], ASGIApp] | None = None
    """Makes the pages for browsers. Workers are handed it, so it must be picklable."""

    def check(self) -> None:
        """Raise `ConfigError` when the certificate and its key can't be used."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError(
                "TLS needs both a certificate and its key; the lake was not started."
                " Give both --tls-cert and --tls-key, or neither."
            )
        if self.tls_cert is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_cert, self.tls_key)
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(
                    f"The certificate {self.tls_cert} can't be used with the key {self.tls_key}:"
                    f" {error.strerror or error}. The lake was not started; both are PEM files, the key without a"
                    " passphrase."
                ) from error


def utc_now() -> datetime:
    """The machine's clock."""
    return datetime.now(UTC)


def open_lake(settings: LakeSettings, db_url: str | None = None, clock: Clock = utc_now) -> Lake:
    """The lake in `settings.data_dir`; its ref store is a SQLite file there unless a URL names another."""
    settings = replace(settings, data_dir=settings.data_dir.absolute())
    make_folder(settings.data_dir, "The lake was not opened")
    close_to_others(settings.data_dir)
    return Lake(open_ref_store(settings.data_dir, db_url), settings, clock)


def close_to_others(folder: Path) -> None:
    """Make a folder its owner's alone: objects and secrets lie below it. `ConfigError` when that can't be done."""
    try:
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
            logger.warning("others could look into %s; now its owner alone can", folder)
    except OSError as error:
        raise ConfigError(
            f"{folder} is open to other users of this machine and can't be closed to them: {error.strerror}."
            f" The lake was not opened; `chmod 700 {folder}` as its owner."
        ) from error


def _opened(db_url: str) -> KeyValueStore:
    # Only here, since a server without a URL starts the sooner for it.
    from lakesweep.lake.kv.sql import open_sql_store

    return open_sql_store(db_url)


def open_ref_store(data_dir: Path, db_url: str | None) -> KeyValueStore:
    """The ref store of a lake, once its format is known to be ours."""
    store = _opened(db_url) if db_url else SqliteKeyValueStore(data_dir / REFS_FILE_NAME)
    try:
        check_format(store)
    except BaseException:
        store.close()
        raise
    return store


@contextmanager
def open_credentials(settings: LakeSettings, db_url: str | None) -> Iterator[CredentialStore]:
    """The keys of a lake that exists, whether or not it is being served."""
    data_dir = settings.data_dir.absolute()
    if db_url is None and not (data_dir / REFS_FILE_NAME).exists():
        raise ConfigError(
            f"There is no lake in {data_dir}, so nothing was done. `lakesweep serve --data {data_dir}` makes one."
        )
    store = open_ref_store(data_dir, db_url)
    try:
        yield CredentialStore(LakeContext(store, replace(settings, data_dir=data_dir), utc_now))
    finally:
        store.close()


def set_up_first_user(
    lake: Lake, access_key_id: str | None = None, secret_access_key: str | None = None
) -> Credentials | None:
    """The first user's credentials when this call made them, None when the lake has its keys already.

    Raises:
        ConfigError: half a key was given, or one that the lake does not have.
    """
    if (access_key_id is None) != (secret_access_key is None):
        raise ConfigError(
            "An access key needs both its id and its secret; no user was created. Give both or neither."
        )
    if not lake.credentials.is_initialized():
        try:
            return lake.credentials.setup_first_user(
                FIRST_USERNAME, access_key_id=access_key_id, secret_access_key=secret_access_key
            )
        except ConflictError:
            # Another process on the same ref store was quicker.
            pass
    # Looked up also when none was given: a key file that does not fit is better told now than to the first client.
    stored = lake.credentials.find(access_key_id or "")
    is_same = stored is not None and secrets.compare_digest(
        stored.secret_access_key.encode(), (secret_access_key or "").encode()
    )
    if access_key_id is not None and not is_same:
        raise ConfigError(
            f"The lake has its keys already, and {access_key_id} with the secret that was given is none of them."
            " Nothing was changed. Leave the given key out, or give one of the lake's own;"
            " `lakesweep keys rotate` makes a new one.",
            kind="other-key",
        )
    return None


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, so that the port is known (and ours) before the server starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns off Nagle's delay only for sockets that name it: without, a reply's
    # headers and body leave 40 ms apart.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Can't listen on {host} port {port}: {error.strerror}. The lake was not started;"
            " choose another with --host and --port."
        ) from error
    return listener


def url_of(listener: socket.socket, serving: Serving) -> str:
    """Where a client on this machine finds the server."""
    host, port = listener.getsockname()[:2]
    scheme = "http" if serving.tls_cert is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def serve_lake(
    lake: Lake,
    listener: socket.socket,
    *,
    announce: Callable[[], None],
    serving: Serving,
    review: Review | None,
) -> None:
    """Serve until the process is told to stop (SIGINT, SIGTERM); requests under way are finished first.

    SIGHUP opens the audit log anew, where there is one.

    Args:
        announce: called once a signal would stop the server in good order.
        review: what the process that reviews dropped objects does; None where another server does all upkeep.
    """
    with _opened_audit_log(serving) as audit_log:
        server = _uvicorn_server(lake, serving, audit_log)
        with (
            _reopened_on_hangup(audit_log),
            housekeeping(lake) if review is not None else nullcontext(),
            reviewing_elsewhere(lake.reviewer, review) if review is not None else nullcontext(),
            _stopped_by_signals(server),
        ):
            announce()
            watch_parent(partial(setattr, server, "should_exit", True))
            gc.freeze()  # What is here now stays: to look through it for garbage again and again is of no use.
            server.run(sockets=[listener])


def serve_worker(
    listener: socket.socket,
    keeps_house: bool,
    *,
    settings: LakeSettings,
    db_url: str | None,
    serving: Serving,
    set_up_logging: Callable[[], None],
) -> None:
    """Serve as one of several processes, with a lake of its own on the ref store that all of them share."""
    set_up_logging()
    lake = open_lake(settings, db_url)
    review = review_of(settings, db_url, set_up_logging) if keeps_house else None
    try:
        serve_lake(lake, listener, announce=lambda: None, serving=serving, review=review)
    finally:
        lake.close()


def review_of(
    settings: LakeSettings, db_url: str | None, set_up_logging: Callable[[], None]
) -> Review:
    """What a process does that reviews the dropped objects of a lake."""
    opened = partial(open_lake, settings, db_url)
    return partial(review_until_told, opened=opened, set_up_logging=set_up_logging)


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    # uvicorn handles these itself while it runs. Before that they would kill the process, and afterwards it sends
    # them once more, which would end the process before the lake is closed.
    def stop(_number: int, _frame: object) -> None:
        server.should_exit = True

    signals = (signal.SIGINT, signal.SIGTERM)
    earlier = [signal.signal(number, stop) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, earlier, strict=True):
            signal.signal(number, handler)


def housekeeping(
    lake: Lake, every_seconds: float = _HOUSEKEEPING_SECONDS
) -> AbstractContextManager[None]:
    """Run the lake's upkeep in a thread while the block lasts."""
    # What was not cleaned up stays protected; the next round tries again.
    return repeating("housekeeping", lake.housekeeping.run, every_seconds)


def reviewing(lake: Lake, every_seconds: float = REVIEW_SECONDS) -> AbstractContextManager[None]:
    """Review what lost its last reference, in a thread while the block lasts: by the lake's own clock."""
    return repeating("review", lake.reviewer.run, every_seconds)


class LakeServer:
    """A lake that serves inside this process, on a free loopback port unless told otherwise.

    `url` is the server's root (the S3 endpoint), `endpoint` the REST API's.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *,
        db_url: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        settings: LakeSettings | None = None,
        serving: Serving = Serving(),  # noqa: B008 (frozen)
        clock: Clock = utc_now,
    ) -> None:
        serving.check()
        settings = settings or LakeSettings(Path(data_dir))
        self._resources = ExitStack()
        self.lake = open_lake(replace(settings, data_dir=Path(data_dir)), db_url, clock)
        self._resources.callback(self.lake.close)
        try:
            made = set_up_first_user(self.lake, access_key_id, secret_access_key)
            if made is not None:
                access_key_id, secret_access_key = made.access_key_id, made.secret_access_key
            if access_key_id is None or secret_access_key is None:
                raise ConfigError(
                    f"The lake in {data_dir} has its user already, and secrets are shown once only."
                    " Pass its access_key_id and secret_access_key."
                )
            self.access_key_id = access_key_id
            self.secret_access_key = secret_access_key
            self._listener = self._resources.enter_context(bind(host, port))
            audit_log = self._resources.enter_context(_opened_audit_log(serving))
            self._server = _uvicorn_server(self.lake, serving, audit_log)
        except BaseException:
            self._resources.close()
            raise
        self.url = url_of(self._listener, serving)
        self.endpoint = self.url + API_PATH
        self._thread = threading.Thread(target=self._run, name="lake-server", daemon=True)
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        """Start serving; returns when requests are answered."""
        self._thread.start()
        self._wait_until_started()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Finish the requests under way, stop, and let go of the ref store."""
        self._server.should_exit = True
        self._thread.join()
        self._resources.close()

    def _run(self) -> None:
        with housekeeping(self.lake), reviewing(self.lake):
            self._server.run(sockets=[self._listener])

    def _wait_until_started(self) -> None:
        for _ in range(int(_START_SECONDS / 0.01)):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            self._ready.wait(0.01)
        raise RuntimeError(f"The lake's server on {self.url} did not start.")


@contextmanager
def _opened_audit_log(serving: Serving) -> Iterator[AuditLog | None]:
    if serving.audit_log is None:
        yield None
        return
    with closing(AuditLog(serving.audit_log)) as audit_log:
        yield audit_log


@contextmanager
def _reopened_on_hangup(audit_log: AuditLog | None) -> Iterator[None]:
    if audit_log is None:
        yield
        return
    earlier = signal.signal(signal.SIGHUP, lambda *_: audit_log.reopen())
    signal.pthread_sigmask(
        signal.SIG_UNBLOCK, [signal.SIGHUP]
    )  # in a worker it was blocked until now
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, earlier)


def _uvicorn_server(lake: Lake, serving: Serving, audit_log: AuditLog | None) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            build_app(
                lake,
                limits=serving.limits,
                audit_log=audit_log,
                pages=serving.pages(lake) if serving.pages is not None else None,
            ),
            http=protocol_with(serving.limits),
            loop="lakesweep.lake.connections:ImpatientLoop",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_GRACEFUL_STOP_SECONDS,
            ssl_certfile=serving.tls_cert,
            ssl_keyfile=serving.tls_key,
        )
    )
