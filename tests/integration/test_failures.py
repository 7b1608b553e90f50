"""What goes wrong while it trains, and what must still hold."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, classifier, counter
from tests.support.watching import Watch
from tos_notebook.events import (
    MilestoneCommitted,
    UpdateSkipped,
    WorkerFailed,
    WorkerJoined,
    WorkerLost,
)

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

TRIES = 4
"""Of a task, which the shared Spark allows: an error is told after no more of them."""


def _usable(spark_context: Any) -> bool:
    return bool(spark_context.parallelize(range(4), 2).sum() == 6)


def test_no_batch_is_lost_or_applied_twice_when_a_worker_is_killed_in_mid_epoch(
    spark_context: Any, train: Train, tmp_path: Path
) -> None:
    values = np.arange(2000.0)

    def note_process(partition: int, records: Any) -> Any:
        (tmp_path / f"pid-{partition}").write_text(str(os.getpid()))
        return records

    rdd = spark_context.parallelize([(v,) for v in values], 2).mapPartitionsWithIndex(note_process)
    killed: list[int] = []
    watch = Watch()

    def kill_once(event: Any) -> None:
        """Kill partition 1's process after its fifth milestone, a few batches into an epoch."""
        is_fifth = isinstance(event, MilestoneCommitted) and event.sequence == 5
        if is_fifth and event.partition == 1 and not killed:
            killed.append(int((tmp_path / "pid-1").read_text()))
            os.kill(killed[0], signal.SIGKILL)

    session = train(counter(), combiner="downpour", batch_size=2, sync_interval=1)
    # Read by the process that trains, not by one that deals the rows.
    run = session.run(rdd, epochs=3, shuffle="partitions", sinks=[watch, kill_once])
    assert killed
    assert run.parameters()["total"].tolist() == [3 * values.sum(), 3 * 2000.0]
    assert run.history["samples"].sum() == 3 * 2000
    assert [e.partition for e in watch.of(WorkerLost)] == [1]
    again = [e for e in watch.of(WorkerJoined) if e.partition == 1][-1]
    assert again.attempt == 1
    assert again.resumed_at >= 5  # went on in mid-epoch, not at its start


def test_a_worker_that_stands_still_loses_its_place_and_no_batch_counts_twice(
    spark_context: Any, train: Train
) -> None:
    """As in a deadlock: the process lives, and says nothing any more; others wait for it."""
    values = np.arange(2000.0)
    watch = Watch()
    stopped: list[int] = []
    made: list[tos.Run] = []

    def stop_once(event: Any) -> None:
        is_fifth = isinstance(event, MilestoneCommitted) and event.sequence == 5
        if is_fifth and event.partition == 1 and not stopped:
            members = made[0].parts.training.facts(("", 0.0), 2).members
            stopped.extend(member.pid for member in members if member.partition == 1)
            os.kill(stopped[0], signal.SIGSTOP)

    session = train(counter(), combiner="downpour", sync="bsp", batch_size=20, sync_interval=1)
    run = session.start((values,), epochs=10, worker_timeout=3.0, sinks=[watch])
    made.append(run)
    run.add_sink(stop_once)
    run.wait(120)
    assert stopped
    assert run.state == "finished"
    assert run.parameters()["total"].tolist() == [10 * values.sum(), 10 * 2000.0]
    lost = next(e for e in watch.of(WorkerLost) if e.partition == 1)
    assert lost.reason.endswith("(worker_timeout=3)")
    assert any(note.startswith("Partition 1 on executor") for note in run.status.notes)
    assert not Path(f"/proc/{stopped[0]}").exists()


def test_task_that_fails_once_is_retried_and_the_run_finishes(
    spark_context: Any, train: Train, watch: Watch
) -> None:
    values = np.arange(100.0)

    def fail_first(partition: int, records: Any) -> Any:
        from pyspark import TaskContext

        if partition == 0 and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the disk was full, for a moment")
        yield from records

    rdd = spark_context.parallelize([(v,) for v in values], 2).mapPartitionsWithIndex(fail_first)
    # The first record, which tells the columns, is looked up by a job of its own.
    # To shuffle the rows before the first epoch is another job, too.
    run = train(counter(), combiner="downpour", batch_size=7).run(rdd, shuffle=False, sinks=[watch])
    assert run.parameters()["total"].tolist() == [values.sum(), 100.0]
    assert [e.partition for e in watch.of(WorkerFailed)] == [0]


def test_a_job_that_somebody_cancels_stops_the_run_and_keeps_the_weights(
    spark_context: Any, train: Train
) -> None:
    cancelled: list[int] = []

    def cancel_once(event: Any) -> None:
        if isinstance(event, MilestoneCommitted) and not cancelled:
            cancelled.append(event.version)
            spark_context.cancelAllJobs()

    session = train(counter(), combiner="downpour", batch_size=7)
    run = session.start((np.arange(100.0),), epochs=100_000, sinks=[cancel_once])
    run.wait(60)
    assert run.state == "stopped"
    assert run.status.reason == "Spark's job was canceled from outside the run"
    assert "cancellation of all jobs" in run.status.notes[0]
    # Whole milestones, each counted once.
    assert run.parameters()["total"][1] == run.history["samples"].sum() > 0
    assert _usable(spark_context)
    assert session.run((np.arange(10.0),)).state == "finished"


