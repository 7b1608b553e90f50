"""All-reduce, by any way: the same steps as one process, whatever happens to workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.support.long import few
from tos_notebook.archive.runner import Trained
from tos_notebook.blocks.block import Columns
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.common.arrays import Array
from tos_notebook.errors import ConfigError, NonFiniteUpdate
from tos_notebook.events import CommandApplied, MilestoneCommitted, UpdateSkipped
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.machine import Command
from tos_notebook.steering.sync import ASP
from tos_notebook.strategies import AllReduce, ParameterServer, as_strategy
from tos_notebook.strategies.allreduce.settings import ReduceSettings
from tos_notebook.testing.bench import Bench, Deadline, Trial, initial
from tos_notebook.testing.programs import SoftmaxRegression, Tensors

LIMIT = 20.0
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(31, 4)), RANDOM.integers(0, 3, 31)


WAYS = ("star", "ring", "direct", "halving", "two_level", "auto")


@contextmanager
def bench(strategy: Any = None, program: Any = None) -> Iterator[Bench]:
    trial = Trial(strategy or AllReduce(), Deadline(LIMIT))
    with trial.bench(program or SoftmaxRegression()) as made:
        yield made


def parameters(run: Bench) -> Tensors:
    layout = run.program.spec.layout
    return layout.tensors(run.run.parameters.read()[0])


def parts(rows: int, partitions: int) -> list[range]:
    """Return the rows of each partition, as arrays are dealt."""
    cuts = [rows * part // partitions for part in range(partitions + 1)]
    return [range(*pair) for pair in pairwise(cuts)]


def in_one_process(columns: Sequence[Array], partitions: int, epochs: int) -> Tensors:
    """Return what one process trains, whose batches are those of all workers together."""
    program = SoftmaxRegression()
    layout = program.spec.layout
    found = layout.tensors(initial(layout))
    dealt = parts(len(columns[0]), partitions)
    for _ in range(epochs):
        for step in range(max(map(len, dealt))):
            rows = [part[step] for part in dealt if step < len(part)]
            program.step(found, tuple(column[rows] for column in columns))
    return found


@pytest.mark.parametrize("algorithm", WAYS)
@pytest.mark.parametrize("partitions", [1, 2, 3, 4])
def test_workers_train_as_one_process_with_their_rows_together(
    partitions: int, algorithm: str
) -> None:
    # The partitions are unequal: the last steps are made by those with rows left.
    with bench(AllReduce(algorithm=algorithm)) as run:
        run.begin((X, Y), partitions, range(3))
        run.work()
        found = parameters(run)
    for name, value in in_one_process((X, Y), partitions, 3).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12)


@pytest.mark.parametrize("algorithm", WAYS)
def test_a_partition_without_rows_makes_no_other_wait(algorithm: str) -> None:
    with bench(AllReduce(algorithm=algorithm)) as run:
        run.begin((X[:2], Y[:2]), 3, range(2))
        run.work()
        assert run.rows_told() == 4


@pytest.mark.parametrize("lost", [0, 1, 5, 12])
@pytest.mark.parametrize("algorithm", ["star", "ring", "direct", "halving"])
@pytest.mark.parametrize("of", ["gradients", "parameters"])
def test_a_lost_worker_changes_no_bit_of_what_is_trained(
    of: str, algorithm: str, lost: int
) -> None:
    found = []
    for lose in (None, lost):
        with bench(AllReduce(of=of, algorithm=algorithm)) as run:
            run.begin((X, Y), 3, range(2))
            run.work(lose=lose)
            found.append(run.run.parameters.read()[0].tobytes())
            assert run.rows_told() == 2 * len(X)
    assert found[0] == found[1]


@pytest.mark.parametrize("algorithm", ["star", "ring"])
def test_a_pause_holds_all_workers_at_one_step(algorithm: str) -> None:
    with bench(AllReduce(algorithm=algorithm)) as run:
        run.begin((X, Y), 3, range(100_000))
        ended = run.start()
        run.wait(MilestoneCommitted)
        run.run.command(Command.PAUSE)
        run.wait(CommandApplied, command=Command.PAUSE)
        steps = [e for e in run.events if isinstance(e, MilestoneCommitted)]
        version = run.run.parameters.version
        assert version == len({(e.epoch, e.sequence) for e in steps})
        assert {e.staleness for e in steps} == {0}
        run.run.command(Command.UNPAUSE)
        run.run.command(Command.STOP)
        ended()


@pytest.mark.parametrize("algorithm", few(["star", "ring"], "ring"))
def test_another_learning_rate_holds_from_one_step_on(algorithm: str) -> None:
    rates = []

    class Watched(SoftmaxRegression):
        def apply(self, parameters: Tensors, gradients: Tensors) -> None:
            rates.append(self.rate)
            super().apply(parameters, gradients)

    with bench(AllReduce(algorithm=algorithm), Watched()) as run:
        run.begin((X, Y), 2, range(200))
        ended = run.start()
        run.wait(MilestoneCommitted, epoch=1)
        run.run.change_settings(Command.SET, "learning_rate=0.25", learning_rate=0.25)
        ended()
    changes = sum(one != other for one, other in pairwise(rates))
    assert (rates[0], rates[-1], changes) == (0.5, 0.25, 1)


class Spoiled(SoftmaxRegression):
    """Finds NaN in one row."""

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        trained = super().train(vectors, columns, batch_size)
        if (columns[0] == X[4]).all():
            trained.parameters[0][0, 0] = np.nan
        return trained


def test_a_worker_that_brings_nan_ends_the_run_and_its_step_counts_for_none() -> None:
    with bench(AllReduce(algorithm="star"), Spoiled()) as run:
        run.begin((X, Y), 3, range(1))
        with pytest.raises((AssertionError, NonFiniteUpdate), match="NaN"):
            run.work()
        assert isinstance(run.run.error, NonFiniteUpdate)
        assert run.run.parameters.version == 4
        assert run.rows_told() == 12


@pytest.mark.parametrize("algorithm", ["star", "ring", "direct"])
def test_a_worker_that_brings_nan_may_be_left_out(algorithm: str) -> None:
    program = Spoiled()
    layout = program.spec.layout
    with bench(AllReduce(algorithm=algorithm), program) as run:
        # The bench has no such option.
        run.run.trainer._reduction._non_finite = "skip"  # type: ignore[attr-defined]
        run.begin((X, Y), 3, range(1))
        run.work()
        (skipped,) = [e for e in run.events if isinstance(e, UpdateSkipped)]
        assert skipped.partition == 0
        found = parameters(run)
    expected = layout.tensors(initial(layout))
    dealt = parts(len(X), 3)
    for step in range(max(map(len, dealt))):
        rows = [part[step] for part in dealt if step < len(part) and part[step] != 4]
        SoftmaxRegression().step(expected, (X[rows], Y[rows]))
    np.testing.assert_allclose(found["W"], expected["W"], rtol=1e-12)


@pytest.mark.parametrize("algorithm", WAYS)
def test_parameters_are_averaged_by_rows(algorithm: str) -> None:
    with bench(AllReduce(of="parameters", algorithm=algorithm)) as run:
        run.begin((X[:3], Y[:3]), 2, range(1))
        run.work()
        found = parameters(run)
    program = SoftmaxRegression()
    layout = program.spec.layout
    first, second = (layout.tensors(initial(layout)) for _ in range(2))
    program.step(first, (X[:1], Y[:1]))
    program.step(second, (X[1:2], Y[1:2]))
    mean = {name: (first[name] + second[name]) / 2 for name in first}
    program.step(mean, (X[2:3], Y[2:3]))
    for name, value in mean.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12)


class Moving(SoftmaxRegression):
    """Keeps a moving mean of its rows, far from 0."""

    def __init__(self) -> None:
        super().__init__()
        moving = ParameterSpec("moving", (4,), "float64", trained=False)
        layout = Layout([*self.spec.layout.specs, moving])
        self.spec = replace(self.spec, layout=layout)

    def gradient(
        self, parameters: Tensors, batch: Columns, found: Tensors, share: float
    ) -> dict[str, float]:
        found["moving"] += share * (0.9 * parameters["moving"] + 0.1 * (batch[0] + 50).mean(axis=0))
        return super().gradient(parameters, batch, found, share)

    def apply(self, parameters: Tensors, gradients: Tensors) -> None:
        parameters["moving"][...] = gradients["moving"]
        means = {name: value for name, value in gradients.items() if name != "moving"}
        super().apply({name: parameters[name] for name in means}, means)


@pytest.mark.parametrize("codec", ["fp32", "int8", "topk:0.4+ef", "sign+ef"])
def test_statistics_survive_a_codec_that_sends_a_part_of_gradients(codec: str) -> None:
    trial = Trial(AllReduce(algorithm="star"), Deadline(LIMIT))
    trial.settings = ReduceSettings("gradients", as_codecs(codec))
    with trial.bench(Moving()) as run:
        run.begin((X, Y), 2, range(20))
        run.work()
        moving = parameters(run)["moving"]
    np.testing.assert_allclose(moving, 50, atol=2.5)


def test_what_does_not_go_with_it_says_what_does() -> None:
    strategy = AllReduce()
    with pytest.raises(ConfigError, match="expected none where workers average gradients"):
        strategy.settings(ParameterServer().default_combiner(ASP), strategy.exact_settings().codec)
    own = strategy.exact_settings()
    with pytest.raises(ConfigError, match=r"expected 'bsp'.*strategy='ps'"):
        own.check(ASP, 1)
    with pytest.raises(ConfigError, match=r"run\.swap_strategy"):
        own.changed(combiner=object())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("allreduce", AllReduce()),
        ("allreduce:ring", AllReduce(algorithm="ring")),
        ("AllReduce:star", AllReduce(algorithm="star")),
        ("allreduce:star/10", AllReduce(algorithm="star", every=10)),
        ("allreduce:parameters/10", AllReduce(of="parameters", every=10)),
    ],
)
def test_a_name_may_say_more(text: str, expected: AllReduce) -> None:
    assert as_strategy(text) == expected


@pytest.mark.parametrize("text", ["allreduce:circle", "allreduce:star/x", "allreduce:star/0"])
def test_a_name_that_says_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        as_strategy(text)
