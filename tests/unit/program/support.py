"""Capture, export, load and train in this process: what a driver and a worker do, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tos_notebook.archive.runner import Trained
from tos_notebook.blocks.block import describe
from tos_notebook.blocks.sparse import SparseRows
from tos_notebook.common.arrays import Array
from tos_notebook.program.export.base import Program
from tos_notebook.runtime.runner import TensorFlowRunner, configure_threads
from tos_notebook.runtime.updater import TensorFlowUpdater

configure_threads(1)

Buffer = npt.NDArray[np.uint8]


def as_sparse(column: Array) -> SparseRows:
    """Return rows of vectors as a DataFrame's wide ones are held."""
    numbers, places = np.nonzero(column)
    ends = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=len(column)))])
    indices = places.astype(np.int32)
    return SparseRows(ends, indices, column[numbers, places], column.shape[1:])


class Lone:
    """A worker on its own: holds the parameters between the calls.

    Parameters
    ----------
    program : Program
    columns : ndarray, one per feed, shape (rows, ...)
    """

    def __init__(self, program: Program, *columns: Array) -> None:
        self.program = program
        self.columns = columns
        archive = program.export([(c.dtype, c.shape) for c in describe(columns)])
        self.runner = TensorFlowRunner(archive)
        self.buffer = program.read()

    def train(self, batch_size: int, columns: Sequence[Array] | None = None) -> Trained:
        vectors = self.program.layout.vectors(self.buffer)
        trained = self.runner.train(vectors, columns or self.columns, batch_size)
        self.program.layout.pack(trained.parameters, self.buffer)
        return trained

    @property
    def variables(self) -> Any:
        """What the loaded program keeps: its `parameters`, `local` and `optimizer_state`."""
        return self.runner._module

    @property
    def tensors(self) -> dict[str, Array]:
        """The present parameters, as copies."""
        return {k: v.copy() for k, v in self.program.layout.tensors(self.buffer).items()}


class Trainers:
    """Workers that compute gradients, and the optimizer that takes their mean, in this process.

    Parameters
    ----------
    program : Program
    columns : ndarray, one per feed, shape (rows, ...)
    on_worker : bool
        Whether the optimizer has the variables of what computes gradients, as on a worker; else
        the program is loaded twice.
    """

    def __init__(self, program: Program, *columns: Array, on_worker: bool = True) -> None:
        program = program.for_gradients()
        archive = program.export([(c.dtype, c.shape) for c in describe(columns)])
        self.layout = program.layout
        self.runner = TensorFlowRunner(archive)
        self.updater = self.runner.updater() if on_worker else TensorFlowUpdater.load(archive)
        self.buffer = program.read()

    def step(self, parts: Sequence[Sequence[Array]]) -> dict[str, float]:
        """Make one step with a batch of each worker."""
        mean, rows = self.layout.allocate(), sum(len(part[0]) for part in parts)
        vectors = self.layout.vectors(mean)
        values: dict[str, float] = {}
        for part in parts:
            trained = self.runner.train(self.layout.vectors(self.buffer), part, len(part[0]))
            own = self.layout.vectors(self.layout.pack(trained.parameters))
            for total, vector in zip(vectors, own, strict=True):
                total += vector * np.asarray(len(part[0]) / rows, vector.dtype)
            values = dict(trained.values)
        found = self.updater.update(self.layout.vectors(self.buffer), vectors)
        self.layout.pack(found, self.buffer)
        return values

    @property
    def tensors(self) -> dict[str, Array]:
        """The present parameters, as copies."""
        return {name: value.copy() for name, value in self.layout.tensors(self.buffer).items()}


def batches(columns: Sequence[Array], size: int) -> list[list[Array]]:
    """Cut rows into batches, the last one of what is left."""
    return [[c[i : i + size] for c in columns] for i in range(0, len(columns[0]), size)]


def assert_one_call_does_both(program: Program, columns: Sequence[Array], size: int) -> None:
    """Make steps in one call with the next gradients, and apart, and compare every bit."""
    apart, together = (Trainers(program, *columns) for _ in range(2))
    layout = together.layout
    mean = layout.allocate()
    vectors, means = layout.vectors(together.buffer), layout.vectors(mean)
    for number, batch in enumerate(batches(columns, size)):
        if number == 3:
            # As at the end of a milestone, where settings change.
            layout.pack(together.updater.update(vectors, means), together.buffer)
            if program.has_learning_rate:
                apart.runner.set_learning_rate(0.003)
                together.runner.set_learning_rate(0.003)
        if number in (0, 3):
            trained = together.runner.train(vectors, batch, size)
            values = trained.values
            layout.pack(trained.parameters, mean)
        else:
            both = together.runner.advance(vectors, means, batch, size)
            assert both is not None
            values = both.values
            made = [*both.parameters, *both.gradients]
            for target, array in zip([*vectors, *means], made, strict=True):
                target[...] = array
        np.testing.assert_array_equal(together.buffer, apart.buffer)
        assert apart.step([batch]) == values
    layout.pack(together.updater.update(vectors, means), together.buffer)
    np.testing.assert_array_equal(together.buffer, apart.buffer)
    for one, other in zip(together.updater.state(), apart.updater.state(), strict=True):
        np.testing.assert_array_equal(one, other)


def assert_same(found: Sequence[Any], expected: Sequence[Any], rtol: float = 1e-5) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-6)
