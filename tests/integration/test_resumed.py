"""A run that is resumed has the settings, layout and companions that it was stopped with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import classifier
from tests.support.tracked import curve, store
from tests.support.watching import Watch
from tos_notebook.events import MilestoneCommitted, WorkerJoined

LIMIT = 120.0
WIDTH, ROWS, EPOCHS, SLACK = 600, 1000, 4, 3
SCALE = np.random.default_rng(0).uniform(0.5, 1.5, WIDTH).astype(np.float32)
"""All above 0: what counts twice makes the center larger than it may be."""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No thread outlives a run that was resumed: it closes its own session."""
    before = {t for t in threading.enumerate() if t.name.startswith("tos-")}
    yield
    assert not {t for t in threading.enumerate() if t.name.startswith("tos-")} - before


def wide_counter() -> Any:
    """Return a program whose parameter adds up its rows, wide enough for a codec to be of use."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        rows = v1.placeholder(tf.float32, [None], name="rows")
        labels = v1.placeholder(tf.int64, [None], name="labels")
        total = v1.get_variable("total", initializer=np.zeros(WIDTH, np.float32))
        with tf.control_dependencies([tf.size(labels)]):
            step = v1.assign_add(total, SCALE * tf.reduce_sum(rows))
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        return tos.capture(step, feeds=[rows, labels], loss=tf.reduce_mean(rows), session=session)


def stop_midway(session: tos.TrainingSession, run: tos.Run, watch: Watch, milestones: int) -> str:
    """Stop a run that is slow enough for it; return where it is saved."""
    run.chaos(tos.chaos.Pause(0.02, any=2))
    watch.wait_for(MilestoneCommitted, milestones)
    run.stop()
    session.close()
    assert run.uri is not None
    return run.uri


def ahead(events: list[Any]) -> int:
    """Return how many milestones a partition was ever ahead of another that still trained."""
    lasts = {e.partition: n for n, e in enumerate(events) if isinstance(e, MilestoneCommitted)}
    done: dict[int, int] = {}
    most = 0
    for event in events[: min(lasts.values()) + 1]:
        if isinstance(event, WorkerJoined):
            done[event.partition] = min(done.values(), default=0)
        elif isinstance(event, MilestoneCommitted):
            done[event.partition] += 1
            most = max(most, done[event.partition] - min(done.values()))
    return most


def test_codec_sync_mode_and_layout_come_back_and_no_batch_counts_twice(
    spark_context: Any, tmp_path: Path
) -> None:
    """What the codec had left out by then is lost, and nothing else."""
    layout = tos.partitioners.Dirichlet(2, 1.0, seed=1)
    data = np.ones(ROWS, np.float32), np.arange(ROWS) % 5
    session = tos.TrainingSession(
        spark_context,
        wide_counter(),
        combiner="downpour",
        batch_size=5,
        sync_interval=1,
        sync=f"ssp:{SLACK}",
        codec="topk:0.05+ef/fp32",
        checkpoint_dir=str(tmp_path),
    )
    watch = Watch()
    run = session.start(
        data, EPOCHS, partitioner=layout, checkpoint_every=10, sinks=[watch], seed=3
    )
    run.set(sync_interval=2)
    uri = stop_midway(session, run, watch, 30)
    stopped = run.parameters()["total"].astype(np.float64)
    trained = float(run.history["samples"].sum())
    assert trained < EPOCHS * ROWS
    assert (stopped < SCALE * trained).any()

    later = Watch()
    resumed = tos.resume(uri, spark=spark_context, sinks=[later])
    resumed.chaos(tos.chaos.Pause(0.01, worker=1))
    resumed.wait(LIMIT)
    kept = resumed.settings
    assert (kept.codec, kept.sync, kept.sync_interval) == ("topk:0.05+ef/fp32", "ssp:3", 2)
    history = resumed.history
    assert history["version"].tolist() == list(range(1, len(history) + 1))
    sizes = history.groupby(["epoch", "partition"])["samples"].sum()
    ends, targets = layout.deal(np.bincount(data[1]))
    dealt = np.bincount(targets, np.diff(ends, prepend=0)).tolist()
    assert [sizes[epoch].tolist() for epoch in range(1, EPOCHS + 1)] == [dealt] * EPOCHS
    # One more than the slack, where it waits; another, if its event comes before the slower one's.
    assert 0 < ahead(later.events) <= SLACK + 2
    # One step more of every value is more than a value of a row can round to.
    total, whole = resumed.parameters()["total"], SCALE * EPOCHS * ROWS
    assert (total < whole * (1 + 1e-5)).all()
    assert (total > stopped).all()


def test_callbacks_validation_and_mlflow_continue_where_the_run_was(
    spark_context: Any,
    digits: tuple[np.ndarray, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import keras
    import mlflow

    client = store(tmp_path, monkeypatch)
    x, y, x_test, y_test = digits
    session = tos.TrainingSession(
        spark_context, classifier(), batch_size=50, sync_interval=2, checkpoint_dir=str(tmp_path)
    )
    watch = Watch()
    with mlflow.start_run() as first:
        run = session.start(
            *((x, y), EPOCHS),
            checkpoint_every=5,
            learning_rate=0.25,
            sinks=[watch],
            mlflow=True,
        )
        uri = stop_midway(session, run, watch, 20)
    samples = int(run.history["samples"].sum())
    begun, epochs, batches = [], [], []
    callback = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: begun.append(True),
        on_epoch_end=lambda epoch, logs: epochs.append((epoch, logs["val_loss"])),
        on_train_batch_end=lambda batch, logs: batches.append(batch),
    )
    with mlflow.start_run(first.info.run_id):
        model, later = classifier(), Watch()
        resumed = tos.resume(
            uri,
            spark=spark_context,
            program=model,
            callbacks=[callback],
            validation_data=(x_test, y_test),
            mlflow=True,
            sinks=[later],
        ).wait(LIMIT)
    assert resumed.status.notes == ()
    assert resumed.settings.learning_rate == 0.25
    assert resumed.own_rate == run.own_rate == tos.runs(uri, spark=spark_context)[0].own_rate > 0
    assert resumed.history.groupby("epoch")["samples"].sum().tolist() == [len(x)] * EPOCHS
    assert begun == [True]
    assert [epoch for epoch, _ in epochs] == list(range(epochs[0][0], EPOCHS))
    assert len(batches) == len(later.of(MilestoneCommitted))
    assert epochs[-1][1] == pytest.approx(model.evaluate(x_test, y_test, verbose=0)[0], rel=1e-4)
    steps = [step for step, _ in curve(client, first.info.run_id, "loss")]
    assert steps == sorted({*steps})
    # The run that was stopped logs at its end, too: that may be its only point.
    assert steps[0] <= samples < steps[-1] == EPOCHS * len(x)
