"""Exercises about sync modes: who waits, how long it takes, how stale it gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tos_notebook.steering.sync import as_sync

from .exercise import exercise, expect

if TYPE_CHECKING:
    from tos_notebook.training.run import Run


@exercise("modes.waits")
def waits(theirs: Callable[[Sequence[int], int | None], Any]) -> str:
    """Look at the list of workers that must wait."""

    def found(clocks: list[int], slack: int | None) -> Any:
        answer = theirs(list(clocks), slack)
        expect(answer is not None, "waits returns None: let it return a list of workers' numbers.")
        return sorted(answer)

    expect(
        found([3, 3], 0) == [],
        "With clocks [3, 3] no worker is ahead of another, so none waits, in any mode.",
    )
    expect(
        found([7, 4, 5], 2) == [0],
        "With clocks [7, 4, 5] and slack 2 only worker 0 waits. Compare each worker with the "
        "slowest one, and return numbers of workers, not clocks.",
    )
    expect(
        found([5, 3], 2) == [],
        "With clocks [5, 3] and slack 2 none waits: one may be as far ahead as the slack says.",
    )
    expect(found([9, 9, 1], 3) == [0, 1], "With clocks [9, 9, 1] and slack 3, two workers wait.")
    expect(found([100, 0], None) == [], "A slack of None is asp.")
    return (
        "The slowest worker alone decides, so it never waits itself. Whatever the slack, one "
        "worker can always continue, and the modes cannot deadlock."
    )


@exercise("modes.seconds")
def seconds(theirs: Callable[[Any], Any]) -> str:
    """Look at how long the two extremes take."""
    # Whole numbers, so that the order of a sum does not matter.
    compute = np.random.default_rng(0).integers(1, 9, (4, 6)).astype(float)
    bsp, asp = theirs(compute.copy())
    expect(bsp is not None and asp is not None, "Return two numbers: seconds(compute) has None.")
    expect(
        asp != compute.sum(),
        "asp: this is the sum of all seconds, as if one worker did everything. They work side by "
        "side.",
    )
    expect(
        asp == compute.sum(axis=1).max(),
        "asp: no worker waits, so add up what each worker needs alone. When is the last one done?",
    )
    expect(
        bsp != asp,
        "bsp: this is what it takes without waiting. At the end of each milestone, all wait for "
        "the slowest of *that* milestone, which may be another worker each time.",
    )
    expect(
        bsp == compute.max(axis=0).sum(),
        "bsp: how long does one round take, from barrier to barrier? Then add up the rounds.",
    )
    return (
        "bsp is a sum of maxima, asp a maximum of sums, which is never larger. They are equal only "
        "if the same worker is the slowest in every round: then waiting for it costs no time."
    )


@exercise("modes.stalest")
def stalest(theirs: Callable[[int, int], Any], run: Run) -> str:
    """Look at the bound of the staleness, and hold it against a run."""
    one = theirs(2, 3)
    expect(one is not None, "stalest returns None: let it return a number of versions.")
    expect(theirs(1, 3) == 0, "One worker alone has no other worker whose updates it could miss.")
    expect(
        theirs(2, 0) == 1,
        "Begin with bsp, a slack of 0, and two workers: what did the table of stalenesses show?",
    )
    expect(
        one != 4,
        "This counts how far the other can get ahead of you. But where can it have been when you "
        "pulled?",
    )
    expect(
        one == 7,
        "Two workers, slack 3, your clock c: the other one's clock is at least ... at your pull, "
        "and at most ... at your push. Count its milestones from the one to the other.",
    )
    expect(
        theirs(5, 3) == 28,
        "For two workers it is right. Of more, each of the others can push as often as one can.",
    )
    return _measured(theirs, run)


def _measured(theirs: Callable[[int, int], Any], run: Run) -> str:
    history, slack = run.history, as_sync(run.settings.sync).slack
    expect(
        slack is not None and len(history),
        "The formula is right. The run is none of a bounded mode with milestones: give it ssp.",
    )
    assert slack is not None
    bound, measured = theirs(int(history["workers"].max()), slack), history["staleness"].max()
    expect(
        measured <= bound,
        f"The formula is right, but this run had a staleness of {measured}, more than {bound}. Was "
        "its mode changed while it trained?",
    )
    return (
        f"Your run kept to it, with {measured} of at most {bound}. The bound needs no assumption "
        "about speed, and that is what proofs that ssp converges are built on."
    )
