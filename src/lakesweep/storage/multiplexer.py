"""Many HTTP requests in flight from one thread.

Threads that each wait for one small answer spend more CPU on waking each other than on their requests (design note 046).
Only plain answers are read here. Whatever else a request meets (a refused connection, a broken answer, a wait that is too
long) comes out as None, for the caller to ask in a way that tries again and can name the error.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from lakesweep.storage.http_answer import Answer, AnswerReader, BrokenAnswerError

_RECEIVED_AT_ONCE = 1 << 17
_CHECKED_EVERY_SECONDS = 1.0
# A firewall may forget an idle connection without a word; a request on it would wait for its whole timeout.
LONGEST_IDLE_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class Connection:
    """A connection that has one request under way, or none."""

    socket: socket.socket
    fd: int
    address: Any  # of the host, which may have several
    is_up: bool = False  # connected, and past the handshake of TLS
    events: int = 0  # what a selector waits for
    idle_since: float = 0.0
    deadline: float = 0.0
    tag: int = 0
    to_send: bytes = b""
    answer: AnswerReader | None = None  # None: no request is under way


class Multiplexer:
    """Keeps requests under way on connections to one host, one at a time on each. For one thread."""

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext | None,
        connect_timeout: float,
        request_timeout: float,
        idle: deque[Connection],
        unreachable: set[Any],
    ) -> None:
        """Connections are taken from `idle` first, and go there in the end, if they are good for more requests.

        Addresses of the host that are `unreachable` are tried last; what is found out of them is noted there.
        """
        self._address, self._tls, self._idle = address, tls, idle
        self._unreachable = unreachable
        self._connect_timeout, self._request_timeout = connect_timeout, request_timeout
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._free: list[Connection] = []
        self._done: list[tuple[int, Answer | None]] = []
        self._resolved: list[tuple[socket.AddressFamily, Any]] | None = None
        self._reached: set[Any] = set()
        self._checked_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._selector.close()
        for connection in self._connections.difference(self._free):
            connection.socket.close()
        for connection in self._free:
            connection.events = 0
            connection.idle_since = time.monotonic()
            self._idle.append(connection)

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._connections) - len(self._free) + len(self._done)

    def send(self, tag: int, request: bytes, *, is_head: bool = False) -> None:
        """Begin a request, given by all its bytes. Its answer will come with the tag."""
        try:
            connection = self._free.pop() if self._free else self._opened()
        except OSError:
            self._done.append((tag, None))
            return
        connection.tag, connection.to_send = tag, request
        connection.answer = AnswerReader(is_head=is_head)
        patience = self._request_timeout if connection.is_up else self._connect_timeout
        connection.deadline = time.monotonic() + patience
        if connection.is_up:
            self._go_on(connection, self._sent)

    def wait(self) -> list[tuple[int, Answer | None]]:
        """The next answers by their tags, in any order; None is that of a request which got no plain one.

        Empty where no request is under way.
        """
        while not self._done and self.in_flight:
            for key, _ in self._selector.select(_CHECKED_EVERY_SECONDS):
                self._go_on(key.data, self._exchanged)
            self._end_overdue()
        done, self._done = self._done, []
        return done

    def _opened(self) -> Connection:
        """An idle connection, or a new one that is not up yet."""
        while self._idle:
            with suppress(IndexError):  # another thread took it
                connection = self._idle.pop()
                if time.monotonic() - connection.idle_since < LONGEST_IDLE_SECONDS:
                    self._connections.add(connection)
                    self._watch(connection, selectors.EVENT_READ)
                    return connection
                connection.socket.close()
        family, address = self._next_address()
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(BlockingIOError):
                opened.connect(address)
        except BaseException as error:
            opened.close()
            if isinstance(error, OSError):
                self._note_unreachable(address)
            raise
        connection = Connection(opened, opened.fileno(), address)
        self._connections.add(connection)
        self._watch(connection, selectors.EVENT_WRITE)
        return connection

    def _next_address(self) -> tuple[socket.AddressFamily, Any]:
        """Where to connect to: one that can be reached, as far as anybody knows."""
        if self._resolved is None:
            found = socket.getaddrinfo(*self._address, type=socket.SOCK_STREAM)
            self._resolved = sorted(
                ((one[0], one[4]) for one in found), key=lambda one: one[1] in self._unreachable
            )
        if not self._resolved:
            raise ConnectionRefusedError("no address of the host can be reached")
        return self._resolved[0]

    def _note_unreachable(self, address: Any) -> None:
        """Try another address from now on, if none of this one's connections ever came up."""
        if address not in self._reached and self._resolved is not None:
            self._unreachable.add(address)
            self._resolved = [one for one in self._resolved if one[1] != address]

    def _go_on(self, connection: Connection, step: Callable[[Connection], Answer | None]) -> None:
        """Do what can be done at once; what comes of it is noted."""
        try:
            answer = step(connection)
        except ssl.SSLWantReadError:
            self._watch(connection, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(connection, selectors.EVENT_WRITE)
        except BlockingIOError:
            is_sending = bool(connection.to_send)
            self._watch(connection, selectors.EVENT_WRITE if is_sending else selectors.EVENT_READ)
        except (OSError, ValueError, BrokenAnswerError):
            self._drop(connection)
        else:
            self._watch(connection, selectors.EVENT_READ)
            if answer is not None:
                self._finish(connection, answer)

    def _sent(self, connection: Connection) -> None:
        """Send what is left of the request."""
        while connection.to_send:
            sent = connection.socket.send(connection.to_send)
            connection.to_send = connection.to_send[sent:]

    def _exchanged(self, connection: Connection) -> Answer | None:
        """Connect, send and receive as far as it goes; the answer once it is whole."""
        if not connection.is_up:
            self._bring_up(connection)
        if connection.to_send:
            self._sent(connection)
            return None
        connection.deadline = time.monotonic() + self._request_timeout
        while True:
            data = connection.socket.recv(_RECEIVED_AT_ONCE)
            if not data:
                raise ConnectionResetError
            if connection.answer is None:
                raise BrokenAnswerError("bytes that nobody asked for")
            answer = connection.answer.take(data)
            # What TLS has decrypted already wakes no selector.
            if answer is not None or self._tls is None:
                return answer

    def _bring_up(self, connection: Connection) -> None:
        if error := connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "not connected")
        if self._tls is not None:
            if not isinstance(connection.socket, ssl.SSLSocket):
                connection.socket = self._tls.wrap_socket(
                    connection.socket,
                    server_hostname=self._address[0],
                    do_handshake_on_connect=False,
                )
            connection.socket.do_handshake()
        connection.is_up = True
        self._reached.add(connection.address)
        self._unreachable.discard(connection.address)
        connection.deadline = time.monotonic() + self._request_timeout

    def _watch(self, connection: Connection, events: int) -> None:
        if connection.events == events:
            return
        change = self._selector.modify if connection.events else self._selector.register
        change(connection.fd, events, connection)
        connection.events = events

    def _finish(self, connection: Connection, answer: Answer) -> None:
        self._done.append((connection.tag, answer))
        is_last = connection.answer is not None and connection.answer.is_last
        connection.answer = None
        self._free.append(connection)
        if is_last:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        """Hang up. A request that was under way has no answer."""
        if not connection.is_up:
            self._note_unreachable(connection.address)
        if connection.answer is not None:
            self._done.append((connection.tag, None))
        else:
            self._free.remove(connection)
        self._connections.discard(connection)
        self._selector.unregister(connection.fd)
        connection.socket.close()

    def _end_overdue(self) -> None:
        now = time.monotonic()
        if now - self._checked_at < _CHECKED_EVERY_SECONDS:
            return
        self._checked_at = now
        for connection in self._connections.difference(self._free):
            if now > connection.deadline:
                self._drop(connection)
