"""What the original's program must reach, computed with numpy alone.

The machine decides in which order the workers' milestones reach the server, and the accuracy
depends on that order: from 0.81 to 0.92 on MNIST, over 479 random ones. So a program's own order
is replayed, over rows dealt out at random. How far the accuracies of such deals are apart depends
on the order, too: over 22 orders the standard deviations were 0.002 to 0.010. So it is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tos_notebook.common.arrays import Array
from tos_notebook.demo import Digits, mnist

RATE = 0.5
"""The program's learning rate."""

DEALS = 6
"""How often rows are dealt out, for a mean and a standard deviation."""


def expected(
    folder: Path, batch_size: int, epochs: Sequence[Sequence[Mapping[str, Any]]]
) -> tuple[float, float]:
    """Train as the program did, with several deals; return what it reaches on the test images.

    Parameters
    ----------
    folder : Path
        Of the IDX files.
    batch_size : int
    epochs : sequence of sequence of mapping
        The milestones of each, in the order of their versions: partition, samples, version and
        staleness.

    Returns
    -------
    mean, spread : float
        Of the accuracies, and how far from the mean the program's own may be: five standard
        deviations, and 0.03 at least.
    """
    digits = mnist(folder)
    chances = np.random.default_rng(0).spawn(DEALS)
    found = [_accuracy(digits, batch_size, epochs, chance) for chance in chances]
    return float(np.mean(found)), max(0.03, 5 * float(np.std(found, ddof=1)))


def _accuracy(
    found: Digits,
    batch_size: int,
    epochs: Sequence[Sequence[Mapping[str, Any]]],
    chance: np.random.Generator,
) -> float:
    images, labels = found.train[0].astype(np.float32) / 255, np.eye(10)[found.train[1]]
    center = np.zeros((785, 10), np.float32)
    for milestones in epochs:
        held = Counter[int]()
        for milestone in milestones:
            held[milestone["partition"]] += milestone["samples"]
        deal = np.split(chance.permutation(len(images)), np.cumsum([held[0]]))
        used, versions = Counter[int](), [center]
        for milestone in milestones:
            partition, samples = milestone["partition"], milestone["samples"]
            rows = deal[partition][used[partition] :][:samples]
            used[partition] += samples
            pulled = versions[milestone["version"] - 1 - milestone["staleness"]]
            trained = _trained(pulled, images[rows], labels[rows], batch_size)
            versions.append(versions[-1] + trained - pulled)
        center = versions[-1]
    tested = found.test[0].astype(np.float32) / 255 @ center[:-1] + center[-1]
    return float((tested.argmax(axis=1) == found.test[1]).mean())


def _trained(center: Array, images: Array, labels: Array, batch_size: int) -> Array:
    weights = center.copy()
    for start in range(0, len(images), batch_size):
        x, y = images[start : start + batch_size], labels[start : start + batch_size]
        scores = x @ weights[:-1] + weights[-1]
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        error = (likely / likely.sum(axis=1, keepdims=True) - y) * (RATE / len(x))
        weights[:-1] -= x.T @ error
        weights[-1] -= error.sum(axis=0)
    return weights