def test_exception_in_the_users_data_function_arrives_with_the_users_frames_first(
    spark_context: Any, train: Train, watch: Watch
) -> None:
    def spoil(record: tuple[float]) -> tuple[float]:
        if record[0] == 60.0:
            raise ValueError("record 60 is spoiled")
        return record

    rdd = spark_context.parallelize([(float(v),) for v in range(100)], 2).map(spoil)
    session = train(counter(), combiner="downpour", batch_size=7)
    with pytest.raises(tos.errors.WorkerError, match="record 60 is spoiled") as caught:
        session.run(rdd, epochs=3, shuffle=False, sinks=[watch])
    assert len(watch.of(WorkerFailed)) <= TRIES
    error = caught.value
    assert error.partition == 1
    assert "in spoil" in error.frames[0]
    assert Path(__file__).name in error.frames[0]
    assert _usable(spark_context)
    assert session.run((np.arange(10.0),)).state == "finished"


def test_exception_before_the_first_record_is_a_worker_error_too(
    spark_context: Any, train: Train
) -> None:
    def open_nothing(partition: int, records: Any) -> Any:
        if partition == 1:
            raise FileNotFoundError("no such partition file")
        return records

    rdd = spark_context.parallelize([(1.0,)] * 4, 2).mapPartitionsWithIndex(open_nothing)
    with pytest.raises(tos.errors.WorkerError, match="no such partition file") as caught:
        train(counter()).run(rdd)
    assert "in open_nothing" in caught.value.frames[0]
    assert _usable(spark_context)


def test_failing_tensorflow_step_ends_the_run_with_a_worker_error(
    spark_context: Any, train: Train
) -> None:
    import keras

    model = keras.Sequential(
        [keras.Input((), dtype="int32"), keras.layers.Embedding(10, 4), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    x = np.arange(40, dtype=np.int32)  # from 10 on no index of the embedding
    with pytest.raises(tos.errors.WorkerError, match=r"InvalidArgumentError.*not in") as caught:
        train(model, batch_size=5, sync_interval=1).run((x, np.zeros((40, 1), np.float32)))
    assert "embedding" in caught.value.frames[0]
    assert _usable(spark_context)


def test_a_row_that_is_not_finite_ends_the_run_and_keeps_finite_weights(
    train: Train, digits: Digits
) -> None:
    x, y, *_ = digits
    x = x.copy()
    x[700, 3] = np.nan
    session = train(captured_classifier(), batch_size=32, sync_interval=2)
    with pytest.raises(tos.errors.DataError, match=r"Row 700 of the arrays .* got nan\."):
        session.run((x, y), epochs=2, shuffle=False)
    assert all(
        np.isfinite(w).all()
        for w in session.program.layout.tensors(session.program.read()).values()
    )


def test_non_finite_updates_are_left_out_where_the_user_says_so(
    train: Train, digits: Digits, watch: Watch
) -> None:
    x, y, x_test, y_test = digits
    x = x.copy()
    x[700, 3] = np.nan
    model = classifier()
    # It takes what is not finite into its moments, by which no later update would be finite.
    model.compile("adam", model.loss, metrics=["accuracy"])
    session = train(model, batch_size=32, sync_interval=2, non_finite="skip")
    run = session.run((x, y), epochs=10, sinks=[watch])
    assert len(watch.of(UpdateSkipped)) == 10
    assert run.evaluate(x_test, y_test)["accuracy"] > 0.85


@pytest.mark.parametrize(
    ("combiner", "text"),
    [
        (lambda center, update, push: 1 / 0, "ZeroDivisionError"),
        (lambda center, update, push: center[:1], "shape"),
        (lambda center, update, push: center * np.nan, "NaN"),
    ],
    ids=["raises", "wrong shape", "not finite"],
)
def test_broken_combiner_ends_the_run_with_its_own_error(
    train: Train, digits: Digits, combiner: Any, text: str
) -> None:
    x, y, *_ = digits
    model = classifier()
    before = model.get_weights()
    with pytest.raises(tos.errors.CombinerError, match=text):
        train(model, combiner=combiner, batch_size=32).run((x, y))
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_unreachable_server_is_named_with_what_to_set(spark_context: Any, train: Train) -> None:
    session = train(counter(), server_host="no-such-host.invalid")
    with pytest.raises(
        tos.errors.ClusterUnreachable, match=r"no-such-host.invalid:\d+.*server_host"
    ):
        session.run((np.arange(10.0),))
    assert _usable(spark_context)


def test_closing_a_session_stops_its_run_and_keeps_the_weights(
    spark_context: Any, train: Train, digits: Digits, watch: Watch
) -> None:
    x, y, *_ = digits
    session = train(captured_classifier(), batch_size=16, sync_interval=1)
    run = session.start((x, y), epochs=100_000, sinks=[watch])
    watch.wait_for(MilestoneCommitted, 5)
    session.close()
    session.close()
    assert run.state == "stopped"
    with pytest.raises(tos.errors.SessionClosed):
        session.start((x, y))
    assert not list(spark_context.statusTracker().getActiveJobsIds())
