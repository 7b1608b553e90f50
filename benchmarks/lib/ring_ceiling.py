"""The ceiling of steps made together: two bare processes that train, and reduce over one socket.

Each has one TensorFlow thread, half of MNIST, and the functions that a worker of ours has: the
optimizer's update and the gradients of the next batch, in one call. Between them is the bare ring.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tos_notebook.archive.runner import Runner
from tos_notebook.common.arrays import Array, Buffer

from .data import mnist
from .peers import Peer
from .ring_bare import BareRing

PROCESSES = 2

Train = Callable[[str, Buffer, int, int], float]


class RingCeiling:
    """Two bare processes; a context manager."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            with closing(socket.create_server(("127.0.0.1", 0))) as listener:
                ends = [socket.create_connection(listener.getsockname()), listener.accept()[0]]
            self._peers = [
                stack.enter_context(Peer(bare_steps, rank, end)) for rank, end in enumerate(ends)
            ]
            for end in ends:
                end.close()
            self._stack = stack.pop_all()

    def rate(self, archive: Path, initial: Buffer, batch_size: int, epochs: int) -> float:
        """Train and return samples per second of both together, without the first step.

        Parameters
        ----------
        archive : Path
            Of a program that was exported for gradients.
        initial : ndarray, shape (layout.nbytes,), uint8
            Its parameters.
        batch_size : int
            Of each process.
        epochs : int
        """
        for peer in self._peers:
            peer.start(str(archive), initial, batch_size, epochs)
        return PROCESSES * float(min([peer.result() for peer in self._peers]))

    def __enter__(self) -> RingCeiling:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


def bare_steps(rank: int, end: socket.socket) -> Train:
    """Return the function that one of the processes runs: samples per second of its own."""
    from tos_notebook.runtime.runner import TensorFlowRunner, configure_threads

    configure_threads(1)
    ring = BareRing(end, rank)
    columns = [column[rank::PROCESSES].copy() for column in mnist()[0]]
    random = np.random.default_rng(rank)
    loaded = cache(lambda archive: TensorFlowRunner(Path(archive)))

    def train(archive: str, initial: Buffer, batch_size: int, epochs: int) -> float:
        step = _stepping(loaded(archive), initial, ring, batch_size)
        buffers = [np.empty((batch_size, *c.shape[1:]), c.dtype) for c in columns]
        rows, ends = len(columns[0]), []
        for _ in range(epochs):
            order = random.permutation(rows)
            for start in range(0, rows, batch_size):
                index = order[start : start + batch_size]
                step([_gather(c, index, b) for c, b in zip(columns, buffers, strict=True)])
                ends.append(perf_counter())
        return (rows * epochs - min(batch_size, rows)) / (ends[-1] - ends[0])

    return train


def _stepping(
    runner: Runner, initial: Buffer, ring: BareRing, batch_size: int
) -> Callable[[list[Array]], None]:
    layout, updater = runner.spec.layout, runner.updater()
    parameters, gradients = layout.allocate(), layout.allocate()
    parameters[:] = initial
    vectors, means = layout.vectors(parameters), layout.vectors(gradients)
    into, held = (list(layout.tensors(buffer).values()) for buffer in (gradients, parameters))

    owed = False

    def step(columns: list[Array]) -> None:
        nonlocal owed
        both = runner.advance(vectors, means, columns, batch_size) if owed else None
        if both is None:
            if owed:
                _copy(updater.update(vectors, means), held)
            _copy(runner.train(vectors, columns, batch_size).parameters, into)
        else:
            _copy(both.parameters, vectors)
            _copy(both.gradients, means)
        for mean in means:
            ring.reduce(mean)
        owed = True

    return step


def _copy(arrays: Iterable[Array], targets: Iterable[Array]) -> None:
    for array, target in zip(arrays, targets, strict=True):
        np.copyto(target, array)


def _gather(column: Array, index: Array, buffer: Array) -> Array:
    return np.take(column, index, axis=0, out=buffer[: len(index)], mode="clip")
