"""A captured TF1 graph is trained on variables of TensorFlow's own servers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.faults import counting
from tests.integration.conftest import classifier, counter
from tests.support.long import few
from tests.support.watching import Watch
from tos_notebook.coordination.settings import Settings
from tos_notebook.errors import ConfigError, InvalidTransition, UnsupportedProgram
from tos_notebook.events import CheckpointWritten, CommandApplied, MilestoneCommitted
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.nodes.ports import _outer_addresses
from tos_notebook.steering.machine import Command
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.tensorflow.settings import SessionSettings

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
SYNC = {"strategy": "tensorflow:sync"}


def digits_graph(resource: bool = True, seed: int = 0) -> Any:
    """Return a TF1 graph that learns 8x8 digits by momentum, with its learning rate."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(seed)
        x = v1.placeholder(tf.float32, [None, 64], name="x")
        y = v1.placeholder(tf.int64, [None], name="y")
        w = v1.get_variable("w", [64, 10], use_resource=resource)
        b = v1.get_variable("b", [10], initializer=v1.zeros_initializer(), use_resource=resource)
        rate = v1.get_variable("rate", initializer=0.1, trainable=False, use_resource=resource)
        logits = tf.matmul(x, w) + b
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        )
        right = tf.equal(tf.argmax(logits, 1), y)
        accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
        step = v1.train.get_or_create_global_step()
        train = v1.train.MomentumOptimizer(rate, 0.5).minimize(loss, global_step=step)
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        return tos.capture(
            train,
            feeds=[x, y],
            loss=loss,
            metrics={"accuracy": accuracy},
            learning_rate=rate,
            session=session,
        )


@pytest.mark.long
@pytest.mark.parametrize("resource", few([True, False], True), ids=["resources", "references"])
def test_a_graph_learns_digits_on_variables_of_two_servers(
    train: Train, digits: Digits, resource: bool
) -> None:
    program = digits_graph(resource)
    strategy = tos.strategies.TensorFlowCluster(ps=2)
    run = train(program, strategy=strategy, batch_size=32).run(digits[:2], epochs=4)
    history = run.history
    assert history["samples"].sum() == 4 * 1437
    losses = history.groupby("epoch")["loss"].mean().tolist()
    assert losses[-1] < losses[0] / 2
    assert program.evaluate(digits[2:])["accuracy"] > 0.85


def test_every_batch_counts_once_and_the_servers_end_with_the_run(
    train: Train, watch: Watch
) -> None:
    program, before = counter(), children()
    rows = np.arange(1.0, 1001.0)
    session = train(program, strategy="tensorflow", batch_size=7)
    run = session.start((rows,), epochs=2, sinks=[watch])
    run.chaos(tos.chaos.Pause(0.02, any=2))
    with pytest.raises(InvalidTransition, match="swap strategy"):
        run.swap_strategy("ps")
    watch.until(MilestoneCommitted)
    are_kept_from_the_network(run)
    run.chaos()
    run.wait(120)
    assert list(run.parameters()["total"]) == [2 * rows.sum(), 2000.0]
    # How often others change the variables between a worker's steps is not counted.
    assert run.history["staleness"].isna().all()
    assert np.isnan(run.status.staleness)
    assert (run.workers["memory"] > 100e6).all()
    assert children() == before


@pytest.mark.parametrize("sync", few([False, True], True), ids=["apart", "sync"])
def test_the_state_of_an_optimizer_is_on_the_server_of_its_variable(
    train: Train, sync: bool
) -> None:
    """Of three parameters, the last one has momentum, the fourth variable."""
    strategy = tos.strategies.TensorFlowCluster(ps=2, sync=sync)
    session = train(counting.program(), strategy=strategy, batch_size=1)
    run = session.run((np.arange(1.0, 41.0),), shuffle=False)
    workers = 2 if sync else 1
    assert counting.counted(run) == (820 / workers, 40 / workers)


@pytest.mark.parametrize("options", few([{"sync_interval": 2}, SYNC], SYNC))
def test_a_paused_run_moves_no_variable_and_continues_by_another_learning_rate(
    train: Train, digits: Digits, watch: Watch, options: dict[str, Any]
) -> None:
    session = train(digits_graph(), **{"strategy": "tensorflow", "batch_size": 16, **options})
    run = session.start(digits[:2], epochs=3, sinks=[watch], learning_rate=0.05)
    run.chaos(tos.chaos.Pause(0.02, any=2))
    mark = watch.until(MilestoneCommitted, count=4)
    run.pause()
    watch.until(CommandApplied, mark, lambda event: event.command == Command.PAUSE)
    before = run.parameters()
    run.chaos()
    run.set(learning_rate=1e-30)
    assert all(np.array_equal(run.parameters()[name], before[name]) for name in before)
    run.unpause()
    run.wait(120)
    # Momentum that is left moves them a little, and new gradients do not.
    assert run.history["samples"].sum() == 3 * 1437
    moved = max(float(np.abs(run.parameters()[name] - before[name]).max()) for name in before)
    assert moved < 0.1


