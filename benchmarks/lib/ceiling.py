"""The ceiling: two bare processes side by side, without Spark and without an exchange.

Each has one TensorFlow thread and half of MNIST decoded in memory, gathers the same shuffled
rows into the same kind of buffer, and calls the same loop of `Model.train_step` in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from tos_notebook.common.arrays import Array, aligned_empty

from .data import mnist
from .models import network
from .peers import Peer

PROCESSES = 2


class Calls(NamedTuple):
    """When the calls of one process ended, on the machine's monotonic clock."""

    first: float
    last: float
    first_samples: int
    samples: int


class Ceiling:
    """Two bare processes; a context manager."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self._peers = [
                stack.enter_context(Peer(bare_loops, number)) for number in range(PROCESSES)
            ]
            self._stack = stack.pop_all()

    def rate(self, sizes: Sequence[int], steps: int, batch_size: int, epochs: int) -> float:
        """Train and return samples per second, of both together.

        Counted as ours are: from the end of the first call of all to the end of the last,
        without the first call's samples.

        Parameters
        ----------
        sizes : sequence of int
            The network's.
        steps : int
            Batches in one call of TensorFlow.
        batch_size, epochs : int
        """
        for peer in self._peers:
            peer.start(tuple(sizes), steps * batch_size, batch_size, epochs)
        calls = [peer.result() for peer in self._peers]
        earliest = min(calls)
        samples = sum(c.samples for c in calls) - earliest.first_samples
        return float(samples / (max(c.last for c in calls) - earliest.first))

    def __enter__(self) -> Ceiling:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


def bare_loops(number: int) -> Callable[[tuple[int, ...], int, int, int], Calls]:
    """Return the function that one of the processes runs."""
    from tos_notebook.runtime.runner import configure_threads

    configure_threads(1)
    columns = [column[number::PROCESSES].copy() for column in mnist()[0]]
    random = np.random.default_rng(number)
    traced = cache(lambda sizes, batch_size: train_function(network(sizes), batch_size))

    def run(sizes: tuple[int, ...], block: int, batch_size: int, epochs: int) -> Calls:
        train = traced(sizes, batch_size)
        buffers = [_buffer(column, block) for column in columns]
        rows, ends = len(columns[0]), []
        for _ in range(epochs):
            order = random.permutation(rows)
            for start in range(0, rows, block):
                index = order[start : start + block]
                train(*(_gather(c, index, b) for c, b in zip(columns, buffers, strict=True)))
                ends.append(perf_counter())
        return Calls(ends[0], ends[-1], min(block, rows), rows * epochs)

    return run


def _buffer(column: Array, rows: int) -> Array:
    shape = (rows, *column.shape[1:])
    nbytes = int(np.prod(shape)) * column.itemsize
    return aligned_empty(nbytes).view(column.dtype).reshape(shape)


def _gather(column: Array, index: Array, buffer: Array) -> Array:
    return np.take(column, index, axis=0, out=buffer[: len(index)], mode="clip")


def train_function(model: Any, batch_size: int) -> Callable[[Array, Array], float]:
    """Return a function that trains on rows, batch by batch, in one call of TensorFlow."""
    import tensorflow as tf

    model.optimizer.build(model.trainable_variables)

    def train(x: Any, y: Any) -> Any:
        rows = tf.shape(x)[0]
        model.reset_metrics()

        def one_step(start: Any) -> tuple[Any]:
            stop = tf.minimum(start + batch_size, rows)
            model.train_step((x[start:stop], y[start:stop]))
            return (stop,)

        tf.while_loop(
            lambda start: start < rows, one_step, (tf.constant(0),), parallel_iterations=1
        )
        # Once, after the last batch, as an exported program does: computed at every step it
        # would make this loop slower than ours, and no ceiling.
        return model.get_metrics_result()["loss"]

    specs = [tf.TensorSpec([None, model.inputs[0].shape[1]], tf.uint8)]
    specs += [tf.TensorSpec([None], tf.int64)]
    traced = tf.function(train, autograph=False, input_signature=specs).get_concrete_function()
    captured, wrap = list(traced.captured_inputs), tf.experimental.dlpack.from_dlpack

    def call(x: Array, y: Array) -> float:
        # Past what TensorFlow does about each call, as an exported program's.
        rows = wrap(x.__dlpack__()), wrap(y.__dlpack__())
        (loss,) = traced.inference_fn.call_flat(*rows, *captured)
        return float(loss.numpy())

    return call
