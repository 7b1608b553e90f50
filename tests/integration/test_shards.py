"""Shards of the parameters in Spark tasks: every batch counts once, whatever dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.faults.moments import ending_shard
from tests.integration.conftest import counter
from tests.support.watching import Watch
from tests.unit.worker.support import until
from tos_notebook.errors import ConfigError
from tos_notebook.events import (
    JobRestarted,
    MilestoneCommitted,
    ParametersRestored,
    StrategySwapped,
    WorkerLost,
)
from tos_notebook.training.epochs import Epochs

Train = Callable[..., tos.TrainingSession]

VALUES = np.arange(1000.0)
SHARDED: dict[str, Any] = {
    "strategy": "ps:shards=1",
    "combiner": "downpour",
    "batch_size": 2,
    "sync_interval": 1,
}
"""The shared Spark has two slots: one for a shard, one for a worker."""


def _pid_of_shard(run: tos.Run) -> int:
    trainer: Any = run.parts.training.trainer
    pid: int = trainer.parameters.commits.group.members()[0].pid
    return pid


def _sum(epochs: int) -> list[float]:
    return [epochs * VALUES.sum(), epochs * float(len(VALUES))]


def test_a_shard_that_is_killed_comes_back_and_every_batch_counts_once(train: Train) -> None:
    watch, killed = Watch(), list[int]()
    made: list[tos.Run] = []

    def kill_once(event: Any) -> None:
        # In the second epoch: the first one must not be trained again.
        last = isinstance(event, MilestoneCommitted) and (event.epoch, event.sequence) == (1, 200)
        if last and not killed:
            killed.append(_pid_of_shard(made[0]))
            os.kill(killed[0], signal.SIGKILL)

    run = train(counter(), **SHARDED).start((VALUES,), partitions=1, epochs=2, sinks=[watch])
    made.append(run)
    run.add_sink(kill_once)
    run.wait(120)
    assert killed
    assert run.state == "finished"
    assert run.parameters()["total"].tolist() == _sum(2)
    (restart,) = watch.of(JobRestarted)
    assert "lost a shard of its parameters and restarts" in str(restart)
    assert run.status.samples == run.history["samples"].sum() == 2 * len(VALUES)
    assert run.status.milestones == len(run.history) == len(VALUES)
    assert not [note for note in run.status.notes if "lost" in note]
    assert not Path(f"/proc/{killed[0]}").exists()


def test_a_shard_that_is_killed_between_two_jobs_comes_back_with_all_that_was_trained(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    made: list[tos.Run] = []
    turn = Epochs._turn

    def kill_first(self: Epochs, epoch: int) -> None:
        until(lambda: bool(made))
        os.kill(_pid_of_shard(made[0]), signal.SIGKILL)
        until(lambda: made[0].parts.training.lost is not None, 20)
        turn(self, epoch)

    monkeypatch.setattr(Epochs, "_turn", kill_first)
    options: dict[str, Any] = {"partitions": 1, "epochs": 2, "repartition_every": 1}
    run = train(counter(), **SHARDED).start((VALUES,), sinks=[watch], **options)
    made.append(run)
    run.wait(120)
    assert run.parameters()["total"].tolist() == _sum(2)
    (lost,) = watch.of(ParametersRestored)
    assert (lost.milestones, lost.samples) == (0, 0)
    assert run.status.samples == 2 * len(VALUES)


def test_a_shard_that_dies_at_its_first_copy_comes_back_with_what_it_started_with(
    train: Train, tmp_path: Path
) -> None:
    watch = Watch()
    with ending_shard("copying", tmp_path, shard=0):
        run = train(counter(), **SHARDED).start((VALUES,), partitions=1, epochs=2, sinks=[watch])
        watch.until(MilestoneCommitted)
        run.pause()
        watch.until(JobRestarted)
        run.unpause()
        run.wait(120)
    assert run.parameters()["total"].tolist() == _sum(2)
    assert len(watch.of(JobRestarted)) == 1


def test_a_worker_that_is_killed_in_mid_epoch_loses_no_batch_and_none_counts_twice(
    train: Train,
) -> None:
    watch, killed = Watch(), list[int]()
    made: list[tos.Run] = []

    def kill_once(event: Any) -> None:
        if isinstance(event, MilestoneCommitted) and event.sequence == 5 and not killed:
            members = made[0].parts.training.facts(("", 0.0), 2).members
            killed.extend(member.pid for member in members)
            os.kill(killed[0], signal.SIGKILL)

    run = train(counter(), **SHARDED).start((VALUES,), partitions=1, epochs=2, sinks=[watch])
    made.append(run)
    run.add_sink(kill_once)
    run.wait(120)
    assert killed
    assert run.state == "finished"
    assert run.parameters()["total"].tolist() == _sum(2)
    assert len(watch.of(WorkerLost)) == 1


def test_a_run_moves_into_shards_and_back_and_continues_from_a_checkpoint(
    train: Train, tmp_path: Path, spark_context: Any
) -> None:
    session = train(
        counter(),
        checkpoint_dir=f"file:{tmp_path}",
        **{**SHARDED, "combiner": "fedasync"},
    )
    watch = Watch()
    options: dict[str, Any] = {"partitions": 1, "epochs": 400, "checkpoint_every": 250}
    run = session.start((VALUES,), sinks=[watch], **options)
    watch.mid_epoch(0)
    assert [shard.number for shard in run.status.shards] == [1]
    with pytest.raises(ConfigError, match=r"run.swap_strategy\('ps:shards=2'\)"):
        run.set(shards=2)  # type: ignore[call-arg]
    assert "combiner=fedasync" in run.swap_strategy("ps")
    watch.until(StrategySwapped)
    run.swap_combiner("median")
    said = run.swap_strategy("ps:shards=1")
    assert "combiner dynsgd takes the place of median" in said
    run.swap_strategy("ps:shards=1", combiner="downpour")
    watch.until(StrategySwapped, count=2)
    before = max(event.version for event in watch.of(MilestoneCommitted))
    watch.until(MilestoneCommitted, watch.mark(), count=100)
    run.stop()
    run.wait(60)
    assert max(event.version for event in watch.of(MilestoneCommitted)) > before
    resumed = tos.resume(f"file:{tmp_path}/{run.run_id}", (VALUES,), spark=spark_context)
    resumed_watch = Watch()
    resumed.add_sink(resumed_watch)
    resumed_watch.until(MilestoneCommitted)
    resumed.stop()
    resumed.wait(60)
    assert resumed.parameters()["total"][1] > run.parameters()["total"][1]


def test_a_run_without_shards_continues_without(
    train: Train, tmp_path: Path, spark_context: Any
) -> None:
    options: dict[str, Any] = {**SHARDED, "strategy": "ps", "checkpoint_dir": f"file:{tmp_path}"}
    run = train(counter(), **options).run((VALUES,), partitions=1, epochs=1, checkpoint_every=500)
    with pytest.raises(ConfigError, match="Give strategy='ps:shards=2', for the next epoch"):
        tos.resume(run.uri, epochs=2, shards=2, spark=spark_context)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"strategy": "ps:shards=2"}, "shards: expected fewer than Spark runs tasks at once"),
        ({"combiner": "multikrum"}, "multikrum is called with whole parameters"),
    ],
)
def test_what_shards_cannot_do_is_said_before_anything_starts(
    train: Train, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        train(counter(), **{**SHARDED, **options}).start((VALUES,), partitions=1)


def test_partitions_take_turns_beside_a_shard(train: Train) -> None:
    run = train(counter(), **SHARDED).run((VALUES,), partitions=2, epochs=2)
    assert run.status.notes[0].startswith(
        "Spark runs 2 tasks at once, of which 1 shard takes 1: 1 of 2 workers can train at a time"
    )
    assert run.parameters()["total"].tolist() == _sum(2)
