"""ADAG on a large MLP (Hermans 2017, On Scalable Deep Learning and Parallelizing Gradient Descent).

A cell of the table takes 40 epochs, which are hours on few cores; with fewer, the numbers are
not comparable, and have no goal.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from tos_notebook.combiners import get

from ..lib.harness import Row
from .asynchronous import BATCH_SIZE, train
from .networks import Mnist, Network
from .report import Options, row, say

SIZES = (784, 1000, 2000, 1000, 10)
EPOCHS = 40
PUBLISHED = {(10, 10): 98.43, (20, 20): 98.47, (40, 10): 95.55}
"""Validation accuracy in percent, by workers and steps of a milestone."""
TOLERANCE = 0.5
"""Points by which the accuracy of a full cell may be off."""
TRIAL = 20
"""Batches from which the time of a cell is estimated."""


def seconds_of_a_step(network: Network, data: Mnist) -> float:
    """Return the time of one batch, exchanges left out."""
    (runner,) = network.runners(1)
    rows = tuple(column[: TRIAL * BATCH_SIZE].copy() for column in data.train)
    vectors = network.layout.vectors(network.initial(0))
    runner.train(vectors, rows, BATCH_SIZE)
    began = perf_counter()
    runner.train(vectors, rows, BATCH_SIZE)
    return (perf_counter() - began) / TRIAL


def cell_row(network: Network, data: Mnist, cell: tuple[int, int], epochs: int) -> Row:
    """Train one cell and return its accuracy."""
    workers, interval = cell
    began = perf_counter()
    found = train(network, data, get("adag"), workers, interval, epochs, seed=0)
    full = epochs == EPOCHS
    return row(
        f"MLP {'-'.join(map(str, SIZES))}, n={workers}, H={interval}: adag",
        found.accuracy,
        "%",
        published=f"{PUBLISHED[cell]} after {EPOCHS} epochs",
        setup=f"{epochs} epochs, B={BATCH_SIZE}, Adam 1e-3, seed 0, mean staleness "
        f"{found.staleness:.2f}, {perf_counter() - began:.0f} s",
        goal=f"± {TOLERANCE}" if full else "",
        within=abs(found.accuracy - PUBLISHED[cell]) <= TOLERANCE if full else None,
    )


def measure(options: Options) -> Iterator[Row]:
    """Say how long a cell will take, and train each; only the first if it has to be quick."""
    data = Mnist()
    network = Network(SIZES, "Adam", data.train)
    step = seconds_of_a_step(network, data)
    steps = options.epochs * len(data.train[0]) // BATCH_SIZE
    say(f"hermans: {1e3 * step:.0f} ms a batch, about {step * steps / 60:.0f} min a cell")
    for cell in list(PUBLISHED)[: 1 if options.quick else None]:
        yield cell_row(network, data, cell, options.epochs)
