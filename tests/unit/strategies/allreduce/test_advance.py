"""A step and the next gradients in one call: the bits, and the ends of milestones, are the same."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from tests.unit.strategies.allreduce.test_allreduce import Moving
from tests.unit.strategies.allreduce.test_mesh import LIMIT, X, Y, own_partition
from tos_notebook.archive.runner import Advanced, Trained
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.common.arrays import Array, Arrays
from tos_notebook.errors import TransportError
from tos_notebook.events import CommandApplied, MilestoneCommitted, UpdateSkipped, WorkerJoined
from tos_notebook.steering.machine import Command
from tos_notebook.strategies import AllReduce
from tos_notebook.strategies.allreduce import pace
from tos_notebook.testing.bench import Bench, Deadline, Trial
from tos_notebook.testing.programs import Tensors

EPOCHS = 3


class Variables(Moving):
    """Keeps parameters and a momentum on each worker, as TensorFlow's variables do.

    Parameters
    ----------
    most : int
        Rows of a call that does both; without any, a step and the gradients are two calls.
    """

    def __init__(self, most: int = 10**6) -> None:
        super().__init__()
        self.advanced = 0
        self._most, self._lock, self._own = most, threading.Lock(), threading.local()

    def state(self) -> list[Array]:
        return [getattr(self._own, "momentum", np.zeros((4, 3))).copy()]

    def restore(self, state: Sequence[Array]) -> None:
        self._own.momentum = state[0].copy()

    def apply(self, parameters: Tensors, gradients: Tensors) -> None:
        momentum, *_ = self.state()
        self._own.momentum = momentum / 2 + gradients["W"]
        super().apply(parameters, gradients | {"W": self._own.momentum})

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        self._own.vectors = [vector.copy() for vector in vectors]
        return super().train(vectors, columns, batch_size)

    def update(self, vectors: Sequence[Array], means: Sequence[Array]) -> Sequence[Array]:
        made = super().update(vectors, means)
        layout = self.spec.layout
        self._own.vectors = layout.vectors(layout.pack(made))
        return made

    def advance(
        self, vectors: Arrays, means: Arrays, columns: Arrays, batch_size: int
    ) -> Advanced | None:
        if len(columns[0]) > self._most:
            return None
        for kept, given in zip(self._own.vectors, vectors, strict=True):
            np.testing.assert_array_equal(kept, given)
        with self._lock:
            self.advanced += 1
        return super().advance(self._own.vectors, means, columns, batch_size)


@pytest.fixture(autouse=True)
def long_milestones(monkeypatch: pytest.MonkeyPatch) -> None:
    # However slow the machine is, a milestone has several steps.
    monkeypatch.setattr(pace, "MILESTONE", LIMIT)
    monkeypatch.setattr(pace, "MOST", LIMIT)


def trained(
    program: Variables, workers: int = 3, lose: int | None = None, **options: Any
) -> tuple[bytes, list[bytes], list[Any], list[Any]]:
    """Return parameters, the optimizer's state, losses and steps that were left out."""
    with bench(program, **options) as run:
        if program.__class__ is NotFinite:
            # The bench has no such option.
            run.run.trainer._reduction._non_finite = "skip"  # type: ignore[attr-defined]
        run.begin((X, Y), workers, range(EPOCHS))
        run.work(lose=lose)
        assert run.rows_told() == EPOCHS * len(X)
        losses = sorted(
            (e.epoch, e.sequence, e.partition, e.loss)
            for e in run.events
            if isinstance(e, MilestoneCommitted)
        )
        skipped = sorted(
            (e.partition, e.sequence) for e in run.events if isinstance(e, UpdateSkipped)
        )
        state = [each.tobytes() for each in run.run.trainer._reduction.state()]  # type: ignore[attr-defined]
        return run.run.parameters.read()[0].tobytes(), state, losses, skipped


def bench(program: Variables, codec: str = "fp32", **options: Any) -> AbstractContextManager[Bench]:
    trial = Trial(AllReduce(**{"algorithm": "ring"} | options), Deadline(LIMIT))
    trial.settings = trial.strategy.settings(None, as_codecs(codec))
    return trial.bench(program)


@pytest.mark.parametrize(
    "options",
    [
        *({"algorithm": each} for each in ("ring", "direct", "halving", "two_level", "auto")),
        {"workers": 1},
        {"workers": 2, "algorithm": "auto"},
        {"algorithm": "auto", "codec": "bf16"},
        {"algorithm": "auto", "codec": "int8"},
        {"algorithm": "direct", "codec": "topk:0.4+ef"},
    ],
    ids=str,
)
def test_what_is_trained_is_the_same_to_the_bit(options: dict[str, Any]) -> None:
    """The partitions are unequal: at the end some workers have no rows, and make steps alone."""
    together, apart = Variables(), Variables(most=0)
    assert trained(together, **options) == trained(apart, **options)
    assert together.advanced > EPOCHS
    assert not apart.advanced


