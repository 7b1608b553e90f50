"""What travels, and who waits for whom, with real Spark and real TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier
from tests.support.long import few
from tests.support.watching import Watch
from tos_notebook.cluster.files import executor_folder
from tos_notebook.events import CommandApplied, WorkerJoined, WorkerLost

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

SIZE = 600
CODEC = "topk:0.05+ef"
"""Sends 30 values of 600: the rest has to wait in the partition's memory."""


def adder() -> Any:
    """Return a graph program that adds what it is fed to its parameters."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        rows = v1.placeholder(tf.float32, [None, SIZE], name="rows")
        total = v1.get_variable("total", initializer=np.zeros(SIZE, np.float32))
        add = v1.assign_add(total, tf.reduce_sum(rows, axis=0))
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        return tos.capture(add, feeds=[rows], loss=tf.reduce_mean(rows), session=session)


def partition(number: int, rows: int, zeros: int) -> list[tuple[np.ndarray]]:
    """Return records; the zeros leave time to send what the others have left behind."""
    random = np.random.default_rng(number)
    data = random.normal(size=(rows, SIZE)).astype(np.float32)
    return [(row,) for row in [*data, *np.zeros((zeros, SIZE), np.float32)]]


def test_what_updates_left_out_survives_that_the_worker_is_killed(
    spark_context: Any, train: Train, watch: Watch
) -> None:
    rows = [row for number in range(2) for row in partition(number, 8, 40)]
    options = {"batch_size": 1, "sync_interval": 1, "combiner": "downpour", "codec": CODEC}
    session = train(adder(), **options)
    run = session.start(spark_context.parallelize(rows, 2), shuffle=False, sinks=[watch])
    run.chaos(tos.chaos.Kill(worker=1, at=6))
    assert run.wait(120).state == "finished"
    assert [event.partition for event in watch.of(WorkerLost)] == [1]
    again = [e for e in watch.of(WorkerJoined) if e.partition == 1][-1]
    assert again.resumed_at == 5  # while there was something to lose
    np.testing.assert_allclose(run.parameters()["total"], np.sum(rows, axis=0)[0], atol=1e-3)
    assert list(executor_folder().glob(f"tos-{run.run_id}.*")) == []


def test_what_updates_left_out_survives_from_one_job_to_the_next(
    spark_context: Any, train: Train
) -> None:
    """More partitions than slots: every epoch is a job, and its end comes with memories full."""
    rows = [row for number in range(3) for row in reversed(partition(number, 4, 30))]
    rdd = spark_context.parallelize(rows, 3)
    session = train(
        adder(), batch_size=1, sync_interval=1, combiner="downpour", codec=CODEC, sync="ssp:3"
    )
    run = session.run(rdd, epochs=2, shuffle=False)
    once = np.sum(rows, axis=0)[0]
    arrived = run.parameters()["total"] - once
    # All of the first epoch is there, and of the second just what its last four pushes sent.
    assert 0 < np.count_nonzero(np.abs(arrived) > 1e-4) <= 3 * 4 * 30


@pytest.mark.parametrize("sync", few(["bsp", "ssp:2"], "bsp"))
def test_more_partitions_than_slots_learn_in_every_sync_mode(
    train: Train, digits: Digits, sync: str
) -> None:
    x, y, x_test, y_test = digits
    session = train(captured_classifier(), batch_size=16, sync_interval=2, sync=sync, codec="int8")
    run = session.run((x, y), epochs=4, partitions=3)
    assert run.history["samples"].sum() == 4 * len(x)
    assert run.evaluate(x_test, y_test)["accuracy"] > 0.8
    assert run.history["wait"].max() > 0


def test_sync_mode_and_codec_change_while_it_trains(train: Train, digits: Digits) -> None:
    x, y, x_test, y_test = digits
    watch = Watch()
    session = train(captured_classifier(), batch_size=16, sync_interval=1)
    run = session.start((x, y), epochs=20, sinks=[watch])
    for number, change in enumerate(
        [{"sync": "bsp"}, {"codec": "sign+ef"}, {"sync": "ssp:1", "codec": "int8"}], 1
    ):
        run.set(**change)  # type: ignore[arg-type]
        watch.wait_for(CommandApplied, number)
    assert run.settings.sync == "ssp:1"
    assert run.settings.codec == "int8"
    run.wait(120)
    assert run.history["samples"].sum() == 20 * len(x)
    assert run.evaluate(x_test, y_test)["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sync": "spp"}, "expected 'asp'"),
        ({"codec": "int9"}, "codec: No codec is named 'int9'. Did you mean int8"),
        ({"codec": "sign"}, r"Write sign\+ef"),
        ({"codec": "topk:2+ef"}, "topk"),
        ({"codec": "topk:0.1+ef", "combiner": "median"}, "median compares whole updates"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    train: Train, digits: Digits, options: dict[str, str], message: str
) -> None:
    x, y, _, _ = digits
    with pytest.raises(tos.errors.ConfigError, match=message):
        train(captured_classifier(), **options).start((x, y))
    assert train(captured_classifier()).run((x, y)).state == "finished"
