"""Embeddings whose rows are in shards: each batch counts once in each row, whatever dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.watching import Watch
from tos_notebook.errors import ConfigError, WorkerError
from tos_notebook.events import JobRestarted, MilestoneCommitted, WorkerLost

Train = Callable[..., tos.TrainingSession]

ROWS = 1_000_000_000
BATCH = 4
SERVED: dict[str, Any] = {
    "strategy": "ps:shards=1",
    "combiner": "downpour",
    "batch_size": BATCH,
    "sync_interval": 2,
}
OPTIONS: dict[str, Any] = {"partitions": 1}


def counting() -> Any:
    """Return a model of which each use of a row takes 1 from each of the row's values."""
    import keras

    ids = keras.Input((), dtype="int64", name="ids")
    rows = tos.layers.ServedEmbedding(ROWS, 2, "zeros", cache_rows=8, name="rows")(ids)
    bias = keras.layers.Dense(1, kernel_initializer="ones", trainable=False)(rows)
    few = keras.layers.Embedding(3, 1)(ids % 3)
    model = keras.Model(ids, bias + few)
    model.compile(keras.optimizers.SGD(float(BATCH)), _mean)
    return model


def _mean(labels: Any, values: Any) -> Any:
    import keras

    return keras.ops.mean(values + 0 * labels)


IDS = np.random.default_rng(0).choice(ROWS, 300)[np.random.default_rng(1).integers(0, 300, 1000)]
DATA = IDS, np.zeros((len(IDS), 1), np.float32)


def _rows(run: tos.Run, ids: np.ndarray) -> np.ndarray:
    layer = run.model.get_layer("rows")
    return np.asarray(layer(ids))


def _require_counts(run: tos.Run, epochs: int) -> None:
    different, counts = np.unique(IDS, return_counts=True)
    expected = -epochs * np.repeat(counts[:, None], 2, 1).astype(np.float32)
    assert np.array_equal(_rows(run, different), expected)
    assert not _rows(run, np.array([different[0] + 1])).any()


def test_one_worker_trains_and_predicts_as_keras_does(train: Train, spark: Any) -> None:
    """Adam's moments are kept with the rows; items are in a table that each worker has.

    The driver and the executors predict, evaluate and validate alike.
    """
    model, ours = factors(served=False), factors(served=True)
    table = ours.get_layer("users").table
    model.get_layer("users").set_weights([table.begin(np.arange(table.rows))])
    for name in ("items", "dense"):
        model.get_layer(name).set_weights(ours.get_layer(name).get_weights())
    x, y = ratings()
    model.fit(x, y, 32, 3, shuffle=False, verbose=0)
    options = SERVED | {"batch_size": 32, "sync_interval": 20}
    rated = [(row.tolist(), float(value)) for row, (value,) in zip(x, y, strict=True)]
    frame = spark.createDataFrame(rated, ["pair", "y"])
    run = train(ours, **options).run(
        (x, y), epochs=3, shuffle=False, validation_data=frame, **OPTIONS
    )
    expected = model.predict(x, verbose=0)
    assert np.allclose(ours.predict(x, verbose=0), expected, atol=1e-5)
    assert np.allclose(run.predict(x), expected, atol=1e-5)
    scored = [row.prediction for row in run.predict(frame.limit(50), "pair").collect()]
    assert np.allclose(np.reshape(scored, (-1, 1)), expected[:50], atol=1e-5)
    loss = pytest.approx(model.evaluate(x, y, verbose=0), rel=1e-4)
    assert run.evaluate((x, y))["loss"] == loss
    assert run.evaluate(frame)["loss"] == loss
    assert run.validation["loss"].iloc[-1] == loss


def factors(served: bool) -> Any:
    """Return a compiled model of the factors of users and items."""
    import keras

    keras.utils.set_random_seed(0)
    kind: Any = keras.layers.Embedding
    options: dict[str, Any] = {}
    if served:
        kind, options = tos.layers.ServedEmbedding, {"cache_rows": 640}
    pair = keras.Input((2,), dtype="int32", name="pair")
    users = kind(1000, 8, name="users", **options)(pair[:, 0])
    items = keras.layers.Embedding(4000, 64, name="items")(pair[:, 1])
    both = keras.layers.Concatenate()([users, items])
    model = keras.Model(pair, keras.layers.Dense(1, name="dense")(both))
    model.compile(keras.optimizers.Adam(0.05), "mse")
    return model


