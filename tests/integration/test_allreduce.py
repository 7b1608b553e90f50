"""All-reduce on real Spark: the steps of one process, and a resumed run to the last bit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import shared
from tests.support.long import few
from tests.support.watching import Watch
from tos_notebook.coordination.membership import Member
from tos_notebook.coordination.rendezvous import Rendezvous
from tos_notebook.errors import ConfigError
from tos_notebook.events import MilestoneCommitted, StrategySwapped, WorkerJoined
from tos_notebook.program.export.base import Program
from tos_notebook.wire.messages import Formed, Proceed

LIMIT = 120.0
ROWS, SIZE, EPOCHS = 250, 20, 3
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(ROWS, 6)).astype("float32")
Y = RANDOM.integers(0, 3, ROWS)

LONG = 40
"""Epochs, of a run that is killed or stopped before it ends."""

Sessions = Callable[..., tos.TrainingSession]
Whole = Callable[[str, int], list[bytes]]


def model(optimizer: Any, width: int = 8) -> keras.Model:
    keras.utils.set_random_seed(1)
    made = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(width, activation="tanh"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    made.compile(optimizer, "sparse_categorical_crossentropy")
    return made


def adam() -> Any:
    return keras.optimizers.AdamW(0.01, global_clipnorm=0.5)


def program() -> Program:
    """Return the model with AdamW, captured; shared with other tests."""
    return shared(_program)


def _program() -> Program:
    return tos.capture(model(adam()))


def _wide() -> Program:
    return tos.capture(model(adam(), 30_000))


@cache
def in_one_process() -> list[np.ndarray]:
    """Return what batches train that hold those of two workers together, in the rows' order."""
    made = model(adam())
    halves = np.array_split(np.arange(ROWS), 2)
    for _ in range(EPOCHS):
        for start in range(0, len(halves[0]), SIZE):
            rows = np.concatenate([half[start : start + SIZE] for half in halves])
            made.train_on_batch(X[rows], Y[rows])
    weights: list[np.ndarray] = made.get_weights()
    return weights


def bits(trained: Program) -> list[bytes]:
    return [weight.tobytes() for weight in trained.model.get_weights()]


@pytest.fixture(scope="module")
def whole(spark_context: Any) -> Whole:
    """Return the bits of a run that nothing disturbs; it is made once for all who compare."""

    @cache
    def trained(algorithm: str, epochs: int) -> list[bytes]:
        made, strategy = program(), f"allreduce:{algorithm}"
        with tos.TrainingSession(
            spark_context, made, strategy=strategy, batch_size=SIZE
        ) as session:
            session.run((X, Y), epochs, partitions=2, seed=3)
        return bits(made)

    return trained


