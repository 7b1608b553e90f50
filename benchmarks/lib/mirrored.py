"""TensorFlow's own way: a loop of one's own under `MultiWorkerMirroredStrategy`, two processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import Any

from .data import digits
from .models import network
from .multi_worker import free_port, multi_worker
from .peers import Peer

PROCESSES = 2


class Mirrored:
    """Two processes that train scikit-learn's digits; a context manager.

    Parameters
    ----------
    sizes : sequence of int
        The network's.
    batch_size : int
        Of each process.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int) -> None:
        with ExitStack() as stack:
            ports = [free_port() for _ in range(PROCESSES)]
            self._peers = [
                stack.enter_context(Peer(mirrored_steps, rank, ports, sizes, batch_size))
                for rank in range(PROCESSES)
            ]
            self._stack = stack.pop_all()

    def rate(self, steps: int) -> float:
        """Train and return steps per second, of both together one each time."""
        for peer in self._peers:
            peer.start(steps)
        return float(min([peer.result() for peer in self._peers]))

    def __enter__(self) -> Mirrored:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


def mirrored_steps(
    rank: int, ports: Sequence[int], sizes: Sequence[int], batch_size: int
) -> Callable[[int], float]:
    """Return the function that one of the processes runs: its steps per second."""
    import tensorflow as tf

    strategy = multi_worker(rank, ports)
    with strategy.scope():
        model = network(sizes, pixels=False)
        model.optimizer.build(model.trainable_variables)
    x, y = (tf.constant(column[rank::PROCESSES]) for column in digits()[0])
    starts = [tf.constant(start) for start in range(0, len(x) - batch_size + 1, batch_size)]

    def step(rows: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = model.compute_loss(y=labels, y_pred=model(rows, training=True))
            # Keras adds the gradients of all replicas up.
            scaled = loss / PROCESSES
        gradients = tape.gradient(scaled, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def together(start: Any) -> Any:
        batch = x[start : start + batch_size], y[start : start + batch_size]
        return strategy.run(step, args=batch)

    train = tf.function(together, autograph=False)

    def run(steps: int) -> float:
        train(starts[0])
        began = perf_counter()
        for number in range(steps):
            loss = train(starts[number % len(starts)])
        float(loss)
        return steps / (perf_counter() - began)

    return run
