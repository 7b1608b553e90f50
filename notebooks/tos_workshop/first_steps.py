"""The exercises of ``00_first_steps.ipynb``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .exercise import exercise, expect

if TYPE_CHECKING:
    import pandas as pd

BATCHES = 90
"""Of one worker in an epoch: 1437 images in two partitions, in batches of 8."""

WORKERS = 2


@exercise("first_steps.milestones")
def milestones(count: Any) -> str:
    """Look at the milestones of an epoch, at a sync interval of 5."""
    each = BATCHES // 5
    expect(
        count is not None,
        "Each worker has half of the images. How many batches of 8 are these, and how many "
        "groups of 5 batches?",
    )
    expect(count != each, "One worker has that many. How many workers are there?")
    expect(count != WORKERS * BATCHES, "That counts batches. A milestone comes every 5 batches.")
    expect(
        count == WORKERS * each,
        "Divide the images by the two workers, then by the batch size, then by the sync interval.",
    )
    return "Each worker reaches 18 milestones in an epoch, and the driver merges 36 updates."


@exercise("first_steps.interval")
def interval(batches: Any) -> str:
    """Look at the sync interval that gives each worker 10 milestones in an epoch."""
    expect(batches is not None, "A worker has 90 batches in an epoch.")
    expect(
        batches != 10,
        "A milestone every 10 batches makes 9 of them in 90 batches. You want 10 milestones.",
    )
    expect(batches == BATCHES // 10, "Divide the 90 batches of an epoch by the milestones.")
    return "90 batches in groups of 9 make 10 milestones. Try it: --sync-interval 9."


@exercise("first_steps.computing")
def computing(function: Callable[[pd.DataFrame], Any], history: pd.DataFrame) -> str:
    """Look at a function that finds the share of its time that each partition computed."""
    found = function(history)
    expect(
        found is not None,
        "The function returns nothing. The columns compute, wait and exchange hold seconds.",
    )
    times = history.groupby("partition")[["compute", "wait", "exchange"]].sum()
    right = (times["compute"] / times.sum(axis=1)).to_numpy()
    found = np.asarray(found, np.float64)
    expect(
        found.shape == right.shape,
        f"Expected one number for each of the {len(right)} partitions, got shape {found.shape}. "
        "Group the rows by partition first.",
    )
    expect(
        not np.allclose(found, times["compute"]),
        "These are seconds. Divide them by all seconds of the same partition.",
    )
    expect(np.allclose(found, right), "Divide compute by the sum of compute, wait and exchange.")
    return "What is missing to 1 is the price of exchanging and waiting."
