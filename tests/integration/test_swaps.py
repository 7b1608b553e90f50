"""`Run.swap_strategy` on real Spark: exact counts, a falling loss, and a run that is resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.test_allreduce import ROWS, SIZE, X, Y, bits, program
from tests.support.watching import Watch
from tos_notebook.errors import InvalidTransition, UnsupportedProgram
from tos_notebook.events import (
    CommandApplied,
    EpochFinished,
    Event,
    MilestoneCommitted,
    StrategySwapped,
    WorkerJoined,
)

LIMIT = 120.0

Sessions = Callable[..., tos.TrainingSession]


def started(session: tos.TrainingSession, first: Any, epochs: int, **options: Any) -> tos.Run:
    """Start a run that is to swap its strategy when its first epoch ends."""
    run = session.start((X, Y), epochs, partitions=2, seed=3, **options)
    # A program is traced again, which may take longer than an epoch of so few rows.
    run.pause()
    run.swap_strategy(first)
    run.unpause()
    return run


class Back:
    """A sink that asks for the parameter server again once another strategy has taken over."""

    run: tos.Run

    def __call__(self, event: Event) -> None:
        if isinstance(event, StrategySwapped) and event.strategy != "ps":
            self.run.pause()
            self.run.swap_strategy("ps")
            self.run.unpause()


def test_there_and_back_every_row_counts_once_and_the_loss_falls(train: Sessions) -> None:
    back, watch, trained = Back(), Watch(), program()
    session = train(trained, strategy="ps", batch_size=SIZE, sync_interval=1)
    run = session.start((X, Y), 3, partitions=2, seed=3, sinks=[back, watch])
    back.run = run
    run.pause()
    run.swap_strategy("allreduce")
    run.unpause()
    run.wait(LIMIT)
    assert run.state == "finished"
    assert [e.strategy for e in watch.of(StrategySwapped)] == ["allreduce", "ps"]
    assert [e.epoch for e in watch.of(StrategySwapped)] == [1, 2]
    assert [e.samples for e in watch.of(EpochFinished)] == [ROWS] * 3
    applied = [e.command for e in watch.of(CommandApplied)]
    assert applied.count("swap strategy") == 2
    history = run.history
    assert history.groupby("epoch")["samples"].sum().tolist() == [ROWS] * 3
    assert (history[history["epoch"] == 2]["staleness"] == 0).all()
    losses = history.groupby("epoch")["loss"].mean().tolist()
    assert losses[2] < losses[0]
    assert any("optimizer's state was reset with epoch 3" in note for note in run.status.notes)
    kept = run.parameters().values()
    for weight, value in zip(trained.model.get_weights(), kept, strict=True):
        np.testing.assert_array_equal(weight, value)


class TwiceUpdated(keras.Model):
    """A model whose own `train_step` updates its weights twice, so that it cannot be cut."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(3, activation="softmax")
        self.build((None, 6))

    def build(self, shape: Any) -> None:
        self.dense.build(shape)
        self.built = True

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, data: Any) -> Any:
        super().train_step(data)
        return super().train_step(data)


def test_a_program_that_cannot_be_cut_trains_on(train: Sessions) -> None:
    watch, trained = Watch(), TwiceUpdated()
    trained.compile("sgd", "sparse_categorical_crossentropy")
    session = train(trained, batch_size=SIZE, sync_interval=1)
    run = session.start((X, Y), 2, partitions=2, sinks=[watch])
    run.chaos(tos.chaos.Pause(0.2, any=2))
    watch.wait_for(WorkerJoined, 1)
    with pytest.raises(UnsupportedProgram, match="cannot be trained by gradients"):
        run.swap_strategy("allreduce")
    run.swap_strategy("allreduce:parameters")
    run.chaos()
    assert run.wait(LIMIT).settings.own["of"] == "parameters"
    assert [e.samples for e in watch.of(EpochFinished)] == [ROWS] * 2


@pytest.mark.long
def test_a_resumed_run_goes_on_by_the_strategy_that_it_was_swapped_to(
    train: Sessions, spark_context: Any, tmp_path: Path
) -> None:
    watch, stopped = Watch(), program()
    session = train(stopped, checkpoint_dir=str(tmp_path), batch_size=SIZE, sync_interval=1)
    run = started(session, "allreduce", 4, checkpoint_every=4, sinks=[watch])
    run.chaos(tos.chaos.Pause(0.05, any=2))
    watch.wait_for(StrategySwapped, 1)
    watch.wait_for(MilestoneCommitted, len(watch.of(MilestoneCommitted)) + 6)
    run.stop()
    session.close()
    assert run.uri is not None
    (saved,) = tos.runs(run.uri, spark=spark_context)
    assert saved.settings.strategy == "allreduce"

    before, resumed = bits(stopped), program()
    continued = tos.resume(run.uri, program=resumed, spark=spark_context)
    with pytest.raises(InvalidTransition, match="in this way already"):
        continued.swap_strategy("allreduce")
    continued.wait(LIMIT)
    assert (continued.state, continued.settings.strategy) == ("finished", "allreduce")
    assert bits(resumed) != before
    assert continued.history.groupby("epoch")["samples"].sum().tolist() == [ROWS] * 4


def test_a_swap_that_a_checkpoint_has_seen_is_made_after_a_resume(
    train: Sessions, spark_context: Any, tmp_path: Path
) -> None:
    watch = Watch()
    session = train(program(), checkpoint_dir=str(tmp_path), batch_size=SIZE, sync_interval=1)
    run = session.start((X, Y), 3, partitions=2, seed=3, checkpoint_every=2, sinks=[watch])
    run.chaos(tos.chaos.Pause(0.1, any=2))
    watch.wait_for(MilestoneCommitted, 2)
    run.pause()
    run.swap_strategy("allreduce")
    run.stop()
    session.close()
    assert run.uri is not None
    assert not watch.of(StrategySwapped)

    later = Watch()
    resumed = tos.resume(run.uri, program=program(), spark=spark_context, sinks=[later])
    resumed.wait(LIMIT)
    assert [e.strategy for e in later.of(StrategySwapped)] == ["allreduce"]
    assert resumed.settings.strategy == "allreduce"
    assert resumed.history.groupby("epoch")["samples"].sum().tolist() == [ROWS] * 3
