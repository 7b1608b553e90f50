"""An exchange (push, combine, pull) over our transport against a bare TCP echo of its bytes.

Two client processes, one server process, which sends back the bytes that it got. What is small, one
thread answers for all clients; what is large, a thread for each, since the interpreter's lock is
free while the kernel copies. So the bare side is what sockets can do: it merges nothing, copies
nothing and checks nothing.

    python -m benchmarks.lib.exchange_bare [--bytes N] [--seconds S] [--rounds R]
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, contextmanager
from multiprocessing.connection import Connection as Pipe
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tos_notebook.common.arrays import aligned_empty
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.strategies.ps.peer_replica import BRIEF_BYTES
from tos_notebook.transport.base import BytesLike
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.transport.listener import TcpListener
from tos_notebook.wire.messages import Answer, Directive, Join, Push, Reply, Request

from .push_server import echo

CLIENTS = 2
SIZES = {"31 kB": 31_400, "4 MB": 4_000_000, "100 MB": 100_000_000}
WARM_UP = 3
USED = 0.01, 0.0, 1e-4, 0.9, 400_000
"""Times, cores and memory in each push."""
_SECRET = b"only for this benchmark, loopback"
_END = 120.0
"""Seconds after which a measurement that does not end is given up."""

Bytes = npt.NDArray[np.uint8]
Exchange = Callable[[], None]


class Side(Protocol):
    """One side of a comparison; must pickle, since it runs in other processes."""

    def serve(self, nbytes: int) -> AbstractContextManager[int]:
        """Serve while the context is open, which gives the port."""
        ...

    def connect(self, nbytes: int, port: int) -> AbstractContextManager[Exchange]:
        """Connect while the context is open, which gives a function for one exchange."""
        ...


def buffers(nbytes: int) -> tuple[Bytes, Bytes]:
    """Return two zeroed buffers."""
    first, second = aligned_empty(nbytes), aligned_empty(nbytes)
    first[:] = second[:] = 0
    return first, second


class Bare:
    """Raw sockets, no frames, no checks: what the machine can do."""

    @contextmanager
    def serve(self, nbytes: int) -> Any:
        listener = socket.create_server(("127.0.0.1", 0))
        serve = echo if nbytes <= BRIEF_BYTES else self._accept
        with closing(listener):
            arguments = listener, nbytes, CLIENTS
            threading.Thread(target=serve, args=arguments, daemon=True).start()
            yield listener.getsockname()[1]

    def _accept(self, listener: socket.socket, nbytes: int, clients: int) -> None:
        for _ in range(clients):
            sock, _address = listener.accept()
            threading.Thread(target=self._echo, args=(sock, nbytes), daemon=True).start()

    def _echo(self, sock: socket.socket, nbytes: int) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        update, _ = buffers(nbytes)
        with closing(sock):
            while _receive(sock, update):
                sock.sendall(update)

    @contextmanager
    def connect(self, nbytes: int, port: int) -> Any:
        update, parameters = buffers(nbytes)
        with closing(socket.create_connection(("127.0.0.1", port))) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def exchange() -> None:
                sock.sendall(update)
                _receive(sock, parameters)

            yield exchange


def _receive(sock: socket.socket, target: Bytes) -> bool:
    view, got = memoryview(target), 0
    while got < view.nbytes:
        part = sock.recv_into(view[got:], 0, socket.MSG_WAITALL)
        if not part:
            return False
        got += part
    return True


class Transport:
    """Our transport, with the least that a server can do."""

    @contextmanager
    def serve(self, nbytes: int) -> Any:
        listener = TcpListener(lambda peer: EchoHandler(nbytes), _SECRET)
        with closing(listener):
            listener.start()
            yield listener.address.port

    @contextmanager
    def connect(self, nbytes: int, port: int) -> Any:
        update, parameters = buffers(nbytes)
        with closing(connect_tcp("127.0.0.1", port, _SECRET)) as connection:
            sequence = 0

            def exchange() -> None:
                nonlocal sequence
                sequence += 1
                push = Push(0, sequence, 10, 1000, sequence, 1, True, 0.25, *USED, (0.9,))
                connection.request(push, update, into=parameters)

            yield exchange


class EchoHandler:
    """Replies with what came."""

    def __init__(self, nbytes: int) -> None:
        self._update, _ = buffers(nbytes)
        self._view = memoryview(self._update)
        self.brief, self.needed = nbytes <= BRIEF_BYTES, True
        self._version = 0

    def receive_into(self, message: Request, nbytes: int) -> memoryview | None:
        """Take an update of the center's size."""
        if isinstance(message, Join) or nbytes != self._update.nbytes:
            raise RemoteProtocolError(f"Expected {self._update.nbytes} bytes, got {nbytes}.")
        return self._view

    def handle(
        self, message: Request, payload: memoryview | None
    ) -> tuple[Answer, BytesLike | None]:
        """Do what the bare echo does."""
        self._version += 1
        return Reply(self._version, 1, "committed", Directive.GO, None), self._update

    def closed(self, error: Exception | None) -> None:
        """Nothing to give back."""


