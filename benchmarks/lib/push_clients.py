"""Clients of small pushes, as cheap as Python allows; see `benchmarks.latency.pushes`."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import ExitStack, closing
from time import perf_counter, process_time
from typing import Any

from tos_notebook.transport.auth import Secret
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.wire.frames import HEADER_SIZE, encode_head
from tos_notebook.wire.messages import Directive, Join, Joined, Poll, Proceed, Push, Reply

from . import push_server
from .exchange_bare import USED, buffers
from .serving import RUN

NBYTES = 31_400
END = 60.0
"""Seconds after which a measurement that does not end is given up."""
_PUSH = Push(0, 0, 10, 1000, 0, 0, True, 0.25, *USED, (0.9,))
HEAD = len(encode_head(_PUSH, 0, NBYTES))
"""Bytes of a push before its payload."""
_REPLY = len(encode_head(Reply(0, 0, "committed", Directive.GO, None), 0, NBYTES))


def _connect(kind: str, number: int, port: int, stack: ExitStack) -> tuple[socket.socket, int, int]:
    """Return a socket that may push now, the request's number before, and the version."""
    if kind == "bare":
        sock = stack.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock, 0, 0
    connection = connect_tcp("127.0.0.1", port, Secret(push_server.SECRET))
    stack.enter_context(closing(connection))
    pid, (_, parameters) = os.getpid(), buffers(NBYTES)
    join = Join(RUN, number, 0, pid, "127.0.0.1", pid, segment="", metrics=["accuracy"])
    joined, _ = connection.request(join, None, parameters)
    assert isinstance(joined, Joined)
    proceed, _ = connection.request(Poll(joined.settings_version), None, parameters)
    assert isinstance(proceed, Proceed)
    assert proceed.version is not None
    # Past the connection, which checks and unpacks answers: the server is to be measured.
    return connection._channel._sock, 2, proceed.version  # type: ignore[attr-defined]


def drive(kind: str, number: int, port: int, seconds: float, start: Any, pipe: Any) -> None:
    """Push for so many seconds; send how often, the seconds, and those of CPU.

    Parameters
    ----------
    kind : {"ours", "bare"}
        Of the server.
    number : int
        The partition.
    port : int
    seconds : float
    start : Barrier
        Waited for before and after.
    pipe : Connection
    """
    with ExitStack() as stack:
        sock, request, version = _connect(kind, number, port, stack)
        update, _ = buffers(NBYTES)
        head = bytearray(encode_head(_PUSH, 0, NBYTES))
        # An echo's answer is as long as the push; a reply says which version comes next.
        answer = memoryview(bytearray((HEAD if kind == "bare" else _REPLY) + NBYTES))
        put_request, put = struct.Struct(">I").pack_into, struct.Struct(">q")
        sequence = 0
        start.wait(END)
        began, cpu = perf_counter(), process_time()
        while (spent := perf_counter() - began) < seconds:
            request += 1
            put_request(head, 8, request)
            put.pack_into(head, HEADER_SIZE + 8, sequence)
            put.pack_into(head, HEADER_SIZE + 32, version)
            sock.sendmsg((head, update))
            got = sock.recv_into(answer, 0, socket.MSG_WAITALL)
            while 0 < got < len(answer):
                got += sock.recv_into(answer[got:], 0, socket.MSG_WAITALL)
            if kind != "bare":
                (version,) = put.unpack_from(answer, HEADER_SIZE)
            sequence += 1
        pipe.send((sequence, spent, process_time() - cpu))
        start.wait(END)
