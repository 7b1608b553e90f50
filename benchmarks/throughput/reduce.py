"""The mean of two processes' vectors, ours against a bare ring and TensorFlow's own collective.

Each of two processes has all three. They take turns in blocks, so that each pair of blocks has met
the same machine. The bare ring works in pieces and without allocating, as ours does, but has
neither frames nor weights. TensorFlow reduces with its `RING` over gRPC, in a compiled function.

    python -m benchmarks.throughput.reduce [--quick]
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection as Pipe
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from tos_notebook.reduction.mesh import Mesh, PeerListener
from tos_notebook.reduction.reducer import Reducer
from tos_notebook.reduction.schedules import ring
from tos_notebook.transport.auth import Secret
from tos_notebook.transport.base import Endpoint

from ..lib.harness import Row, milliseconds, program
from ..lib.multi_worker import free_port, multi_worker
from ..lib.processes import measured_by
from ..lib.ring_bare import BareRing, Floats

SECRET = Secret(b"only for this benchmark, loopback")
SIZES = {"31 kB": 31_400, "0.8 MB": 800_000, "4 MB": 4_000_000, "100 MB": 100_000_000}
GOALS = {"31 kB": (0.6, 10), "0.8 MB": (0.6, 2), "4 MB": (0.9, 2), "100 MB": (0.9, 2)}
"""Of the bare ring's speed, and of TensorFlow's."""
TLS_GOAL = 0.5
BLOCK = 0.05
"""Seconds, about, that each has before it is the other's turn."""

Side = Callable[[Floats], object]


@contextmanager
def _ours(rank: int, pipe: Pipe, tls: bool) -> Iterator[Side]:
    with closing(PeerListener(SECRET, Endpoint(tls=tls))) as listener:
        pipe.send(listener.here)
        with closing(Mesh(listener, rank, pipe.recv())) as mesh:
            mesh.form(30.0)
            reducer = Reducer(mesh, ring(2))
            yield lambda vector: reducer.reduce(vector, 1.0)


@contextmanager
def _bare(rank: int, pipe: Pipe) -> Iterator[Side]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        pipe.send(listener.getsockname())
        first, _ = pipe.recv()
        sock = socket.create_connection(first) if rank else listener.accept()[0]
    with closing(sock):
        yield BareRing(sock, rank).reduce


def _tensorflow(rank: int, ports: list[int]) -> Side:
    import tensorflow as tf

    strategy = multi_worker(rank, ports)

    def mean(vector: Any) -> Any:
        # Of its own device, which a function's argument does not have.
        replica, here = tf.distribute.get_replica_context(), tf.identity(vector)
        return replica.all_reduce(tf.distribute.ReduceOp.MEAN, here)

    compiled = tf.function(lambda vector: strategy.run(mean, args=(vector,)))
    tensors: dict[int, Any] = {}

    def reduce(vector: Floats) -> object:
        # What it reduces is a tensor already, as gradients are.
        tensor = tensors.setdefault(vector.size, tf.constant(vector))
        return compiled(tensor).numpy()

    return reduce


def _worker(rank: int, ports: list[int], rounds: int, pipe: Pipe) -> None:
    with (
        _ours(rank, pipe, False) as ours,
        _ours(rank, pipe, True) as tls,
        _bare(rank, pipe) as bare,
    ):
        sides = {"bare": bare, "ours": ours, "ours, TLS": tls, "TF": _tensorflow(rank, ports)}
        for nbytes in SIZES.values():
            vector = np.ones(nbytes // 4, np.float32)
            blocks = {name: _repeats(side, vector, ours) for name, side in sides.items()}
            found: dict[str, list[float]] = {name: [] for name in sides}
            for number in range(rounds):
                for name in list(sides)[:: 1 if number % 2 else -1]:
                    began = perf_counter()
                    for _ in range(blocks[name]):
                        sides[name](vector)
                    found[name].append((perf_counter() - began) / blocks[name])
            pipe.send(found)


def _repeats(side: Side, vector: Floats, agree: Side) -> int:
    """Return how often it reduces in a block; both processes have to agree."""
    for _ in range(3):
        began = perf_counter()
        side(vector)
        seconds = np.full(1, perf_counter() - began, np.float32)
        agree(seconds)
    return max(1, int(BLOCK / seconds[0]))


def _measured(rounds: int) -> list[dict[str, list[float]]]:
    """Return the seconds of each side's blocks, for each size."""
    ports = [free_port(), free_port()]
    return measured_by(_worker, 2, (ports, rounds), 3, len(SIZES))


def _row(what: str, goal: float, ours: list[float], other: list[float], name: str) -> Row:
    ratios = [theirs / mine for mine, theirs in zip(ours, other, strict=True)]
    parts = {
        "ours": milliseconds(median(ours)),
        name: milliseconds(median(other)),
        "range of the ratio": f"{min(ratios):.2f} to {max(ratios):.2f}",
    }
    return Row(what, median(ratios), "x", f">= {goal}", parts, len(ratios))


def run(quick: bool) -> list[Row]:
    """Compare at each size, in turns."""
    rows = []
    for (size, goals), found in zip(GOALS.items(), _measured(5 if quick else 21), strict=True):
        bare, ours, tls, tensorflow = found.values()
        what = f"mean of {size} of two"
        rows += [
            _row(f"{what}: ours / bare ring", goals[0], ours, bare, "bare"),
            _row(f"{what}: ours / TensorFlow's RING", goals[1], ours, tensorflow, "TensorFlow"),
            _row(f"{what}: over TLS / ours", TLS_GOAL, tls, ours, "plain TCP"),
        ]
    return rows


if __name__ == "__main__":
    program(run, __doc__)
