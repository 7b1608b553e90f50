"""What is changed while a run is paused: nothing moves, and all of it holds when it continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter
from tests.support.long import few
from tests.support.watching import Watch
from tos_notebook.events import CommandApplied, EpochFinished, MilestoneCommitted, Repartitioned
from tos_notebook.steering.machine import Command

ROWS, EPOCHS = 1000, 4
VALUES = np.arange(1.0, ROWS + 1).tolist()


def twice(center: np.ndarray, update: np.ndarray, push: Any) -> np.ndarray:
    """Add each change doubled: the center shows from which push on this rule was in force."""
    return center + 2 * update


@pytest.mark.parametrize("sync", few(["asp", "bsp"], "bsp"))
def test_a_paused_run_takes_another_combiner_and_layout_and_counts_every_row_once(
    spark_context: Any, train: Callable[..., tos.TrainingSession], watch: Watch, sync: str
) -> None:
    rdd = spark_context.parallelize([(value,) for value in VALUES], 2)
    session = train(counter(), combiner="downpour", batch_size=10, sync_interval=1, sync=sync)
    run = session.start(rdd, epochs=EPOCHS, sinks=[watch])
    # Slow enough to be paused before the last epoch.
    run.chaos(tos.chaos.Pause(0.05, any=2))
    mark = watch.until(MilestoneCommitted, count=6)
    run.pause()
    watch.until(CommandApplied, mark, lambda event: event.command == Command.PAUSE)
    before = run.history

    run.chaos()
    run.swap_combiner(twice)
    run.repartition(3)
    assert run.state == "paused"
    assert run.settings.combiner.name == "twice"
    assert len(run.history) == len(before)
    assert not watch.of(Repartitioned)
    assert run.parameters()["total"][1] == before["samples"].sum()

    run.unpause()
    run.wait(60)
    assert run.state == "finished"
    done = [event.command for event in watch.of(CommandApplied)]
    assert {Command.SWAP_COMBINER, Command.REPARTITION} < {*done}
    assert [event.epoch for event in watch.of(EpochFinished)] == list(range(EPOCHS))
    assert [event.partitions for event in watch.of(Repartitioned)] == [3]
    history = run.history
    assert history.groupby("epoch")["samples"].sum().tolist() == [ROWS] * EPOCHS
    assert history.groupby("epoch")["partition"].nunique().iloc[[0, -1]].tolist() == [2, 3]
    once = before["samples"].sum()
    assert run.parameters()["total"][1] == once + 2 * (EPOCHS * ROWS - once)