class NotFinite(Variables):
    """Finds NaN in one row, and in another one of another worker."""

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        found = super().train(vectors, columns, batch_size)
        if (columns[0] == X[4]).all() or (columns[0] == X[15]).all():
            found.parameters[0][0, 0] = np.nan
        return found


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("algorithm", ["auto", "ring"])
def test_rounds_that_are_left_out_make_no_step(algorithm: str, workers: int) -> None:
    together = NotFinite()
    found = trained(together, workers, algorithm=algorithm)
    assert found == trained(NotFinite(most=0), workers, algorithm=algorithm)
    assert together.advanced > EPOCHS
    assert found[3]


class Mixed(Variables):
    """Scales its loss; one gradient overflows, and the optimizer leaves that step out."""

    scales_loss = True

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        found = super().train(vectors, columns, batch_size)
        if (columns[0] == X[4]).all():
            found.parameters[0][0, 0] = np.inf
        return found

    def apply(self, parameters: Tensors, gradients: Tensors) -> None:
        if np.isfinite(gradients["W"]).all():
            super().apply(parameters, gradients)


@pytest.mark.parametrize("codec", ["fp32", "bf16", "int8"])
def test_an_optimizer_that_leaves_steps_out_leaves_out_the_same_ones(codec: str) -> None:
    together = Mixed()
    found = trained(together, algorithm="direct", codec=codec)
    assert found == trained(Mixed(most=0), algorithm="direct", codec=codec)
    assert np.isfinite(np.frombuffer(found[0])).all()
    assert together.advanced > EPOCHS


class Lost(Variables):
    """Loses the worker of one partition, with a step and gradients that no other has."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self._left = call

    def advance(
        self, vectors: Arrays, means: Arrays, columns: Arrays, batch_size: int
    ) -> Advanced | None:
        made = super().advance(vectors, means, columns, batch_size)
        if own_partition() == 0:
            self._left -= 1
            if self._left == -1:
                raise TransportError("The test has cut the connection.")
        return made


@pytest.mark.parametrize("call", [0, 1, 7, 13])
def test_a_milestone_that_is_made_again_keeps_no_step_of_the_first_time(call: int) -> None:
    undisturbed = trained(Variables())
    # The workers that are left have made steps, too, or owe them.
    program = Lost(call)
    with bench(program) as run:
        run.begin((X, Y), 3, range(EPOCHS))
        run.work(lose=10**6)
        assert run.rows_told() == EPOCHS * len(X)
        assert len([e for e in run.events if isinstance(e, WorkerJoined)]) > 3
        assert run.run.parameters.read()[0].tobytes() == undisturbed[0]
        state = run.run.trainer._reduction.state()  # type: ignore[attr-defined]
        assert [each.tobytes() for each in state] == undisturbed[1]


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_report_that_is_lost_changes_no_bit(lost: int) -> None:
    assert trained(Variables(), lose=lost)[:2] == trained(Variables())[:2]


class Watched(Variables):
    """Takes note of the learning rate of each step, which each worker has for itself.

    A milestone that is trained again begins with the state of its first time: the state says how
    many steps count.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rates: dict[int, list[float]] = {}

    def set_learning_rate(self, value: float) -> None:
        self._own.rate = value

    def state(self) -> list[Array]:
        return [*super().state(), np.array([float(len(self._made()))])]

    def restore(self, state: Sequence[Array]) -> None:
        *momentum, steps = state
        super().restore(momentum)
        del self._made()[int(steps[0]) :]

    def apply(self, parameters: Tensors, gradients: Tensors) -> None:
        self._made().append(getattr(self._own, "rate", self.rate))
        self.rates[own_partition()] = self._made()
        super().apply(parameters, gradients)

    def _made(self) -> list[float]:
        self._own.made = getattr(self._own, "made", [])
        return self._own.made  # type: ignore[no-any-return]


def test_each_milestone_ends_with_its_step() -> None:
    program = Watched()
    with bench(program) as run:
        run.begin((X, Y), 3, range(EPOCHS))
        run.work()
        told = [e for e in run.events if isinstance(e, MilestoneCommitted)]
    made = {partition: len(rates) for partition, rates in program.rates.items()}
    assert made == dict.fromkeys(range(3), EPOCHS * 11)
    assert sum(e.optimizer_steps for e in told) == EPOCHS * 11


def test_another_learning_rate_holds_for_all_workers_from_one_step_on() -> None:
    program = Watched()
    with bench(program) as run:
        run.begin((X, Y), 3, range(200))
        ended = run.start()
        for number, rate in enumerate([0.25, 0.125]):
            run.wait(MilestoneCommitted, epoch=2 * number + 1)
            run.run.change_settings(Command.SET, f"learning_rate={rate}", learning_rate=rate)
            run.wait(CommandApplied, detail=f"learning_rate={rate}")
        ended()
    first, *others = program.rates.values()
    assert others == [first, first]
    assert [rate for rate, _ in groupby(first)] == [0.5, 0.25, 0.125]
    assert program.advanced > 200
