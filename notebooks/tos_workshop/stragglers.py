"""The exercises of ``04_stragglers_and_failures.ipynb``."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from typing import TYPE_CHECKING, Any

from tos_notebook.chaos import Kill

from .exercise import exercise, expect

if TYPE_CHECKING:
    from tos_notebook.training.run import Run

KILLS = 3
"""How many a run has to survive in the last exercise."""


@exercise("stragglers.rate")
def rate(asp: Any, bsp: Any) -> str:
    """Look at the shares of the full speed of 8 workers that are left with one 5 times slower."""
    expect(
        None not in (asp, bsp),
        "Give two numbers from 0 to 1. Full speed is 8 milestones in the time in which one worker "
        "makes one: how many are made in that time now?",
    )
    expect(
        0 <= asp <= 1 and 0 <= bsp <= 1,
        "Expected shares of the full speed, from 0 to 1: divide by what all 8 made before.",
    )
    expect(not _near(asp, 7 / 8), "asp: the slow worker is slow, but it still makes milestones.")
    expect(not _near(asp, 1 / 5), "asp: no worker waits here, so seven are as fast as before.")
    expect(_near(asp, 7.2 / 8), "asp: add up what each of the eight makes, then divide by 8.")
    expect(not _near(bsp, 7.2 / 8), "bsp: the seven fast ones wait for the slow one each time.")
    expect(
        not _near(bsp, 1 / 8) and not _near(bsp, 1 / 40),
        "bsp: all eight make a milestone in the time in which the slow one makes one.",
    )
    expect(_near(bsp, 1 / 5), "bsp: how long does it take now until all eight have made one?")
    return (
        "Without waiting you lose one worker's share at most. With a barrier the slowest worker "
        "sets the pace of all, however many there are."
    )


def _near(share: float, right: float) -> bool:
    return isclose(share, right, abs_tol=0.006)


@exercise("stragglers.resume")
def resume(batch: Any) -> str:
    """Look at the batch where a worker's successor continues: killed in milestone 8, each of 5."""
    expect(
        batch is not None,
        "Which of its milestones did the server get? The batches of those are done.",
    )
    expect(
        batch != 40,
        "The worker had computed its eighth milestone, but did the server hear of it?",
    )
    expect(batch not in (7, 8), "That is a number of milestones; each of them is several batches.")
    expect(batch != 0, "Batches that the server has committed are not trained again.")
    expect(
        batch not in (34, 36),
        "Nearly. If 5 batches were done, those from 0 to 4, the next one would be number 5.",
    )
    expect(batch != 35 * 8, "That counts images; the question is about batches.")
    expect(batch == 35, "Count the batches of the milestones that were committed.")
    return (
        "Only what is committed counts, so the worker's eighth milestone is lost, and its "
        "successor computes it again. No batch counts twice, and none is missing."
    )


@exercise("stragglers.once")
def once(server: Callable[[], Any]) -> str:
    """Look at a server that counts each push once; pushes are (epoch, partition, sequence)."""
    counts = server()
    counts.push(0, 0, 0, 5)
    counts.push(0, 1, 0, 7)
    expect(
        counts.total == 12,
        f"Two partitions pushed 5 and 7, each its first push, and the total is {counts.total}. "
        "How can you distinguish their pushes?",
    )
    counts.push(0, 0, 0, 5)
    expect(
        counts.total == 12,
        "The reply to a push of 5 got lost, so the worker sent it again, and the total grew from "
        f"12 to {counts.total}. How can the server know that it has had this push?",
    )
    counts.push(0, 0, 1, 5)
    expect(
        counts.total == 17,
        f"A partition's next push is of 5 again, and the total is {counts.total} instead of 17: "
        "the same number is not yet the same push.",
    )
    counts.push(1, 0, 0, 3)
    expect(
        counts.total == 20,
        "The first push of the next epoch was not counted: sequences begin at 0 in every epoch.",
    )
    other = server()
    other.push(0, 0, 0, 1)
    expect(
        other.total == 1,
        "A second server does not count what the first one has had: each needs its own "
        "memory, made in __init__.",
    )
    return (
        "A push has a name, (epoch, partition, sequence), and the server remembers the names: so "
        "a worker may send again whenever it is in doubt. The package does the same, in "
        "tos_notebook/coordination/ledger.py."
    )


@exercise("stragglers.survive")
def survive(run: Run | None) -> str:
    """Look at a run whose workers were killed, and that trained everything all the same."""
    expect(
        run is not None,
        "Start a run of the counter with your own chaos.Kill rules, and hand it over.",
    )
    assert run is not None
    expect(not run.active, "The run still trains: wait() for its end first.")
    expect(
        run.state == "finished",
        f"The run is {run.state}: expected one that came to its end by itself. No task may be "
        "killed more than three times: local[2,4] allows four attempts.",
    )
    expect(
        any(isinstance(rule, Kill) for rule in run.chaos_log),
        "No rule of this run kills a worker: give it a chaos.Kill.",
    )
    lost = int(run.workers["lost"].sum())
    expect(
        lost >= KILLS,
        f"{lost} of the workers' attempts ended early; expected at least {KILLS}. A rule kills "
        "each of its workers once: give several, see any= and at= of chaos.Kill, and look whether "
        "the run is long enough.",
    )
    trained = run.history.groupby("epoch")["samples"].sum()
    expect(
        len(trained) == run.status.epochs and trained.nunique() == 1,
        f"The epochs have trained {trained.to_dict()} rows: expected as many in each.",
    )
    return (
        f"{lost} attempts were killed, and every epoch still trained {trained.iloc[0]} rows: who "
        "dies costs time, but neither data nor correctness."
    )
