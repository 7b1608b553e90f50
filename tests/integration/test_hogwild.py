"""Workers that add to shared parameters without locks: counts stay exact, and the model learns."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, counter
from tests.support.watching import Watch
from tos_notebook.errors import ConfigError, WorkerEnvironment
from tos_notebook.events import MilestoneCommitted, StrategySwapped, WorkerLost
from tos_notebook.strategies.ps.hogwild.parameters import SharedParameters

Train = Callable[..., tos.TrainingSession]

VALUES = np.arange(2000.0)
HOGWILD: dict[str, Any] = {"strategy": "ps:locking=false", "batch_size": 2, "sync_interval": 1}


def _rows(run: tos.Run) -> int:
    return int(run.history["samples"].sum())


def test_a_killed_worker_leaves_one_milestone_at_most_and_every_batch_counts_once(
    train: Train,
) -> None:
    watch, killed = Watch(), list[int]()
    made: list[tos.Run] = []

    def kill_once(event: Any) -> None:
        if isinstance(event, MilestoneCommitted) and event.sequence == 5 and not killed:
            members = made[0].parts.training.facts(("", 0.0), 2).members
            killed.extend(member.pid for member in members)
            os.kill(killed[0], signal.SIGKILL)

    run = train(counter(), **HOGWILD).start((VALUES,), partitions=1, epochs=2, sinks=[watch])
    made.append(run)
    run.add_sink(kill_once)
    run.wait(120)
    assert killed
    assert run.state == "finished"
    assert len(watch.of(WorkerLost)) == 1
    assert _rows(run) == 2 * len(VALUES)
    # What was added and not counted is there twice, or in part. A milestone has at most twice as
    # many rows as the one before it.
    assert 0 <= run.parameters()["total"][1] - 2 * len(VALUES) <= 2 * run.history["samples"].max()


def test_two_workers_count_exactly_and_learn_as_well_as_with_locks(
    train: Train, digits: Any
) -> None:
    x, y, x_test, y_test = digits
    accuracy = {}
    for strategy in ("ps", "ps:locking=false"):
        program = captured_classifier()
        session = train(
            program, strategy=strategy, combiner="downpour", batch_size=16, sync_interval=2
        )
        run = session.run((x, y), epochs=8, seed=0)
        assert _rows(run) == 8 * len(y)
        assert run.history["version"].max() == len(run.history)
        assert set(run.history["partition"]) == {0, 1}
        accuracy[strategy] = run.evaluate((x_test, y_test))["accuracy"]
    assert accuracy["ps:locking=false"] > 0.9
    assert accuracy["ps:locking=false"] > accuracy["ps"] - 0.05


def test_a_run_swaps_to_it_and_back_and_continues_from_a_checkpoint(
    train: Train, tmp_path: Path, spark_context: Any
) -> None:
    session = train(counter(), checkpoint_dir=f"file:{tmp_path}", **HOGWILD)
    watch = Watch()
    options: dict[str, Any] = {"partitions": 1, "epochs": 200, "checkpoint_every": 500}
    run = session.start((VALUES,), sinks=[watch], **options)
    watch.mid_epoch(0)
    with pytest.raises(ConfigError, match="expected downpour with locking=False"):
        run.set(combiner="dynsgd")
    with pytest.raises(ConfigError, match="expected downpour with locking=False"):
        run.swap_strategy("ps:locking=false", combiner="easgd")
    run.swap_strategy("ps", combiner="downpour")
    watch.until(StrategySwapped)
    run.swap_strategy("ps:locking=false")
    watch.until(StrategySwapped, count=2)
    watch.until(MilestoneCommitted, watch.mark(), count=10)
    run.pause()
    run.unpause()
    watch.until(MilestoneCommitted, watch.mark(), count=10)
    run.stop()
    run.wait(60)
    # One worker: nothing is lost, and what was swapped or stopped in between is there once.
    assert run.parameters()["total"][1] == _rows(run)
    resumed = tos.resume(f"file:{tmp_path}/{run.run_id}", (VALUES,), spark=spark_context)
    resumed_watch = Watch()
    resumed.add_sink(resumed_watch)
    resumed_watch.until(MilestoneCommitted)
    resumed.stop()
    resumed.wait(60)
    assert resumed.parameters()["total"][1] > run.parameters()["total"][1]


def test_a_worker_that_cannot_open_the_memory_ends_the_run_with_one_error(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = SharedParameters.__init__

    def elsewhere(parameters: SharedParameters, *given: Any) -> None:
        begin(parameters, *given)
        parameters.segment = "of another host"

    monkeypatch.setattr(SharedParameters, "__init__", elsewhere)
    with pytest.raises(WorkerEnvironment, match=r"on the driver's host.*Train with locking=True"):
        train(counter(), **HOGWILD).run((VALUES,), partitions=1, epochs=1)
