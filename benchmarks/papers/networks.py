"""Captured networks: what the workers run, what they begin with, how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

import tos_notebook as tos
from tos_notebook.archive.runner import Runner
from tos_notebook.blocks.block import describe
from tos_notebook.common.arrays import Array
from tos_notebook.layout import Layout

from ..lib.data import Labelled, mnist
from ..lib.models import network


class Mnist:
    """MNIST, and the share of its test images that a network gets right."""

    def __init__(self) -> None:
        self.train, (x_test, self._labels) = mnist()
        self._images = x_test.astype(np.float32) / 255

    def accuracy(self, layout: Layout, parameters: npt.NDArray[np.uint8]) -> float:
        """Return the test accuracy of a ReLU network, its weights and biases in turns."""
        values = [*layout.tensors(parameters).values()]
        return float((guesses(values, self._images) == self._labels).mean())


def guesses(values: Sequence[Array], images: Array) -> npt.NDArray[np.int64]:
    """Return the classes that a ReLU network finds.

    Parameters
    ----------
    values : sequence of ndarray
        Weights and biases in turns.
    images : ndarray, shape (rows, inputs)
    """
    found = images
    for weights, biases in zip(values[:-2:2], values[1:-2:2], strict=True):
        found = np.maximum(found @ weights + biases, 0)
    guessed: npt.NDArray[np.int64] = (found @ values[-2] + values[-1]).argmax(axis=1)
    return guessed


class Network:
    """A network of `benchmarks.lib.models`, as the driver captures it and the workers load it.

    Parameters
    ----------
    sizes : sequence of int
    optimizer : {"SGD", "Adam"}
    columns : tuple of ndarray
        Data to train on, for its dtypes.
    initializer : str
        See `benchmarks.lib.models.network`.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        optimizer: str,
        columns: Labelled,
        initializer: str = "glorot_uniform",
    ) -> None:
        # With one thread each, simulations leave the other cores alone.
        from tos_notebook.runtime.runner import configure_threads

        configure_threads(1)
        self._model = partial(network, sizes, optimizer=optimizer, initializer=initializer)
        self._program = tos.capture(self._model())
        self._archive = self._program.export([(c.dtype, c.shape) for c in describe(columns)])
        self._runners: list[Runner] = []
        self.layout = self._program.layout

    def initial(self, seed: int) -> Array:
        """Return the parameters, packed, that Keras makes from a seed."""
        import keras

        keras.utils.set_random_seed(seed)
        return tos.capture(self._model()).read()

    def runners(self, count: int) -> list[Runner]:
        """Return runners as good as new, each with optimizer state of its own."""
        from tos_notebook.runtime.runner import TensorFlowRunner

        while len(self._runners) < count:
            self._runners.append(TensorFlowRunner(self._archive))
        for runner in self._runners[:count]:
            runner.reset()
        return self._runners[:count]
