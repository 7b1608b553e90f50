"""Chaos in a real Spark: what it does to workers, and what must still hold."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter
from tests.support.watching import Watch
from tos_notebook.cluster.executors import task_attempts
from tos_notebook.events import CommandApplied, MilestoneCommitted, WorkerJoined, WorkerLost

Train = Callable[..., tos.TrainingSession]

ROWS = np.arange(400.0)

PATIENCE = 30.0
"""Seconds in which a busy machine does what takes an idle one less than two."""


def test_a_killed_worker_is_replaced_and_no_batch_is_lost_or_applied_twice(
    train: Train, watch: Watch
) -> None:
    session = train(counter(), combiner="downpour", batch_size=2, sync_interval=1)
    run = session.start((ROWS,), epochs=3, sinks=[watch])
    run.chaos(tos.chaos.Kill(worker=1, at=3))
    assert run.wait(120).state == "finished"
    assert run.parameters()["total"].tolist() == [3 * ROWS.sum(), 3 * 400.0]
    assert run.history["samples"].sum() == 3 * 400
    assert [e.partition for e in watch.of(WorkerLost)] == [1]
    again = [e for e in watch.of(WorkerJoined) if e.partition == 1][-1]
    assert (again.attempt, again.resumed_at) == (1, 2)  # the third milestone was not sent
    workers = run.workers.set_index("partition")["lost"]
    assert workers.to_dict() == {0: 0, 1: 1}
    assert watch.of(CommandApplied)[-1].detail == "off: it has run its course"
    # The next run of the session knows nothing of it.
    after = session.run((ROWS,), sinks=[watch])
    assert (after.settings.chaos, after.chaos_log) == ((), ())
    assert len(watch.of(WorkerLost)) == 1


def test_a_slowed_worker_takes_longer_until_the_block_ends(train: Train, watch: Watch) -> None:
    session = train(counter(), batch_size=2, sync_interval=5)
    run = session.start((ROWS,), epochs=100_000, sinks=[watch])
    watch.wait_for(MilestoneCommitted, 20)
    with tos.chaos.on(run, tos.chaos.Slow(50, worker=1)):
        watch.wait_for(CommandApplied)
        before = len(watch.of(MilestoneCommitted))
        watch.wait_for(MilestoneCommitted, before + 100)
        during = watch.of(MilestoneCommitted)[before:]
    assert run.settings.chaos == ()
    assert sum(e.partition == 1 for e in during) < 0.3 * len(during)
    run.stop()


def test_a_stop_does_not_wait_for_a_worker_that_stands_still(train: Train, watch: Watch) -> None:
    session = train(counter(), batch_size=2, sync_interval=1)
    run = session.start((ROWS,), epochs=100_000, sinks=[watch])
    watch.wait_for(MilestoneCommitted, 10)
    run.chaos(tos.chaos.Pause(2 * PATIENCE, any=2, at=1))
    watch.wait_for(CommandApplied)  # both have been told
    # Raises if it takes longer.
    assert run.stop(PATIENCE).state == "stopped"
    assert session.run((ROWS,)).state == "finished"


def test_a_kill_is_refused_where_spark_would_not_try_the_task_again(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tos_notebook.training.commands.task_attempts", lambda sc: 1)
    run = train(counter()).start((ROWS,), epochs=100_000)
    with pytest.raises(tos.errors.ConfigError, match=r"does not try.*local\[2,4\]"):
        run.chaos(tos.chaos.Kill(worker=1))
    with pytest.raises(tos.errors.ConfigError, match="partition from 0 to 1, got 2"):
        run.chaos(tos.chaos.Slow(2, worker=2))
    assert (run.settings.chaos, run.chaos_log) == ((), ())
    run.stop()
    with pytest.raises(tos.errors.InvalidTransition):
        run.chaos(tos.chaos.Slow(2))
    run.chaos()


@pytest.mark.parametrize(
    ("master", "attempts"), [("local", 1), ("local[*]", 1), ("local[2, 4]", 4)]
)
def test_how_often_a_local_spark_tries_a_task(master: str, attempts: int) -> None:
    sc: Any = SimpleNamespace(master=master)
    assert task_attempts(sc) == attempts


def test_a_report_says_that_there_was_chaos(train: Train, tmp_path: Any) -> None:
    session = train(counter())
    run = session.start((ROWS,), epochs=100_000)
    run.chaos(tos.chaos.Slow(5, worker=1))
    run.chaos()
    run.stop()
    assert "partition 1: 5 times slower" in run.report(tmp_path / "run.html").read_text()
