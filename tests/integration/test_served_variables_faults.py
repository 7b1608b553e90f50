"""Workers and servers of TensorFlow's own variables die, pause and come back: what counts stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter
from tests.integration.test_served_variables import alone, children, digits_graph
from tests.support.long import few
from tests.support.watching import Watch
from tos_notebook.errors import ClusterUnreachable
from tos_notebook.events import (
    CheckpointWritten,
    MilestoneCommitted,
    WorkerJoined,
    WorkerLost,
)

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

BOTH = pytest.mark.parametrize(
    "strategy", few(["tensorflow", "tensorflow:sync"], "tensorflow:sync")
)


def noting(sc: Any, folder: Path, records: list[Any], parts: int = 2) -> Any:
    """Return records as partitions that write down who reads them."""

    def note(partition: int, rows: Any) -> Any:
        (folder / f"pid-{partition}").write_text(str(os.getpid()))
        return rows

    return sc.parallelize(records, parts).mapPartitionsWithIndex(note)


class Killer:
    """A sink that ends a process once, when partition 1 has reported its fifth milestone."""

    def __init__(self, process: Callable[[], int]) -> None:
        self._process = process
        self.killed: list[int] = []

    def __call__(self, event: Any) -> None:
        """See `Killer`."""
        fifth = isinstance(event, MilestoneCommitted) and event.sequence == 5
        if fifth and event.partition == 1 and not self.killed:
            self.killed.append(self._process())
            os.kill(self.killed[0], signal.SIGKILL)


def worker_of(folder: Path) -> Callable[[], int]:
    """Return what finds the process that trains partition 1."""
    return lambda: int((folder / "pid-1").read_text())


def server() -> int:
    """Return the process of the first server."""
    return min(map(int, children()))


def usable(sc: Any) -> bool:
    """Return whether Spark runs jobs."""
    return bool(sc.parallelize(range(4), 2).sum() == 6)


def check_replaced(watch: Watch) -> None:
    """Check that partition 1 was lost once, and continued in mid-epoch."""
    assert [e.partition for e in watch.of(WorkerLost)] == [1]
    again = [e for e in watch.of(WorkerJoined) if e.partition == 1][-1]
    assert (again.attempt, again.resumed_at >= 5) == (1, True)


def test_a_worker_that_dies_is_replaced_and_the_others_continue_without_it(
    spark_context: Any, train: Train, watch: Watch, tmp_path: Path
) -> None:
    values = np.arange(1.0, 1001.0)
    rdd = noting(spark_context, tmp_path, [(v,) for v in values])
    killer = Killer(worker_of(tmp_path))
    session = train(counter(), strategy="tensorflow", batch_size=2, sync_interval=1)
    run = session.run(rdd, epochs=2, shuffle="partitions", sinks=[watch, killer])
    assert killer.killed
    assert run.state == "finished"
    assert run.history["samples"].sum() == 2000
    check_replaced(watch)
    # What it has trained since its last report stays in the variables.
    assert 2000 <= run.parameters()["total"][1] <= 2000 + 2
    assert usable(spark_context)


def test_a_worker_of_a_step_that_dies_makes_it_again_and_nothing_stays(
    spark_context: Any, train: Train, digits: Digits, watch: Watch, tmp_path: Path
) -> None:
    data = digits[0][:1000], digits[1][:1000]
    rdd = noting(spark_context, tmp_path, list(zip(*data, strict=True)))
    killer = Killer(worker_of(tmp_path))
    session = train(digits_graph(), strategy="tensorflow:sync", batch_size=32)
    run = session.run(rdd, epochs=2, shuffle=False, sinks=[watch, killer])
    assert killer.killed
    assert run.history["samples"].sum() == 2000
    assert run.history["version"].max() == 2 * 16
    check_replaced(watch)
    expected = alone(data + digits[2:], 32, 2)
    for name, value in run.parameters().items():
        assert np.abs(value - expected[name]).max() < 1e-5
    assert usable(spark_context)


@BOTH
def test_a_server_that_dies_ends_the_run_with_its_name_and_the_checkpoint_continues(
    spark_context: Any, digits: Digits, watch: Watch, tmp_path: Path, strategy: str
) -> None:
    data, before = (digits[0][:1000], digits[1][:1000]), children()
    options = {"strategy": strategy, "batch_size": 32, "sync_interval": 1}
    with tos.TrainingSession(
        spark_context, digits_graph(), checkpoint_dir=str(tmp_path), **options
    ) as session:
        run = session.start(data, epochs=4, checkpoint_every="1 milestones", sinks=[watch])
        run.chaos(tos.chaos.Pause(0.02, any=2))
        watch.until(CheckpointWritten, count=4)
        os.kill(server(), signal.SIGKILL)
        with pytest.raises(ClusterUnreachable, match=r"ps:0 has ended.*tos\.resume") as caught:
            run.wait(60)
        assert "\n" not in str(caught.value)
        assert run.state == "failed"
        # The kernel has the model, with its values from before.
        assert all(np.isfinite(value).all() for value in run.parameters().values())
    assert children() == before
    assert usable(spark_context)
    resumed = tos.resume(run.uri, spark=spark_context)
    resumed.wait(120)
    assert resumed.history["samples"].sum() == 4 * 1000


@pytest.mark.long
@BOTH
def test_a_server_that_dies_while_the_run_is_paused_is_told(
    train: Train, digits: Digits, watch: Watch, strategy: str
) -> None:
    session = train(digits_graph(), strategy=strategy, batch_size=16, sync_interval=1)
    run = session.start(digits[:2], epochs=50, sinks=[watch])
    watch.until(MilestoneCommitted, count=4)
    run.pause()
    os.kill(server(), signal.SIGKILL)
    with pytest.raises(ClusterUnreachable, match="ps:0 has ended"):
        run.wait(60)


@pytest.mark.parametrize(
    ("strategy", "partitions"),
    few([("tensorflow", 1), ("tensorflow:sync", 2)], ("tensorflow:sync", 2)),
    ids=["apart", "sync"],
)
def test_a_resumed_run_continues_from_the_parameters_and_the_momentum_of_the_checkpoint(
    spark_context: Any, train: Train, digits: Digits, tmp_path: Path, strategy: str, partitions: int
) -> None:
    rows = [(x, int(y)) for x, y in zip(digits[0][:600], digits[1][:600], strict=True)]
    rdd = spark_context.parallelize(rows, partitions)
    options = {"strategy": strategy, "batch_size": 20, "sync_interval": 1}
    session = train(digits_graph(), checkpoint_dir=str(tmp_path), **options)
    whole = session.run(
        rdd, epochs=3, shuffle="partitions", seed=7, checkpoint_every="10 milestones"
    )
    session.close()
    # The first that is left was written in mid-epoch, with momentum.
    _, *later = sorted((tmp_path / whole.run_id).glob("checkpoint-*.tos"))
    for path in later:
        path.unlink()
    (saved,) = tos.runs(str(tmp_path), spark=spark_context)
    assert 10 <= saved.milestones < whole.status.milestones
    resumed = tos.resume(saved, rdd, spark=spark_context)
    resumed.wait(120)
    assert resumed.history["samples"].sum() == 3 * 600
    for name, value in resumed.parameters().items():
        assert np.abs(value - whole.parameters()[name]).max() < 1e-6
    assert resumed.history["version"].max() == whole.history["version"].max()


@pytest.mark.long
def test_a_stopped_run_keeps_the_steps_that_count(
    train: Train, digits: Digits, watch: Watch
) -> None:
    session = train(digits_graph(), strategy="tensorflow:sync", batch_size=16)
    run = session.start(digits[:2], epochs=50, sinks=[watch], shuffle=False)
    watch.until(MilestoneCommitted, count=6)
    run.stop()
    assert run.state == "stopped"
    steps = int(run.history["version"].max())
    assert 2 * steps == len(run.history) < 50 * 2 * 45
    program = digits_graph()
    assert any(
        not np.array_equal(value, run.parameters()[name])
        for name, value in program.layout.tensors(program.read()).items()
    )
