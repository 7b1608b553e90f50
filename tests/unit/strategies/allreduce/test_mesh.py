"""All-reduce among the workers: what only links between workers can do, or let go wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tos_notebook.chaos import Kill
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.common.arrays import Array
from tos_notebook.errors import CombinerError, ConfigError, NonFiniteUpdate, TransportError
from tos_notebook.events import DRIVER, MilestoneCommitted, WorkerJoined
from tos_notebook.steering.machine import Command
from tos_notebook.strategies import AllReduce
from tos_notebook.strategies.allreduce import pace
from tos_notebook.strategies.allreduce.settings import ReduceSettings
from tos_notebook.testing.bench import Bench, Deadline, Trial
from tos_notebook.testing.programs import SoftmaxRegression

LIMIT = 20.0
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(31, 4)), RANDOM.integers(0, 3, 31)


@contextmanager
def bench(program: Any = None, **options: Any) -> Iterator[Bench]:
    trial = Trial(AllReduce(**{"algorithm": "ring"} | options), Deadline(LIMIT))
    with trial.bench(program or SoftmaxRegression()) as made:
        yield made


def own_partition() -> int:
    """Return the partition that this thread trains."""
    return int(threading.current_thread().name.rpartition("-")[2])


class Dying(SoftmaxRegression):
    """Loses the worker of a partition once: while it computes, or with what all have added up.

    Parameters
    ----------
    where : {"gradient", "update"}
    partition, call : int
        At which of its calls; none if negative.
    """

    def __init__(self, where: str, partition: int, call: int) -> None:
        super().__init__()
        self._where, self._partition, self._left = where, partition, call

    def _die(self, where: str) -> None:
        if where == self._where and own_partition() == self._partition:
            self._left -= 1
            if self._left == -1:
                raise TransportError("The test has cut the connection.")

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Any:
        self._die("gradient")
        return super().train(vectors, columns, batch_size)

    def update(self, vectors: Sequence[Array], means: Sequence[Array]) -> Sequence[Array]:
        self._die("update")
        return super().update(vectors, means)


def trained_by(program: SoftmaxRegression, lose: bool, **options: Any) -> bytes:
    with bench(program, **options) as run:
        run.begin((X, Y), 3, range(3))
        run.work(lose=10**6 if lose else None)
        assert run.rows_told() == 3 * len(X)
        assert (len([e for e in run.events if isinstance(e, WorkerJoined)]) > 3) is lose
        return run.run.parameters.read()[0].tobytes()


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving"])
@pytest.mark.parametrize("where", ["gradient", "update"])
@pytest.mark.parametrize("call", [0, 3, 11, 29])
def test_a_worker_that_dies_within_a_milestone_changes_no_bit(
    where: str, call: int, algorithm: str
) -> None:
    undisturbed = trained_by(SoftmaxRegression(), False, algorithm=algorithm)
    assert trained_by(Dying(where, 0, call), True, algorithm=algorithm) == undisturbed


class Slowed(SoftmaxRegression):
    """Waits in one partition until it may train."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def before(self, batch: tuple[Array, ...]) -> None:
        if own_partition() == 1:
            assert self.go.wait(LIMIT)


def test_a_slow_worker_is_waited_for_and_a_stop_does_not_wait_for_its_rows() -> None:
    program = Slowed()
    with bench(program) as run:
        run.begin((X, Y), 2, range(100_000))
        ended = run.start()
        run.wait(WorkerJoined, partition=1)
        run.run.command(Command.STOP)
        program.go.set()
        ended()
        assert run.run.parameters.version <= 1


def test_milestones_grow_and_say_how_many_steps_they_are() -> None:
    with bench() as run:
        run.begin((X, Y), 3, range(50))
        run.work()
        told = [e for e in run.events if isinstance(e, MilestoneCommitted)]
        assert max(event.steps for event in told) > 1
        # The longest partition has 11 rows, and a step takes one of each.
        assert sum(event.optimizer_steps for event in told) == 50 * 11
        assert run.run.parameters.version == len({(e.epoch, e.sequence) for e in told})
        assert all(event.bytes_up and event.bytes_down for event in told)


def test_milestones_say_what_went_over_each_link() -> None:
    with bench(algorithm="ring") as run:
        run.begin((X, Y), 3, range(3))
        run.work()
        told = [e for e in run.events if isinstance(e, MilestoneCommitted)]
        for event in told:
            *others, to_driver, from_driver = event.links
            own = event.partition
            # Of a ring, each worker sends to the next one.
            assert [(source, target) for source, target, _ in others] == [(own, (own + 1) % 3)]
            assert sum(nbytes for *_, nbytes in others) == event.bytes_up
            assert (to_driver[:2], from_driver[:2]) == ((own, DRIVER), (DRIVER, own))
            assert event.more_links == 0
        size = run.run.parameters.layout.nbytes
        # One worker brings a copy, and each has got one to begin with.
        assert {e.partition for e in told if e.links[-2][2] > size} == {0}
        assert {e.partition for e in told if e.links[-1][2] == size} == {0, 1, 2}
        assert sum(e.links[-1][2] for e in told) == 3 * size