def ratings() -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of a user and an item, and what the one thinks of the other."""
    random = np.random.default_rng(0)
    pairs = np.stack([random.integers(0, 100, 640), random.integers(0, 400, 640)], 1)
    return pairs.astype(np.int32), random.random((640, 1), np.float32)


@pytest.mark.parametrize("who", ["shard", "worker"])
def test_each_use_of_a_row_counts_once_if_a_shard_or_a_worker_is_killed(
    train: Train, who: str
) -> None:
    watch, killed = Watch(), list[int]()
    made: list[tos.Run] = []

    def kill_once(event: Any) -> None:
        last = isinstance(event, MilestoneCommitted) and (event.epoch, event.sequence) == (1, 50)
        if last and not killed:
            training: Any = made[0].parts.training
            (serving,) = training.trainer.parameters.commits.group.members()
            (member,) = training.facts(("", 0.0), 2).members
            killed.append(serving.pid if who == "shard" else member.pid)
            os.kill(killed[0], signal.SIGKILL)

    run = train(counting(), **SERVED).start(DATA, epochs=3, sinks=[watch], **OPTIONS)
    made.append(run)
    run.add_sink(kill_once)
    run.wait(120)
    assert killed
    assert len(watch.of(JobRestarted if who == "shard" else WorkerLost)) == 1
    _require_counts(run, 3)


def test_a_run_continues_from_a_checkpoint_and_the_next_run_from_its_model(
    train: Train, tmp_path: Path, spark_context: Any
) -> None:
    session = train(counting(), checkpoint_dir=f"file:{tmp_path}", **SERVED)
    first = session.run(DATA, epochs=1, checkpoint_every=50, **OPTIONS)
    resumed = tos.resume(first.uri, DATA, program=counting(), epochs=2, spark=spark_context)
    resumed.wait(120)
    _require_counts(resumed, 2)
    again = train(resumed.model, **SERVED).run(DATA, epochs=1, **OPTIONS)
    _require_counts(again, 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"strategy": "ps"}, "strategy: expected 'ps:shards=N' for a model with ServedEmbedding"),
        ({"strategy": "allreduce", "combiner": None}, "strategy: expected 'ps:shards=N'"),
        ({"combiner": "fedadam"}, "combiner: expected one that merges rows of ServedEmbedding"),
    ],
)
def test_what_cannot_train_a_served_embedding_is_said_before_anything_starts(
    train: Train, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        train(counting(), **{**SERVED, **options}).start(DATA, **OPTIONS)


def test_what_would_lose_rows_is_refused_and_numpy_saves_them(train: Train, tmp_path: Path) -> None:
    session = train(counting(), **SERVED)
    with pytest.raises(ConfigError, match="keep_best: expected none with ServedEmbedding 'rows'"):
        session.start(DATA, keep_best="val_loss", validation_split=0.1, **OPTIONS)
    run = session.run(DATA, epochs=1, **OPTIONS)
    with pytest.raises(ConfigError, match="expected 'numpy' for a model with ServedEmbedding"):
        run.save(tmp_path / "model.keras")
    with np.load(run.save(tmp_path / "model.npz")) as saved:
        different, counts = np.unique(IDS, return_counts=True)
        assert np.array_equal(saved["rows/ids"], different)
        assert np.array_equal(saved["rows/rows"], -np.repeat(counts[:, None], 2, 1))


def test_a_cache_that_is_too_small_for_a_milestone_is_named(train: Train) -> None:
    run = train(counting(), **SERVED | {"sync_interval": 20}).start(DATA, **OPTIONS)
    with pytest.raises(WorkerError, match=r"room for 8\. Make it with cache_rows="):
        run.wait(60)