def _serve(side: Side, nbytes: int, pipe: Pipe) -> None:
    with side.serve(nbytes) as port:
        pipe.send(port)
        pipe.recv()


def _drive(side: Side, nbytes: int, port: int, seconds: float, start: Any, pipe: Pipe) -> None:
    with side.connect(nbytes, port) as exchange:
        for _ in range(WARM_UP):
            exchange()
        start.wait(_END)
        count, began = 0, perf_counter()
        while (spent := perf_counter() - began) < seconds:
            exchange()
            count += 1
        pipe.send(count / spent)


def measure(side: Side, nbytes: int, seconds: float) -> float:
    """Return the exchanges per second of all clients together.

    Parameters
    ----------
    side : Side
        What to measure.
    nbytes : int
        Length of an update and of a reply.
    seconds : float
        How long to measure.
    """
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(CLIENTS)
    server_pipe, server_end = context.Pipe()
    server = context.Process(target=_serve, args=(side, nbytes, server_end), daemon=True)
    server.start()
    port = _take(server_pipe)
    pipes, clients = [], []
    for _ in range(CLIENTS):
        pipe, end = context.Pipe()
        arguments = (side, nbytes, port, seconds, start, end)
        client = context.Process(target=_drive, args=arguments, daemon=True)
        client.start()
        pipes.append(pipe)
        clients.append(client)
    rates = [_take(pipe) for pipe in pipes]
    server_pipe.send(None)
    for process in (*clients, server):
        process.join(_END)
    return float(sum(rates))


def _take(pipe: Pipe) -> Any:
    if not pipe.poll(_END):
        raise TimeoutError(f"Expected a process to report within {_END} s.")
    return pipe.recv()


def measure_bare(nbytes: int, seconds: float) -> float:
    """Return the bare echo's exchanges per second."""
    return measure(Bare(), nbytes, seconds)


def measure_transport(nbytes: int, seconds: float) -> float:
    """Return our transport's exchanges per second."""
    return measure(Transport(), nbytes, seconds)


def compare(side: Side, nbytes: int, seconds: float, rounds: int) -> tuple[float, float, float]:
    """Measure `side` and the bare echo in turns.

    Returns
    -------
    bare, ours, ratio : float
        Medians over the rounds: exchanges per second, and of the ratios ours / bare.
    """
    pairs = [(measure_bare(nbytes, seconds), measure(side, nbytes, seconds)) for _ in range(rounds)]
    bare, ours = (median(column) for column in zip(*pairs, strict=True))
    return bare, ours, median(mine / theirs for theirs, mine in pairs)


def main() -> None:
    """Print a line per size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, help="one size instead of 31 kB, 4 MB and 100 MB")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sizes = {f"{options.bytes} B": options.bytes // 4 * 4} if options.bytes else SIZES
    for name, nbytes in sizes.items():
        bare, ours, ratio = compare(Transport(), nbytes, options.seconds, options.rounds)
        speeds = [f"{rate:9.0f}/s {rate * 2 * nbytes / 1e9:5.2f} GB/s" for rate in (bare, ours)]
        print(f"{name:>8}  bare {speeds[0]}   ours {speeds[1]}   ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
