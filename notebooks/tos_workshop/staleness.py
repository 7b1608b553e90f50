"""Exercises about combiners and staleness: a rule, what it does in a round, how fast to go."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tos_notebook.combiners import DynSGD, PushInfo
from tos_notebook.theory import stability_bound

from .exercise import exercise, expect

ALONE = 0.8
"""The largest stable learning rate of one worker, in the exercise's text."""

WORKERS = 8


@exercise("staleness.dynsgd")
def dynsgd(theirs: Callable[[Any, Any, PushInfo], Any]) -> str:
    """Look at a rule that should merge as `DynSGD` does."""
    center, update = np.array([[1.0, -2.0, 0.5]]), np.array([[4.0, 8.0, -12.0]])

    def merged(staleness: int) -> Any:
        push = PushInfo(0, staleness, steps=10, samples=160, workers=2, pushes=100)
        before = center.copy(), update.copy()
        new = theirs(*before, push)
        expect(new is not None, "merge returns None: let it return the new center.")
        return np.asarray(new)

    fresh = merged(0)
    expect(fresh.shape == center.shape, f"Expected an array of shape (1, 3), got {fresh.shape}.")
    expect(
        not np.array_equal(fresh, update),
        "A fresh update is added to what is there; this puts it in the center's place.",
    )
    expect(
        np.isfinite(fresh).all() and np.allclose(fresh, center + update),
        "A fresh update, of staleness 0, counts in full: the center moves by all of it.",
    )
    expect(
        not np.allclose(merged(4), center + update),
        "The staleness makes no difference yet: push.staleness has it.",
    )
    rule = DynSGD()
    for staleness in (1, 4, 9):
        push = PushInfo(0, staleness, steps=10, samples=160, workers=2, pushes=100)
        right, _ = rule.propose("", center, update, push)
        expect(
            np.allclose(merged(staleness), right),
            f"At staleness {staleness} the share that is merged is not that of dynsgd. Look at "
            "its row in the table above, from left to right.",
        )
    return (
        "A function like this is a combiner: run.swap_combiner(merge) trains with it. A stale "
        "update is not wrong: it was made for a place that the center has left, so it counts less."
    )


@exercise("staleness.round")
def one_round(theirs: Callable[[int], Any]) -> str:
    """Look at how far a round of n workers moves the center by two rules."""
    found = {n: theirs(n) for n in (1, 2, 8)}
    expect(
        all(pair is not None and len(pair) == 2 and None not in pair for pair in found.values()),
        "Return two numbers, for downpour and for dynsgd.",
    )
    downpour, dynsgd = ({n: pair[at] for n, pair in found.items()} for at in (0, 1))
    expect(downpour[1] == dynsgd[1] == 1, "With one worker nothing is stale: both move by 1.")
    expect(
        downpour == {n: n for n in found},
        "downpour adds all that comes, whatever its staleness. What comes in one round?",
    )
    expect(
        dynsgd[8] != 1 / 8,
        "dynsgd: that is what one push moves the center by. A round has as many as there are "
        "workers.",
    )
    expect(
        dynsgd != downpour,
        "dynsgd divides each push by its staleness + 1. Which staleness has each of them here?",
    )
    expect(
        all(math.isclose(value, 1) for value in dynsgd.values()),
        "dynsgd: what becomes of one push, and how many of them are there in a round?",
    )
    return (
        "With downpour a round of n workers is a step n times as long. With dynsgd it is their "
        "mean, as with a barrier and fedavg, but no worker waits."
    )


@exercise("staleness.rate")
def rate(theirs: float) -> str:
    """Look at the largest stable learning rate of many workers."""
    expect(theirs is not None, "rate is None: put a number, or what computes it, there.")
    value = float(theirs)
    share = stability_bound(WORKERS - 1) / stability_bound(0)
    near = {
        stability_bound(WORKERS - 1): (
            "This is the bound of learning rate times curvature. You do not know the curvature. "
            "But one worker is stable up to 0.8, so compare the two bounds."
        ),
        ALONE / WORKERS: (
            "This is the learning rate, divided by the number of workers: of the right size, but "
            "a little too bold. The bound does not fall exactly like 1/n."
        ),
        ALONE * stability_bound(WORKERS) / stability_bound(0): (
            "Close: which staleness do 8 workers cause? One of the 8 is the one that pushes."
        ),
        ALONE: "This is what one worker alone takes. Its updates are never stale.",
    }
    for wrong, hint in near.items():
        expect(not math.isclose(value, wrong, rel_tol=0.01), hint)
    expect(
        math.isclose(value, ALONE * share, rel_tol=0.02),
        "Take tos.theory.stability_bound at the staleness of one worker, and of 8, and compare.",
    )
    return (
        f"About a tenth of {ALONE}. If you add workers and keep the learning rate, you cross the "
        "bound in the end, unless the combiner makes stale updates smaller."
    )
