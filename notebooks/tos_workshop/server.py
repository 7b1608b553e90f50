"""The exercises of ``02_parameter_server.ipynb``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .exercise import exercise, expect

if TYPE_CHECKING:
    import pandas as pd

BYTES = 650 * 4
"""Of the notebook's parameters."""

WORKERS = 2

MILESTONES = 5
"""Of one worker in an epoch of 90 batches, at the exercise's sync interval of 20."""


@exercise("server.stale")
def stale(staleness: Any) -> str:
    """Look at the staleness of A's push: B, C and B pushed since A's pull."""
    expect(
        staleness is not None,
        "Go through the lines from A's pull to A's push. Which of them make a new version?",
    )
    expect(staleness != 2, "So many workers pushed meanwhile, but a version is made by each push.")
    expect(
        staleness != 4,
        "A's own push also makes a version, but only after it was merged; and a pull makes none.",
    )
    expect(staleness != 6, "A pull changes nothing: count the pushes only.")
    expect(staleness == 3, "Count the versions that were made between A's pull and A's push.")
    return (
        "Staleness counts pushes, no matter which worker sent them: A's change was computed "
        "from a center that three later pushes have moved."
    )


@exercise("server.recount")
def recount(function: Callable[[pd.DataFrame], Any], history: pd.DataFrame) -> str:
    """Look at a function that finds each milestone's staleness from versions and partitions."""
    found = function(history.drop(columns="staleness"))
    expect(
        found is not None,
        "The function returns nothing. Where did a worker get the parameters that it trained from?",
    )
    found, right = np.asarray(found, np.float64), history["staleness"].to_numpy()
    expect(
        found.shape == right.shape,
        f"Expected one number for each of the {len(right)} milestones, got shape {found.shape}.",
    )
    # A worker's first milestone has none before it to tell what it pulled.
    later = history.duplicated("partition").to_numpy()
    found, right = found[later], right[later]
    expect(
        not np.array_equal(found, right + 1),
        "All are too large by one: is the version that a push makes itself one of those between "
        "the pull and the push?",
    )
    steps = history["version"].diff().to_numpy()[later]
    expect(
        not any(np.array_equal(found, steps - own) for own in (0, 1)),
        "That compares a milestone with the one before it, no matter which worker sent that. "
        "Which milestone before it gave this worker its parameters?",
    )
    wrong = np.flatnonzero(found != right)
    expect(
        not len(wrong),
        f"{len(wrong)} of {len(right)} differ from what the server measured; the first one is "
        f"{found[wrong[:1]]} instead of {right[wrong[:1]]}.",
    )
    return (
        "A worker pulls in the same exchange in which it pushes, so its last version is the one "
        "it trains from. The versions in between came from others."
    )


@exercise("server.traffic")
def traffic(nbytes: Any) -> str:
    """Look at the bytes that one epoch takes with a milestone every 20 batches."""
    right = WORKERS * MILESTONES * 2 * BYTES
    expect(
        nbytes is not None,
        "How many batches has a worker's half of the images, and so how many milestones? What "
        "is sent at each of them, and which way?",
    )
    expect(nbytes != right / 1000, "That is in kB; the answer is asked for in bytes.")
    expect(nbytes != right / 4, "There are two workers, and parameters are sent both ways.")
    expect(
        nbytes != right / 2,
        "About half: did you count both workers, and the way back from the server as well?",
    )
    expect(
        nbytes != 2 * 4.5 * 2 * BYTES,
        "A milestone is also due when a worker's batches end, so you cannot count half of one.",
    )
    expect(
        nbytes != WORKERS * 18 * 2 * BYTES,
        "That is the traffic of the run above, with a milestone every 5 batches.",
    )
    expect(
        nbytes == right,
        "Milestones of both workers together, times what one exchange carries: all parameters up "
        "and all of them down.",
    )
    return (
        "Traffic is milestones times parameters, whatever the batches hold: a milestone four times "
        "as seldom saves nearly three quarters of it, and costs freshness."
    )
