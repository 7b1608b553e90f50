"""Models with large embeddings: they train as elsewhere, and only rows that change are sent."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.long import few
from tests.support.watching import Watch
from tos_notebook.events import MilestoneCommitted, StrategySwapped

Train = Callable[..., tos.TrainingSession]

ROWS, WIDTH = 4000, 64
BATCH, INTERVAL = 50, 4


def factors(optimizer: str = "sgd") -> Any:
    """Return a compiled Keras model of the factors of users and items, a table of 1 MB each."""
    import keras

    keras.utils.set_random_seed(0)
    pair = keras.Input((2,), dtype="int32")
    users = keras.layers.Embedding(ROWS, WIDTH)(pair[:, 0])
    items = keras.layers.Embedding(ROWS, WIDTH)(pair[:, 1])
    both = keras.layers.Concatenate()([users, items])
    hidden = keras.layers.Dense(16, activation="relu")(both)
    model = keras.Model(pair, keras.layers.Dense(1)(hidden))
    rules = {"sgd": keras.optimizers.SGD(0.05), "adam": keras.optimizers.Adam(0.003)}
    model.compile(rules[optimizer], "mse")
    return model


@pytest.fixture(scope="module")
def ratings() -> tuple[np.ndarray, np.ndarray]:
    """Each user rates one item, so that no row is in two milestones of an epoch."""
    random = np.random.default_rng(0)
    pairs = np.stack([random.permutation(ROWS) for _ in range(2)], 1).astype(np.int32)
    taste, fame = random.normal(size=(2, ROWS))
    return pairs, (taste[pairs[:, 0]] + fame[pairs[:, 1]]).astype(np.float32)[:, None]


OPTIONS: dict[str, Any] = {
    "batch_size": BATCH,
    "sync_interval": INTERVAL,
    "combiner": "downpour",
}


@pytest.mark.parametrize("optimizer", few(["sgd", "adam"], "adam"))
def test_one_worker_trains_as_keras_does(
    train: Train, ratings: tuple[np.ndarray, np.ndarray], optimizer: str
) -> None:
    """Whether the optimizer changes only the rows that a batch reads, or all that ever moved."""
    model, ours = factors(optimizer), factors(optimizer)
    theirs = model.fit(*ratings, BATCH, 2, shuffle=False, verbose=0).history["loss"]
    run = train(ours, **OPTIONS).run(ratings, partitions=1, epochs=2, shuffle=False)
    assert run.history.groupby("epoch")["loss"].mean().tolist() == pytest.approx(theirs, rel=1e-3)
    for one, other in zip(model.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-4)


def test_a_milestone_moves_the_rows_that_it_has_changed(
    train: Train, ratings: tuple[np.ndarray, np.ndarray]
) -> None:
    model = factors()
    first = model.evaluate(*ratings, verbose=0)
    run = train(model, **OPTIONS).run(ratings, partitions=2, epochs=3)
    _few_bytes(model, run, 2)
    assert model.evaluate(*ratings, verbose=0) < first


def test_so_it_does_with_a_shard(train: Train, ratings: tuple[np.ndarray, np.ndarray]) -> None:
    """The shared Spark has one slot beside it. What comes of it is what Keras trains."""
    model, ours = factors(), factors()
    theirs = model.fit(*ratings, BATCH, 3, shuffle=False, verbose=0).history["loss"]
    sharded = train(ours, **OPTIONS, strategy="ps:shards=1")
    run = sharded.run(ratings, partitions=1, epochs=3, shuffle=False)
    _few_bytes(ours, run, 1)
    assert run.history.groupby("epoch")["loss"].mean().tolist() == pytest.approx(theirs, rel=1e-3)
    for one, other in zip(model.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-4)


def visits() -> Any:
    """Return a model whose step adds 1 to all of a row, for each time that a batch has it."""
    import keras

    ids = keras.Input((), dtype="int32")
    rows = keras.layers.Embedding(ROWS, WIDTH, embeddings_initializer="zeros")(ids)
    model = keras.Model(ids, rows)

    class Loss(keras.losses.Loss):
        def call(self, expected: Any, found: Any) -> Any:
            return -keras.ops.sum(found, -1)

    model.compile(keras.optimizers.SGD(1.0), Loss(reduction="sum"))
    return model


def _once() -> tuple[np.ndarray, np.ndarray]:
    """Return data that have each row once."""
    ids = np.random.default_rng(0).permutation(ROWS).astype(np.int32)
    return ids, np.zeros((ROWS, 1), np.float32)


def test_a_resumed_run_takes_its_rows_into_the_driver_and_back(
    train: Train, tmp_path: Path, spark_context: Any
) -> None:
    """Each row counts once in each epoch, wherever it is."""
    watch, data = Watch(), _once()
    session = train(visits(), **OPTIONS, strategy="ps:shards=1", checkpoint_dir=f"file:{tmp_path}")
    first = session.run(data, partitions=1, epochs=2, checkpoint_every=20)
    run = tos.resume(first.uri, data, epochs=200, spark=spark_context)
    run.add_sink(watch)
    for number, strategy in enumerate(("ps", "ps:shards=1")):
        watch.mid_epoch(0)
        run.swap_strategy(strategy)
        watch.until(StrategySwapped, count=number + 1)
    watch.mid_epoch(0)
    run.stop()
    run.wait(60)
    (table,) = run.parameters().values()
    assert table.sum() == run.status.samples * WIDTH
    assert table.max() - table.min() <= 1
    assert table.min() >= 2


@pytest.mark.parametrize("victim", few(["worker", "shard"], "shard"))
def test_each_row_counts_once_whoever_dies(train: Train, victim: str) -> None:
    killed, made = list[int](), list[tos.Run]()

    def kill_once(event: Any) -> None:
        last = isinstance(event, MilestoneCommitted) and (event.epoch, event.sequence) == (1, 5)
        if last and not killed:
            training: Any = made[0].parts.training
            members = training.facts(("", 0.0), 2).members
            shards = training.trainer.parameters.commits.group.members()
            killed.append((members if victim == "worker" else shards)[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    session = train(visits(), **OPTIONS, strategy="ps:shards=1")
    run = session.start(_once(), partitions=1, epochs=3)
    made.append(run)
    run.add_sink(kill_once)
    run.wait(120)
    assert killed
    assert run.state == "finished"
    assert run.status.samples == 3 * ROWS
    (table,) = run.parameters().values()
    assert (table == 3).all()


def _few_bytes(model: Any, run: tos.Run, workers: int) -> None:
    """Check that three epochs have moved little else than rows that have changed."""
    history = run.history
    row = WIDTH * 4
    dense = sum(weight.nbytes for weight in model.get_weights()[2:])
    touched = 3 * 2 * ROWS * row + len(history) * dense
    assert touched <= history["bytes_up"].sum() <= 1.2 * touched
    # Each worker first gets all rows, and later what others have changed, too.
    tables = workers * 2 * ROWS * row
    assert history["bytes_down"].sum() <= tables + workers * 1.2 * touched


@pytest.mark.parametrize(
    "combiner", few(["easgd", "fedadam", "median", "fedavg"], "easgd", "median")
)
def test_each_rule_learns_from_rows(
    train: Train, ratings: tuple[np.ndarray, np.ndarray], combiner: str
) -> None:
    model = factors()
    first = model.evaluate(*ratings, verbose=0)
    rule = tos.combiners.get(combiner, **({"lr": 0.02} if combiner == "fedadam" else {}))
    train(model, **(OPTIONS | {"combiner": rule})).run(ratings, partitions=2, epochs=2)
    assert model.evaluate(*ratings, verbose=0) < first