@pytest.mark.parametrize("algorithm", few(["star", "auto"], "auto"))
def test_two_workers_train_as_keras_does_with_their_batches_together(
    algorithm: str, train: Sessions
) -> None:
    trained = program()
    session = train(trained, strategy=f"allreduce:{algorithm}", batch_size=SIZE)
    run = session.run((X, Y), EPOCHS, partitions=2, shuffle=False)
    assert run.state == "finished"
    assert run.settings.own.get("chosen_by", algorithm) == algorithm
    assert (run.settings.own["algorithm"] == "star") is (algorithm == "star")
    assert run.settings.own["algorithm"] != "auto"
    for found, expected in zip(trained.model.get_weights(), in_one_process(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("algorithm", "epochs"), few([("star", EPOCHS), ("ring", LONG)], ("ring", LONG))
)
def test_a_resumed_run_ends_with_the_bits_of_one_that_was_not_stopped(
    algorithm: str, epochs: int, train: Sessions, whole: Whole, spark_context: Any, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"strategy": f"allreduce:{algorithm}", "batch_size": SIZE}
    expected = whole(algorithm, epochs)

    watch, stopped = Watch(), program()
    session = train(stopped, checkpoint_dir=str(tmp_path), **options)
    run = session.start((X, Y), epochs, partitions=2, seed=3, checkpoint_every=4, sinks=[watch])
    run.chaos(tos.chaos.Pause(0.02, any=2))
    watch.wait_for(MilestoneCommitted, 12)
    run.stop()
    session.close()
    assert run.uri is not None
    assert bits(stopped) != expected

    resumed = program()
    continued = tos.resume(run.uri, program=resumed, spark=spark_context).wait(LIMIT)
    assert continued.state == "finished"
    assert bits(resumed) == expected


@pytest.mark.parametrize("worker", few([0, 1], 0))
def test_a_worker_that_is_killed_changes_no_bit(worker: int, train: Sessions, whole: Whole) -> None:
    options: dict[str, Any] = {"strategy": "allreduce:ring", "batch_size": SIZE}
    expected = whole("ring", LONG)

    broken, watch = program(), Watch()
    run = train(broken, **options).start((X, Y), LONG, partitions=2, seed=3, sinks=[watch])
    run.chaos(tos.chaos.Kill(worker=worker))
    run.wait(LIMIT)
    assert run.state == "finished"
    assert len(watch.of(WorkerJoined)) == 3
    assert run.status.samples == LONG * ROWS
    assert bits(broken) == expected


def test_a_worker_that_is_killed_while_others_read_its_memory_changes_no_bit(
    train: Sessions,
) -> None:
    options: dict[str, Any] = {"strategy": "allreduce:ring", "batch_size": SIZE}
    files = {*Path("/dev/shm").iterdir()}
    whole, watch = shared(_wide), Watch()
    train(whole, **options).run((X, Y), 10, partitions=2, seed=3)
    expected = bits(whole)

    broken = shared(_wide)
    run = train(broken, **options).start((X, Y), 10, partitions=2, seed=3, sinks=[watch])
    run.chaos(tos.chaos.Kill(worker=1))
    run.wait(LIMIT)
    assert run.state == "finished"
    assert len(watch.of(WorkerJoined)) == 3
    assert any("read each other's memory" in note for note in run.status.notes)
    assert bits(broken) == expected
    assert {*Path("/dev/shm").iterdir()} == files


@pytest.mark.long
def test_a_worker_that_is_killed_before_it_connects_changes_no_bit(
    train: Sessions, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"strategy": "allreduce:ring", "batch_size": SIZE}
    expected, broken, watch = whole("ring", EPOCHS), program(), Watch()
    killed, wait = [], Rendezvous.wait

    def kill_one(self: Rendezvous, member: Member, epoch: int) -> Formed | Proceed:
        answer = wait(self, member, epoch)
        if isinstance(answer, Formed) and member.partition == 1 and not killed:
            killed.append(member.pid)
            os.kill(member.pid, signal.SIGKILL)
        return answer

    monkeypatch.setattr(Rendezvous, "wait", kill_one)
    run = train(broken, **options).run((X, Y), EPOCHS, partitions=2, seed=3, sinks=[watch])
    assert run.state == "finished"
    assert len(killed) == 1
    assert len(watch.of(WorkerJoined)) == 3
    assert run.status.samples == EPOCHS * ROWS
    assert bits(broken) == expected


def test_workers_that_cannot_reach_each_other_train_through_the_driver(
    train: Sessions,
    whole: Whole,
    spark_context: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, trained, watch = whole("star", EPOCHS), program(), Watch()

    def unreachable(generation: int, rank: int, hosts: Any, ports: Any, *rest: Any) -> Formed:
        return Formed(generation, rank, hosts, [1] * len(ports), *rest)

    monkeypatch.setattr("tos_notebook.coordination.rendezvous.Formed", unreachable)
    session = train(trained, strategy="allreduce", batch_size=SIZE, checkpoint_dir=str(tmp_path))
    run = session.run((X, Y), EPOCHS, partitions=2, seed=3, sinks=[watch], checkpoint_every=4)
    assert run.state == "finished"
    assert run.status.samples == EPOCHS * ROWS
    assert bits(trained) == expected
    assert [event.epoch for event in watch.of(StrategySwapped)] == [0]
    assert any("The run goes through the driver from epoch 1" in n for n in run.status.notes)
    assert run.uri is not None
    resumed = tos.resume(run.uri, epochs=EPOCHS + 1, program=program(), spark=spark_context)
    assert resumed.wait(LIMIT).status.samples == (EPOCHS + 1) * ROWS
    assert not any("through the driver" in note for note in resumed.status.notes)


OUTER = tos.strategies.AllReduce(of="parameters", every=2, algorithm="ring")


@pytest.mark.long
def test_with_an_outer_optimizer_a_killed_worker_and_a_resumed_run_change_no_bit(
    train: Sessions, spark_context: Any, tmp_path: Path
) -> None:
    # Without momentum of its own, a worker has no state that could be lost.
    options: dict[str, Any] = {"strategy": OUTER, "combiner": "diloco", "codec": "bf16"}
    whole, stopped, resumed = (tos.capture(model("sgd")) for _ in range(3))
    train(whole, **options).run((X, Y), 40, partitions=2, seed=3)
    assert bits(whole) != bits(stopped)

    watch = Watch()
    session = train(stopped, checkpoint_dir=str(tmp_path), **options)
    run = session.start((X, Y), 40, partitions=2, seed=3, checkpoint_every=4, sinks=[watch])
    run.chaos(tos.chaos.Kill(worker=1))
    watch.wait_for(WorkerJoined, 3)
    run.chaos(tos.chaos.Pause(0.02, any=2))
    watch.wait_for(MilestoneCommitted, 12)
    run.stop()
    session.close()
    assert run.uri is not None
    assert run.settings.combiner.name == "diloco"

    continued = tos.resume(run.uri, program=resumed, spark=spark_context).wait(LIMIT)
    assert continued.state == "finished"
    assert bits(resumed) == bits(whole)


def test_partitions_that_would_wait_are_refused_before_anything_is_written(
    train: Sessions, tmp_path: Path
) -> None:
    session = train(program(), strategy="allreduce", checkpoint_dir=str(tmp_path))
    first = session.run((X, Y))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match="at most 2, give Spark more slots"):
        session.start((X, Y), partitions=5, checkpoint_every=10)
    assert sorted(tmp_path.rglob("*")) == before
    second = session.run((X, Y))
    # What is refused takes no number.
    assert (second.state, second.number) == ("finished", first.number + 1)
