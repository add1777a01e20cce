"""How a process that Spark has started hands its part over to one that was there before: all it was given is passed on.

Only the standard library here: the process that hands over should be gone from the way at once.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import sys
from pathlib import Path

# Where the process that was started ahead listens.
SOCKET_VARIABLE = "LAKESWEEP_WORKERS_SOCKET"
_LENGTH = struct.Struct(">I")
_STREAMS = (0, 1, 2)
_TAKEN = b"+"


def hand_over() -> bool:
    """Give our arguments, environment and standard streams to the process that listens, and stay until it ends.

    False where there is none, where it has been given its part already, and where it ended before it took it.
    """
    path = os.environ.pop(SOCKET_VARIABLE, None)
    if path is None:
        return False
    sent = pickle.dumps((sys.argv[1:], dict(os.environ)))
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            socket.send_fds(connection, [_LENGTH.pack(len(sent))], _STREAMS)
            connection.sendall(sent)
            is_taken = connection.recv(1) == _TAKEN
        except OSError:
            return False
        if is_taken:
            connection.recv(1)  # nothing comes but the end
    return is_taken


def take_over(listener: socket.socket) -> socket.socket:
    """Take the place of the process that hands over: its arguments, its environment, its standard streams.

    Returns the connection, which tells the other that we are still there for as long as it is open.
    """
    connection, _ = listener.accept()
    # Nobody else can come: a second process does its part by itself.
    Path(listener.getsockname()).unlink()
    listener.close()
    header, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, len(_STREAMS))
    (length,) = _LENGTH.unpack(header)
    sent = bytearray()
    while len(sent) < length:
        more = connection.recv(length - len(sent))
        if not more:
            raise EOFError("the process that hands over ended half-way")
        sent += more
    arguments, environment = pickle.loads(sent)
    for stream, ours in zip(streams, _STREAMS, strict=True):
        os.dup2(stream, ours)
        os.close(stream)
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(environment)
    connection.sendall(_TAKEN)
    return connection
