"""All-reduce that continues without a partition that is lost, and reports its rows."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tests.unit.strategies.allreduce.test_generations import Linked
from tests.unit.worker.support import finish, of, push, until
from tos_notebook.common.arrays import Array
from tos_notebook.coordination.state import RowRecords, Untrained
from tos_notebook.errors import ConfigError, RemoteProtocolError, TransportError
from tos_notebook.events import EpochFinished
from tos_notebook.strategies import AllReduce
from tos_notebook.testing.bench import Bench, Deadline, Trial
from tos_notebook.testing.programs import SoftmaxRegression
from tos_notebook.wire.messages import Directive, Formed

LIMIT = 20.0


class Three(Linked):
    """Three workers, each with 33 rows or 34, in three epochs; one of them is lost."""

    def __init__(self) -> None:
        super().__init__(3)
        span = self.run.state.span
        assert span is not None
        span.last_epoch = 2

    def connect(self, epoch: int = 0, workers: tuple[int, ...] = (0, 1, 2)) -> list[Any]:
        for worker in workers:
            self.ready(worker, epoch)
        return [self.ready(worker, epoch) for worker in workers[:-1]]

    def train(self, epoch: int, sequence: int, rows: int, workers: tuple[int, ...]) -> None:
        """Train a milestone of so many rows of each."""
        self.counts = [sequence] * 3
        answers = [self.report(worker, epoch=epoch, steps=rows, samples=rows) for worker in workers]
        assert answers[-1].status == "committed"

    def finish(self, epoch: int, rows: int, workers: tuple[int, ...]) -> None:
        for worker in workers:
            self.run.requests.finish(self.members[worker], finish(epoch, rows, rows))

    def lose(self, worker: int) -> None:
        self.run.state.lost(self.members[worker], "its node is gone")


def test_others_continue_in_the_midst_of_an_epoch_and_what_was_lost_is_reported() -> None:
    crew = Three()
    crew.connect()
    crew.train(0, 0, 30, (0, 1, 2))
    crew.finish(0, 30, (0, 1, 2))
    crew.connect(1)
    crew.train(1, 0, 10, (0, 1, 2))
    crew.lose(2)
    assert crew.ready(0, 1).directive is Directive.WAIT
    crew.run.continue_without([2])
    formed = crew.connect(1, (0, 1))[0]
    assert isinstance(formed, Formed)
    assert (len(formed.hosts), formed.whole) == (2, False)
    crew.train(1, 1, 20, (0, 1))
    crew.finish(1, 30, (0, 1))
    assert [(e.epoch, e.samples) for e in of(EpochFinished, crew.events)] == [(0, 90), (1, 70)]
    (note,) = crew.run.notes
    assert note == (
        "Partition 2 had no worker in epoch 2, and the others continued without it: 20 of its rows "
        "were not trained."
    )
    # The next epoch begins without another wait.
    assert isinstance(crew.connect(2, (0, 1))[0], Formed)
    (note,) = crew.run.notes
    assert "in epochs 2 to 3" in note
    assert ": 50 of its rows" in note


@pytest.mark.parametrize("reported", [False, True])
@pytest.mark.parametrize("lost", [0, 2])
def test_a_milestone_that_the_lost_one_has_a_part_in_is_trained_again(
    lost: int, reported: bool
) -> None:
    """The others have exchanged with it, and its rows do not count."""
    crew = Three()
    crew.connect()
    others = tuple(worker for worker in range(3) if worker != lost)
    before = (lost, *others[:1]) if reported else others
    for worker in before:
        assert crew.report(worker, steps=10, samples=10).directive is Directive.WAIT
    crew.lose(lost)
    if reported:
        assert crew.report(others[1], steps=10, samples=10).directive is Directive.WAIT
    crew.run.continue_without([lost])
    assert [crew.asked(worker).version for worker in others] == [0, 0]
    formed = crew.connect(0, others)[0]
    assert isinstance(formed, Formed)
    assert len(formed.hosts) == 2
    crew.train(0, 0, 20, others)
    assert crew.run.parameters.version == 1
    assert crew.run.error is None


class Dying(SoftmaxRegression):
    """Ends the worker of one partition at one of its batches."""

    def __init__(self, partition: int, batch: int) -> None:
        super().__init__()
        self._name, self._left = f"check-worker-{partition}", batch

    def before(self, batch: tuple[Array, ...]) -> None:
        if threading.current_thread().name == self._name:
            self._left -= 1
            if self._left == -1:
                raise TransportError("The test has ended this worker.")


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving", "star"])
@pytest.mark.parametrize("partition", [0, 2])
def test_a_run_ends_without_a_partition_that_does_not_come_back(
    algorithm: str, partition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, work = threading.Event(), Bench._work

    def once(run: Bench, number: int, lose: int | None) -> None:
        try:
            work(run, number, lose)
        except TransportError:
            assert number == partition
            lost.set()

    monkeypatch.setattr(Bench, "_work", once)
    strategy = AllReduce(algorithm=algorithm, on_loss="continue")
    rows = 31
    x, y = np.ones((rows, 4)), np.zeros(rows, int)
    # In the midst of the second epoch.
    with Trial(strategy, Deadline(LIMIT)).bench(Dying(partition, 15)) as run:
        run.begin((x, y), 3, range(4))
        ended = run.start()
        assert lost.wait(LIMIT)
        until(lambda: partition in run.run.missing())
        run.run.continue_without([partition])
        ended()
        (note,) = (note for note in run.run.notes if "had no worker" in note)
        untrained = run.run.state.rows.untrained[partition].rows
        assert f"{untrained:,} of its rows" in note
        assert run.rows_told() == 4 * rows - untrained
        told = {event.epoch: event.samples for event in of(EpochFinished, run.events)}
        assert sum(told.values()) == run.rows_told()
        assert list(told) == [0, 1, 2, 3]


def test_one_that_comes_back_trains_from_the_next_epoch_on_and_disturbs_none() -> None:
    crew = Three()
    crew.connect()
    crew.lose(2)
    crew.run.continue_without([2])
    crew.connect(0, (0, 1))
    crew.replace(2)
    assert crew.members[2].epoch == 1
    # Perhaps it asks before the others are done.
    assert crew.ready(2, 1).directive is Directive.WAIT
    crew.train(0, 0, 30, (0, 1))
    crew.finish(0, 30, (0, 1))
    formed = crew.connect(1)[0]
    assert isinstance(formed, Formed)
    assert (len(formed.hosts), formed.whole) == (3, True)
    (note,) = crew.run.notes
    assert "in epoch 1, and the others continued without it: an unknown number" in note
    # Until it is used up for the first time.
    crew.connect(1)
    crew.train(1, 0, 30, (0, 1, 2))
    crew.finish(1, 30, (0, 1, 2))
    (note,) = crew.run.notes
    assert "in epoch 1, and the others continued without it: 30 of its rows" in note


def test_rows_of_another_layout_say_nothing_of_those_that_were_lost() -> None:
    records = RowRecords(untrained={2: Untrained(2, 0, 0, uncounted=1)})
    records.forget_counts()
    records.count(2, 33)
    assert "an unknown number of its rows" in str(records.untrained[2])


def test_a_partition_that_has_a_worker_again_by_then_is_not_left_out() -> None:
    crew = Three()
    crew.connect()
    crew.lose(2)
    crew.replace(2)
    crew.run.continue_without([2])
    assert crew.run.notes == ()
    assert crew.connect()[0].whole


def test_an_epoch_that_the_lost_one_alone_had_not_finished_ends_then() -> None:
    crew = Three()
    crew.connect()
    crew.train(0, 0, 30, (0, 1, 2))
    crew.finish(0, 30, (0, 1))
    crew.lose(2)
    assert not of(EpochFinished, crew.events)
    crew.run.continue_without([2])
    assert [e.samples for e in of(EpochFinished, crew.events)] == [90]


def test_workers_of_another_job_wait_for_all_again() -> None:
    crew = Three()
    crew.connect()
    crew.lose(2)
    crew.run.continue_without([2])
    for worker in (0, 1):
        crew.lose(worker)
        crew.replace(worker)
    crew.ready(0, 1)
    assert not crew.run.state.ledger.is_finished(1, 2)


def test_what_becomes_of_a_loss_is_one_of_two() -> None:
    with pytest.raises(ConfigError, match="on_loss"):
        AllReduce(on_loss="go")
    assert AllReduce(on_loss="continue").exact_settings().continues
    assert not AllReduce().exact_settings().continues


def test_a_push_of_the_lost_one_that_comes_late_is_refused() -> None:
    crew = Three()
    crew.connect()
    crew.lose(2)
    crew.run.continue_without([2])
    with pytest.raises(RemoteProtocolError, match="expected a push of epoch 2"):
        crew.run.reports.admit(crew.members[2], push(0))