@pytest.mark.parametrize("algorithm", ["auto", "ring"])
def test_the_run_knows_by_which_algorithm_workers_have_chosen_to_exchange(algorithm: str) -> None:
    with bench(algorithm=algorithm) as run:
        run.begin((X, Y), 2, range(1))
        run.work()
        chosen = run.run.algorithm
        assert (chosen in ("ring", "direct", "halving", "two_level")) is (algorithm == "auto")
        told = [f"by {chosen}. A message" in note for note in run.run.notes]
        assert told == ([True] if chosen else [])


class Unlike(SoftmaxRegression):
    """Makes another step in one partition, as another kind of processor may."""

    def update(self, vectors: Sequence[Array], means: Sequence[Array]) -> Sequence[Array]:
        made = super().update(vectors, means)
        made[0][0, 0] += 1e-12 * (own_partition() == 2)
        return made


def test_workers_that_compute_differently_are_told_apart() -> None:
    with bench(Unlike()) as run:
        run.begin((X, Y), 3, range(1))
        with pytest.raises((AssertionError, CombinerError), match="same parameters"):
            run.work()
        assert "partition 2" in str(run.run.error)
        assert "strategy='allreduce:star'" in str(run.run.error)
        assert run.rows_told() == 0


class Spoiled(SoftmaxRegression):
    """Finds NaN in all rows."""

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Any:
        trained = super().train(vectors, columns, batch_size)
        trained.parameters[0][0, 0] = np.nan
        return trained


def test_nan_on_all_workers_ends_the_run() -> None:
    with bench(Spoiled()) as run:
        run.begin((X, Y), 3, range(1))
        with pytest.raises((AssertionError, NonFiniteUpdate), match="Parameter 'W'"):
            run.work()
        assert run.rows_told() == 0


def test_rounds_that_all_leave_out_change_nothing_and_end() -> None:
    with bench(Spoiled()) as run:
        before = run.run.parameters.read()[0].tobytes()
        # The bench has no such option.
        run.run.trainer._reduction._non_finite = "skip"  # type: ignore[attr-defined]
        run.begin((X, Y), 3, range(2))
        run.work()
        assert run.run.parameters.read()[0].tobytes() == before
        assert run.rows_told() == 2 * len(X)


class SpoiledOnce(SoftmaxRegression):
    """Finds NaN in one batch of a partition."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 4

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Any:
        trained = super().train(vectors, columns, batch_size)
        if own_partition() == 0:
            self._left -= 1
            if self._left == -1:
                trained.parameters[0][0, 0] = np.nan
                trained.values["loss"] = np.nan
        return trained


def test_the_loss_of_a_milestone_is_the_mean_over_the_rows_that_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However slow the machine is, the fifth round is not alone in its milestone.
    monkeypatch.setattr(pace, "MILESTONE", LIMIT)
    monkeypatch.setattr(pace, "MOST", LIMIT)
    with bench(SpoiledOnce()) as run:
        run.run.trainer._reduction._non_finite = "skip"  # type: ignore[attr-defined]
        run.begin((X, Y), 3, range(2))
        run.work()
        told = [e for e in run.events if isinstance(e, MilestoneCommitted)]
        assert run.rows_told() == 2 * len(X)
        assert np.isfinite([event.loss for event in told]).all()


class Failing(SoftmaxRegression):
    """Raises in one partition."""

    def before(self, batch: tuple[Array, ...]) -> None:
        if own_partition() == 1:
            raise ZeroDivisionError("no rows like these")


def test_a_program_that_raises_ends_the_run_and_no_other_worker_hangs() -> None:
    with bench(Failing()) as run:
        run.begin((X, Y), 3, range(1))
        with pytest.raises(AssertionError, match="no rows like these"):
            run.work()


def test_a_strike_of_chaos_is_not_lost_while_workers_connect() -> None:
    with bench() as run:
        run.begin((X, Y), 2, range(4))
        run.run.change_settings(Command.CHAOS, "", chaos=(Kill(worker=0),))
        # The workers of the bench share a process, which is not killed.
        with pytest.raises(AssertionError, match="expected a worker in a separate process"):
            run.work()


@pytest.mark.parametrize("algorithm", ["auto", "ring"])
def test_settings_are_saved_and_checked_when_they_change(algorithm: str) -> None:
    strategy = AllReduce(algorithm=algorithm)
    with pytest.raises(ConfigError, match="codec"):
        strategy.exact_settings().changed(codec=as_codecs("powersgd:4+ef"))
    made = strategy.settings_from_json(strategy.settings_to_json(strategy.exact_settings()))
    assert made == ReduceSettings("gradients", algorithm=algorithm)


def leaves_nothing(call: Callable[[], object]) -> None:
    before = set(threading.enumerate())
    call()
    assert set(threading.enumerate()) <= before


def test_a_run_leaves_no_thread_behind() -> None:
    def train() -> None:
        with bench() as run:
            run.begin((X, Y), 3, range(2))
            run.work()

    leaves_nothing(train)
