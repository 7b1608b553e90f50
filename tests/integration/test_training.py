"""Training on real Spark, as a user calls it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, classifier, counter
from tests.support.long import few
from tests.support.watching import Watch
from tos_notebook.errors import ConfigError, DataError
from tos_notebook.events import (
    CommandApplied,
    EpochFinished,
    MilestoneCommitted,
    Repartitioned,
    RunFinished,
    StateChanged,
)

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def test_keras_model_learns_real_digits_and_holds_the_trained_weights(
    train: Train, digits: Digits
) -> None:
    x, y, x_test, y_test = digits
    model = classifier()
    before = model.get_weights()
    session = train(model, batch_size=32, sync_interval=5)
    run = session.run((x, y), epochs=15)
    assert run.state == "finished"
    found = run.evaluate(x_test, y_test)
    assert found["accuracy"] > 0.93
    assert model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"] == pytest.approx(
        found["accuracy"]
    )
    assert any((a != b).any() for a, b in zip(before, model.get_weights(), strict=True))


def test_a_session_shows_how_far_its_run_is(
    train: Train, digits: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y, *_ = digits
    session, seen = train(captured_classifier(), batch_size=50), list[Any]()
    session.run((x, y), epochs=2, verbose=True, sinks=[seen.append])
    last = capsys.readouterr().out.splitlines()[-1]
    assert "  epoch 2/2  milestones " in last
    assert last.endswith("finished")
    assert isinstance(seen[-1], RunFinished)
    session.run((x, y))
    assert capsys.readouterr().out == ""


@pytest.mark.long
def test_adam_learns_where_its_state_is_reset(train: Train, digits: Digits) -> None:
    import keras

    x, y, x_test, y_test = digits
    model = classifier()
    model.compile(keras.optimizers.Adam(0.005), model.loss, metrics=["accuracy"])
    session = train(model, batch_size=32, sync_interval=5, optimizer_state="reset")
    run = session.run((x, y), epochs=10)
    assert run.evaluate(x_test, y_test)["accuracy"] > 0.9


def test_history_accounts_for_every_batch_of_every_epoch(train: Train, digits: Digits) -> None:
    x, y, *_ = digits
    run = train(captured_classifier(), batch_size=50, sync_interval=4).run((x, y), epochs=3)
    history = run.history
    assert history.groupby("epoch")["samples"].sum().tolist() == [len(x)] * 3
    # 1437 rows in two partitions: 718 and 719 rows, 15 batches each, the last one partial.
    assert history.groupby(["epoch", "partition"])["steps"].sum().tolist() == [15] * 6
    assert {"loss", "accuracy", "staleness", "compute", "wait", "exchange"} <= {*history.columns}
    assert (history["version"].sort_values().to_numpy() == np.arange(1, len(history) + 1)).all()
    assert np.isfinite(history["loss"]).all()
    workers = run.workers
    assert workers["samples"].sum() == 3 * len(x)
    assert (workers["cpu"] > 0).all()
    # Each has TensorFlow in its process.
    assert (workers["memory"] > 100e6).all()
    assert run.status.milestones == len(history)
    assert len(run.figure().data) > 0


def test_rdd_with_uneven_and_empty_partitions_outnumbering_the_slots_is_used_up(
    spark_context: Any, train: Train
) -> None:
    values = np.arange(1.0, 102.0)
    sizes = [0, 70, 1, 0, 30]
    ends = np.cumsum(sizes)
    parts = [values[end - size : end].tolist() for end, size in zip(ends, sizes, strict=True)]
    rdd = spark_context.parallelize(range(5), 5).flatMap(lambda p: [(v,) for v in parts[p]])
    program = counter()
    run = train(program, combiner="downpour", batch_size=8, sync_interval=2).run(rdd, epochs=3)
    total = run.parameters()["total"]
    assert total.tolist() == [3 * values.sum(), 3 * 101.0]
    assert run.history.groupby("epoch")["samples"].sum().tolist() == [101] * 3


@pytest.mark.parametrize("kind", few(["arrays", "rdd"], "rdd"))
def test_a_partitioner_by_label_lays_the_rows_out_before_the_first_epoch_and_while_it_trains(
    spark_context: Any, train: Train, digits: Digits, watch: Watch, kind: str
) -> None:
    x, y, *_ = digits
    data = (x, y)
    if kind == "rdd":
        data = spark_context.parallelize(list(zip(x, y, strict=True)), 5)
    first, second = tos.partitioners.Dirichlet(2, 0.3, seed=2), tos.partitioners.Shards(2, 3)
    session = train(captured_classifier(), batch_size=50)
    run = session.start(data, epochs=20, partitioner=first, sinks=[watch])
    run.repartition(2, second)
    run.wait(60)
    assert len(watch.of(Repartitioned)) == 1
    sizes = run.history.groupby(["epoch", "partition"])["samples"].sum()
    for epoch, partitioner in ((1, first), (20, second)):
        ends, targets = partitioner.deal(np.bincount(y))
        pieces = np.diff(ends, prepend=0)
        assert sizes[epoch].tolist() == np.bincount(targets, pieces).tolist()
    assert sizes[1].tolist() != sizes[20].tolist()


def test_a_partitioner_that_does_not_fit_starts_nothing(train: Train, digits: Digits) -> None:
    x, y, *_ = digits
    session = train(captured_classifier())
    few = tos.partitioners.Shards(2000)
    with pytest.raises(ConfigError, match="each of its 4000 shards, got 1437 rows"):
        session.start((x, y), partitioner=few)
    with pytest.raises(ConfigError, match=r"^partitions: expected 2000, .* got 3\."):
        session.start((x, y), partitions=3, partitioner=few)


def test_labels_that_spark_finds_to_be_none_end_the_run(
    spark_context: Any, train: Train, digits: Digits
) -> None:
    import keras

    x, y, *_ = digits
    # A regression takes such labels; Shards does not.
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    rdd = spark_context.parallelize(list(zip(x, y[:, None] + np.float32(0.5), strict=True)), 2)
    run = train(model).start(rdd, partitioner=tos.partitioners.Shards(2))
    with pytest.raises(DataError, match="Expected class labels"):
        run.wait(60)


def test_longer_tuples_feed_several_inputs(spark_context: Any, train: Train) -> None:
    import keras

    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    output = keras.layers.Dense(1)(keras.layers.Concatenate()([a, b]))
    model = keras.Model([a, b], output)
    model.compile(keras.optimizers.SGD(0.05), "mse")
    rng = np.random.default_rng(0)
    xa, xb = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    y = (xa.sum(1) - xb.sum(1))[:, None]
    records = [(xa[i], xb[i], y[i]) for i in range(200)]
    run = train(model, batch_size=10, sync_interval=2).run(
        spark_context.parallelize(records, 2), epochs=10
    )
    assert run.evaluate(xa, xb, y)["loss"] < 0.1


@pytest.mark.parametrize("distributed", few([False, True], True), ids=["arrays", "rdd"])
def test_validation_data_are_evaluated_while_it_trains(
    spark_context: Any, train: Train, digits: Digits, distributed: bool
) -> None:
    x, y, x_test, y_test = digits
    test: Any = (x_test, y_test)
    if distributed:
        test = spark_context.parallelize(list(zip(x_test, y_test, strict=True)), 2)
    run = train(captured_classifier(), batch_size=32).run((x, y), epochs=8, validation_data=test)
    found = run.validation
    assert found["epoch"].is_monotonic_increasing
    assert found.iloc[-1]["samples"] == 8 * len(x)
    # The last is that of the weights that the run leaves behind.
    expected = run.evaluate(x_test, y_test)
    assert found.iloc[-1]["loss"] == pytest.approx(expected["loss"], rel=1e-4)
    assert found.iloc[-1]["accuracy"] == pytest.approx(expected["accuracy"])


def test_validation_data_that_do_not_fit_are_refused_before_anything_starts(
    train: Train, digits: Digits
) -> None:
    x, y, *_ = digits
    session = train(captured_classifier())
    with pytest.raises(tos.errors.ShapeMismatch):
        session.start((x, y), validation_data=(x[:, :3], y))
    assert session.run((x, y)).state == "finished"


def test_graph_program_trains_and_the_session_holds_the_values(
    train: Train, digits: Digits
) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    x, y, x_test, y_test = digits
    with tf.Graph().as_default():
        images = v1.placeholder(tf.float32, [None, 64])
        labels = v1.placeholder(tf.int64, [None])
        w, b = v1.get_variable("w", [64, 10]), v1.get_variable("b", [10])
        logits = images @ w + b
        loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
        hit = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
        step = v1.train.AdamOptimizer(0.02).minimize(loss)
        session = v1.Session()
        session.run(v1.global_variables_initializer())
    program = tos.capture(
        step, feeds=[images, labels], loss=loss, metrics={"hit": hit}, session=session
    )
    run = train(program, batch_size=32, sync_interval=3).run((x, y), epochs=8)
    assert session.run(hit, {images: x_test, labels: y_test}) > 0.9
    assert run.history["hit"].iloc[-4:].mean() > 0.9
    assert {s.name for s in program.layout.specs} == {"w", "b"}  # Adam's state stays local


def test_pause_stops_the_milestones_and_resume_goes_on(
    train: Train, digits: Digits, watch: Watch
) -> None:
    x, y, *_ = digits
    session = train(captured_classifier(), batch_size=32, sync_interval=2)
    run = session.start((x, y), epochs=500, sinks=[watch])
    watch.wait_for(MilestoneCommitted, 4)
    run.pause()
    paused = watch.wait_for(CommandApplied)[0]
    count = run.status.milestones
    late = [e for e in watch.of(MilestoneCommitted) if e.time > paused.time]
    assert (run.state, late) == ("paused", [])
    with pytest.raises(tos.errors.InvalidTransition, match="paused already"):
        run.pause()
    run.unpause()
    watch.wait_for(MilestoneCommitted, count + 4)
    run.stop()
    assert run.state == "stopped"
    assert [e.state for e in watch.of(StateChanged)] == [
        "running",
        "paused",
        "running",
        "stopping",
        "stopped",
    ]


def test_stop_keeps_the_weights_and_the_session_trains_again(
    train: Train, digits: Digits, watch: Watch
) -> None:
    x, y, *_ = digits
    model = classifier()
    session = train(model, batch_size=32, sync_interval=2)
    run = session.start((x, y), epochs=10_000, sinks=[watch])
    watch.wait_for(MilestoneCommitted, 10)
    run.stop()
    kept = run.parameters()
    for weight in model.weights:
        np.testing.assert_array_equal(weight.numpy(), kept[weight.path])
    run.stop(reason="a second time")
    assert (run.state, run.status.reason) == ("stopped", None)
    assert session.run((x, y), epochs=1).state == "finished"


def test_settings_and_combiner_change_while_it_trains(
    train: Train, digits: Digits, watch: Watch
) -> None:
    x, y, *_ = digits
    session = train(captured_classifier(), batch_size=16, sync_interval=2)
    run = session.start((x, y), epochs=10_000, sinks=[watch])
    watch.wait_for(MilestoneCommitted, 4)
    run.set(learning_rate=0.01, sync_interval=7)
    watch.wait_for(CommandApplied, 1)
    for number, combiner in enumerate(("easgd", "fedasync", "dynsgd"), 2):
        run.swap_combiner(combiner)
        watch.wait_for(CommandApplied, number)
    seen = len(watch.of(MilestoneCommitted))
    rows = watch.wait_for(MilestoneCommitted, seen + 6)
    run.stop()
    # 45 batches in a partition's epoch: six milestones of 7, one of 3.
    assert {row.steps for row in rows[-6:]} <= {7, 3}
    assert all(np.isfinite(row.loss) for row in rows)
    assert run.state == "stopped"


def test_repartition_on_demand_lays_every_record_out_anew(
    spark_context: Any, train: Train, watch: Watch
) -> None:
    values = np.arange(1000.0)
    rdd = spark_context.parallelize([(v,) for v in values], 2)
    session = train(counter(), combiner="downpour", batch_size=10, sync_interval=1)
    run = session.start(rdd, epochs=6, sinks=[watch])
    watch.wait_for(MilestoneCommitted, 2)
    run.repartition(3)
    run.wait(60)
    assert watch.of(Repartitioned)[0].partitions == 3
    assert run.history.groupby("epoch")["samples"].sum().tolist() == [1000] * 6
    assert run.history[run.history["epoch"] == 6]["partition"].nunique() == 3
    assert run.parameters()["total"].tolist() == [6 * values.sum(), 6000.0]
    assert [e.epoch for e in watch.of(EpochFinished)] == list(range(6))


@pytest.mark.long
def test_repartition_every_epoch_counts_every_row_once(train: Train, watch: Watch) -> None:
    values = np.arange(1000.0)
    session = train(counter(), combiner="downpour", batch_size=10, sync_interval=3)
    run = session.run((values,), epochs=4, repartition_every=2, sinks=[watch])
    assert [e.epoch for e in watch.of(Repartitioned)] == [2]
    assert run.parameters()["total"].tolist() == [4 * values.sum(), 4000.0]
    assert watch.of(RunFinished)[0].outcome == "finished"


@pytest.mark.parametrize(
    "combiner",
    few(["downpour", "dynsgd", "adag", "easgd", "fedasync", "mean"], "adag", "mean"),
)
def test_combiners_of_changes_and_of_parameters_train(
    train: Train, digits: Digits, combiner: str
) -> None:
    x, y, *_ = digits
    run = train(captured_classifier(), combiner=combiner, batch_size=32, sync_interval=2).run(
        (x, y), epochs=6
    )
    losses = run.history["loss"]
    assert losses.iloc[-6:].mean() < 0.6 * losses.iloc[:2].mean()


def test_users_own_combiner_is_asked_in_the_driver_only(train: Train, digits: Digits) -> None:
    x, y, *_ = digits
    seen: set[str] = set()  # not shared with any other process

    class Halfway:
        def compute(self, origin_weight, new_weight, worker_id=-1, name=None):  # type: ignore[no-untyped-def]
            seen.add(name)
            return (origin_weight + new_weight) / 2

    run = train(captured_classifier(), combiner=Halfway(), batch_size=32, sync_interval=3).run(
        (x, y), epochs=3
    )
    assert seen == set(run.parameters())


def test_program_and_initial_values_are_persisted_where_the_user_says(
    train: Train, digits: Digits, tmp_path: Any
) -> None:
    x, y, *_ = digits
    model = classifier()
    before = tos.capture(model).read().tobytes()
    run = train(model, checkpoint_dir=f"file://{tmp_path}/persisted").run((x, y))
    names = {p.name: p for p in (tmp_path / "persisted").iterdir() if not p.name.startswith(".")}
    assert any(n.startswith("program-") and n.endswith(".zip") for n in names)
    assert names[f"{run.run_id}.initial"].read_bytes() == before


def test_an_interrupt_in_a_script_ends_the_wait_and_not_the_run(
    train: Train, digits: Digits, watch: Watch, spark_context: Any
) -> None:
    def as_pyspark_s(number: int, frame: Any) -> None:
        try:
            spark_context.cancelAllJobs()
        finally:
            raise KeyboardInterrupt

    as_pyspark_s.__module__ = "pyspark.core.context"
    before = signal.signal(signal.SIGINT, as_pyspark_s)
    try:
        x, y, *_ = digits
        run = train(captured_classifier(), batch_size=32).start(
            (x, y), epochs=10_000, sinks=[watch]
        )
        watch.wait_for(MilestoneCommitted, 2)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        run.wait_for(milestones=10)
        assert run.state == "running"
        assert run.stop().status.notes == ()
    finally:
        signal.signal(signal.SIGINT, before)