@pytest.mark.long
def test_a_stopped_run_is_resumed_with_what_counts_and_no_more(
    spark_context: Any, watch: Watch, tmp_path: Path
) -> None:
    rows = np.arange(1.0, 1001.0)
    session = tos.TrainingSession(
        spark_context,
        counter(),
        strategy="tensorflow",
        batch_size=10,
        sync_interval=2,
        checkpoint_dir=str(tmp_path),
    )
    run = session.start((rows,), epochs=2, checkpoint_every="3 milestones", sinks=[watch])
    run.chaos(tos.chaos.Pause(0.02, any=2))
    watch.until(CheckpointWritten)
    run.stop()
    session.close()
    counted = run.history["samples"].sum()
    assert run.parameters()["total"][1] == counted < 2000
    resumed = tos.resume(run.uri, spark=spark_context)
    resumed.wait(120)
    assert list(resumed.parameters()["total"]) == [2 * rows.sum(), 2000.0]


def are_kept_from_the_network(run: tos.Run) -> None:
    """Check where the one server of a run on this host listens."""
    (address,) = run.lifecycle.parts.training.trainer.parameters.addresses
    port = int(address.rpartition(":")[2])
    outer = {host for family, (host, *_) in _outer_addresses(port) if family == socket.AF_INET}
    # The kernel prefers sockets that listen on the very address; these never answer.
    assert outer <= listening(port)


def listening(port: int) -> set[str]:
    """Return the IPv4 addresses on which somebody listens on a port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    places = [line[1].split(":") for line in lines if line[3] == "0A"]
    return {
        socket.inet_ntoa(bytes.fromhex(host)[::-1]) for host, at in places if int(at, 16) == port
    }


def children() -> set[str]:
    """Return the processes of this one that keep variables."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = folder.joinpath("cmdline").read_bytes()
            parent = folder.joinpath("stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"variable_server" in words and int(parent) == os.getpid():
            found.add(folder.name)
    return found


def test_what_does_not_apply_is_refused(train: Train) -> None:
    with pytest.raises(UnsupportedProgram, match="captured TF1 graph for strategy 'tensorflow'"):
        train(classifier(), strategy="tensorflow")
    for options in ({"combiner": "fedavg"}, {"codec": "int8"}, {"sync": "ssp:3"}):
        with pytest.raises(ConfigError, match=f"{next(iter(options))}: expected"):
            train(counter(), strategy="tensorflow", **options)
    with pytest.raises(ConfigError, match="optimizer_state: expected 'keep'"):
        train(counter(), strategy="tensorflow", optimizer_state="reset")
    with pytest.raises(ConfigError, match="non_finite: expected 'raise'"):
        train(counter(), strategy="tensorflow", non_finite="skip").start((np.arange(10.0),))


def test_servers_beyond_this_host_need_to_be_asked_for() -> None:
    strategy = tos.strategies.TensorFlowCluster()
    layout = Layout((ParameterSpec("w", (), "float32"),))
    setup = TrainerSetup(
        layout, layout.allocate(), Settings(SessionSettings(), 10), host="192.0.2.7"
    )
    with pytest.raises(ConfigError, match="insecure_network=True"):
        strategy.trainer(setup)


def test_no_run_is_swapped_to_the_strategy(train: Train) -> None:
    run = train(counter(), batch_size=10).start((np.arange(100.0),), epochs=3)
    with pytest.raises(ConfigError, match="Start another run"):
        run.swap_strategy("tensorflow")
    run.wait(120)


def alone(digits: Digits, batch: int, epochs: int) -> dict[str, np.ndarray]:
    """Return the variables that one session trains, on batches of two partitions' rows."""
    program = digits_graph()
    x, y = digits[:2]
    half = (len(y) + 1) // 2
    parts = [slice(0, half), slice(half, len(y))]
    for _ in range(epochs):
        for start in range(0, half, batch):
            rows = np.concatenate(
                [np.arange(len(y))[part][start : start + batch] for part in parts]
            )
            feed = dict(zip(program._feeds, (x[rows], y[rows]), strict=True))
            program._session.run(program._train, feed)
    values = program.layout.tensors(program.read())
    return {name: np.array(value) for name, value in values.items()}


# So do two of which one is killed, in test_served_variables_faults.py.
@pytest.mark.long
def test_two_workers_in_step_train_as_one_process(
    spark_context: Any, train: Train, digits: Digits
) -> None:
    data = digits[0][:1000], digits[1][:1000]
    session = train(digits_graph(), strategy="tensorflow:sync", batch_size=32)
    run = session.run(data, epochs=2, shuffle=False)
    assert run.history["samples"].sum() == 2000
    expected = alone(data + digits[2:], 32, 2)
    for name, value in run.parameters().items():
        assert np.abs(value - expected[name]).max() < 1e-5
    # As many steps as the longer partition has batches.
    assert run.history["version"].max() == 2 * 16


def test_uneven_partitions_end_and_every_row_counts(spark_context: Any, train: Train) -> None:
    x = np.random.default_rng(0).normal(size=(130, 64)).astype(np.float32)
    records = [(row, 1) for row in x]
    parts = [spark_context.parallelize(part, 1) for part in (records[:30], records[30:])]
    rdd = parts[0].union(parts[1])
    session = train(digits_graph(), strategy="tensorflow:sync", batch_size=10)
    run = session.run(rdd, epochs=2, shuffle="partitions")
    assert run.history.groupby("epoch")["samples"].sum().tolist() == [130, 130]
    assert run.history["version"].max() == 20
