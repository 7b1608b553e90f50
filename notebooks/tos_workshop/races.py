"""A race of combiners: sixteen simulated workers, of which one is broken and one is slow."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tos_notebook.combiners import as_combiner
from tos_notebook.errors import CombinerCheckFailed, TosError
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Push
from tos_notebook.testing import check_combiner

Array = npt.NDArray[np.float32]

WORKERS, PUSHES, EVERY = 16, 320, 8
"""How many workers there are, how often they push together, and how often the judge looks."""

SLOWER, BROKEN = 10.0, -20.0
"""How many times as long the slow worker takes; by what the broken one multiplies its change."""

BATCHES, ROWS, RATE = 5, 8, 1.0
"""Of a milestone: batches, rows of each, and the learning rate."""

TRACKS = (1, 2, 3)
"""Seeds. Each track has another broken and another slow worker."""

LAYOUT = Layout(
    [ParameterSpec("kernel", (64, 10), "float32"), ParameterSpec("bias", (10,), "float32")]
)


@dataclass(frozen=True)
class Digits:
    """Images of 64 pixels from 0 to 1, and their labels; some are for the judge alone."""

    x: Array
    y: npt.NDArray[np.int64]
    x_test: Array
    y_test: npt.NDArray[np.int64]


def race(*rules: Any) -> None:
    """Let combiners race, and print the points of each, the best first.

    Sixteen workers train softmax regression on digits, and push 320 times in all. One of them is
    broken: it sends its change times -20. One is slow: it takes ten times as long. The points are
    the percentage of test images that the center reads, on average from the first push to the last,
    over three tracks. Each track has another broken and another slow worker.

    Parameters
    ----------
    *rules : str, Combiner, type, or callable
        Combiners, as ``tos.combiners.as_combiner`` takes them. One that does not pass
        ``tos.testing.check_combiner`` gets no points.

    Raises
    ------
    CombinerError, ConfigError
        One of the rules is not a combiner.

    Examples
    --------
    >>> tos_workshop.race("dynsgd", "median")                             # doctest: +SKIP
    """
    results = [(*points(rule), as_combiner(rule).name) for rule in rules]
    for score, words, name in sorted(results, key=lambda result: -result[0]):
        print(f"{score:5.1f} points  {name}{words}")


def points(rule: Any) -> tuple[float, str]:
    """Return a rule's points, and in words what went wrong, if anything did."""
    as_combiner(rule)
    try:
        check_combiner(rule, models=5)
    except CombinerCheckFailed as failed:
        line = next(line for line in str(failed).splitlines() if line.startswith("  FAILED"))
        why = line.removeprefix("  FAILED").split(" (model:")[0].strip()
        return 0.0, f": it does not start. check_combiner finds: {why}"
    tracks = [_run(rule, seed) for seed in TRACKS]
    stopped = [words for _, words in tracks if words]
    return 100 * float(np.mean([share for share, _ in tracks])), stopped[0] if stopped else ""


def _run(rule: Any, seed: int) -> tuple[float, str]:
    """Return the mean share of test images that are read, and why the track ended early."""
    random = np.random.default_rng(seed)
    broken, slow = random.choice(WORKERS, 2, replace=False)
    combiner = as_combiner(rule)
    center = Center(LAYOUT, LAYOUT.allocate(), combiner)
    pulled = [center.read()] * WORKERS
    due = [(_takes(random, worker == slow), worker) for worker in range(WORKERS)]
    heapq.heapify(due)
    shares: list[float] = []
    for number in range(PUSHES):
        now, worker = heapq.heappop(due)
        parameters, version = pulled[worker]
        update = parameters.copy()
        # A bad rule makes the center so large that it overflows.
        with np.errstate(all="ignore"):
            _train(update, random)
        (before,), (after,) = LAYOUT.vectors(parameters), LAYOUT.vectors(update)
        change = (after - before) * (BROKEN if worker == broken else 1.0)
        after[...] = change if combiner.pushes == "delta" else before + change
        push = Push(worker, version, BATCHES, BATCHES * ROWS, WORKERS)
        try:
            merged = center.merge(update, push)
        except TosError as error:
            missing = PUSHES // EVERY - len(shares)
            return float(np.mean(shares + [0.0] * missing)), f": stopped by push {number}. {error}"
        # What the store leaves in the update is what the worker adopts.
        pulled[worker] = update, merged.version
        heapq.heappush(due, (now + _takes(random, worker == slow), worker))
        if number % EVERY == EVERY - 1:
            shares.append(_read(center.center))
    return float(np.mean(shares)), ""


def _takes(random: np.random.Generator, slow: bool) -> float:
    return random.exponential() * (SLOWER if slow else 1.0)


@cache
def _digits() -> Digits:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = (images / 16).astype(np.float32), labels.astype(np.int64)
    aside = np.random.default_rng(0).permutation(len(y))
    test, train = aside[:360], aside[360:]
    return Digits(x[train], y[train], x[test], y[test])


def _scores(parameters: Any, images: Array) -> Array:
    kernel, bias = LAYOUT.tensors(parameters).values()
    return np.asarray(images @ kernel + bias)


def _train(parameters: Any, random: np.random.Generator) -> None:
    """Take the steps of one milestone, in place."""
    digits = _digits()
    kernel, bias = LAYOUT.tensors(parameters).values()
    for rows in random.integers(len(digits.y), size=(BATCHES, ROWS)):
        logits = _scores(parameters, digits.x[rows])
        chance = np.exp(logits - logits.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        chance[np.arange(ROWS), digits.y[rows]] -= 1
        kernel -= RATE * digits.x[rows].T @ chance / ROWS
        bias -= RATE * chance.mean(axis=0)


def _read(parameters: Any) -> float:
    """Return the share of the test images that are read correctly."""
    digits = _digits()
    return float(np.mean(_scores(parameters, digits.x_test).argmax(axis=1) == digits.y_test))
