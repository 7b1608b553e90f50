"""MLlib's gradient descent over the strategy's own workers and server, in this process."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.linear import LOSSES, Linear
from tos_notebook.archive.spec import FeedSpec, ProgramSpec
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.codecs.pair import PLAIN, as_codecs
from tos_notebook.common.arrays import Array
from tos_notebook.coordination.exchange import HandedOver
from tos_notebook.coordination.job_span import DataLayout
from tos_notebook.coordination.snapshots import Progress
from tos_notebook.errors import ConfigError, TosError
from tos_notebook.events import CommandAccepted, CommandApplied, MilestoneCommitted
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.machine import Command
from tos_notebook.steering.sync import ASP, BSP
from tos_notebook.strategies import ParameterServer, TreeAggregate, as_strategy
from tos_notebook.strategies.treeaggregate.descent import GradientDescent
from tos_notebook.strategies.treeaggregate.updaters import UPDATERS
from tos_notebook.testing.bench import START, Bench, Deadline, Trial

LIMIT = 20.0
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(31, 4))
Y = (X @ [1.0, -2.0, 0.5, 3.0] > 0).astype(np.float64)


@contextmanager
def bench(strategy: TreeAggregate, program: Any = None) -> Iterator[Bench]:
    with Trial(strategy, Deadline(LIMIT)).bench(program or Linear("logistic", 4)) as made:
        yield made


def weights(run: Bench) -> Array:
    layout = run.program.spec.layout
    return layout.tensors(run.run.parameters.read()[0])["w"].copy()


def train(strategy: TreeAggregate, partitions: int = 3, epochs: int = 8, rows: int = 31) -> Array:
    with bench(strategy) as run:
        run.begin((X[:rows], Y[:rows]), partitions, range(epochs))
        run.work()
        return weights(run)


def by_hand(strategy: TreeAggregate, partitions: int, epochs: int, rows: int = 31) -> Array:
    """Train as MLlib's code does, in a few lines."""
    w = np.full(4, float(START))
    cuts = [rows * part // partitions for part in range(partitions + 1)]
    for i in range(1, epochs + 1):
        drawn = [
            cuts[part] + strategy.sampling.draw(cuts[part + 1] - cuts[part], i - 1, part)
            for part in range(partitions)
        ]
        sample = np.concatenate(drawn)
        if not len(sample):
            continue
        _, factors = LOSSES["logistic"](X[sample] @ w, Y[sample])
        mean = factors @ X[sample] / len(sample)
        rule = UPDATERS[strategy.updater]
        w = rule(w, mean, strategy.step_size / math.sqrt(i), strategy.reg_param)
    return w


@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("updater", UPDATERS)
def test_each_epoch_is_an_iteration_of_mllib(
    updater: str, fraction: float, partitions: int
) -> None:
    # The partitions are unequal.
    reg = 0.0 if updater == "none" else 0.05
    strategy = TreeAggregate(fraction, 0.7, updater, reg, convergence_tol=0)
    expected = by_hand(strategy, partitions, 8)
    np.testing.assert_allclose(train(strategy, partitions), expected, rtol=1e-12)


def test_the_number_of_partitions_does_not_matter_but_for_rounding() -> None:
    strategy = TreeAggregate(convergence_tol=0)
    found = [train(strategy, partitions, 20) for partitions in (1, 2, 5)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-12)


def test_a_sample_without_rows_makes_no_step_and_the_iteration_counts() -> None:
    strategy = TreeAggregate(0.1, convergence_tol=0)
    sizes = [[len(strategy.sampling.draw(2, i, part)) for part in range(2)] for i in range(30)]
    # Some iterations have no rows at all, some have none in one of the partitions.
    assert [0, 0] in sizes
    assert any(0 in pair and sum(pair) for pair in sizes)
    found = train(strategy, 2, 30, rows=4)
    np.testing.assert_allclose(found, by_hand(strategy, 2, 30, rows=4), rtol=1e-12)


def test_a_partition_without_rows_makes_no_other_wait() -> None:
    strategy = TreeAggregate(convergence_tol=0)
    expected = by_hand(strategy, 1, 5, rows=2)
    np.testing.assert_allclose(train(strategy, 3, 5, rows=2), expected, rtol=1e-12)


@pytest.mark.parametrize("lost", [0, 1, 5])
def test_a_lost_worker_changes_no_bit_of_what_is_trained(lost: int) -> None:
    strategy, found = TreeAggregate(0.5, convergence_tol=0), []
    for lose in (None, lost):
        with bench(strategy) as run:
            run.begin((X, Y), 3, range(8))
            run.work(lose=lose)
            found.append(weights(run).tobytes())
    assert found[0] == found[1]


def converges_at(strategy: TreeAggregate, most: int) -> int:
    """Return the iteration after which MLlib ends."""
    before = by_hand(strategy, 2, 1)
    for i in range(2, most):
        now = by_hand(strategy, 2, i)
        bound = strategy.convergence_tol * max(float(np.linalg.norm(now)), 1.0)
        if np.linalg.norm(now - before) < bound:
            return i
        before = now
    raise AssertionError("it does not converge")


@pytest.mark.parametrize("tol", [0.05, 0.01])
def test_a_run_stops_once_it_has_converged(tol: float) -> None:
    strategy = TreeAggregate(convergence_tol=tol)
    last = converges_at(strategy, 1000)
    with bench(strategy) as run:
        run.begin((X, Y), 2, range(1000))
        run.work()
        steps = {e.epoch for e in run.events if isinstance(e, MilestoneCommitted)}
        assert steps == set(range(last))
        assert run.run.machine.state == "stopping"
        assert run.run.reason == "the parameters have converged (convergence_tol)"
        (told,) = [e for e in run.events if isinstance(e, CommandAccepted)]
        assert (told.command, told.detail) == ("stop", run.run.reason)
        np.testing.assert_allclose(weights(run), by_hand(strategy, 2, last), rtol=1e-12)


def test_the_first_update_is_not_compared() -> None:
    strategy = TreeAggregate(step_size=1e-9, convergence_tol=0.5)
    with bench(strategy) as run:
        run.begin((X, Y), 2, range(10))
        run.work()
        assert run.run.parameters.version == 2


def test_a_pause_holds_all_workers_at_one_iteration_and_a_stop_ends_them() -> None:
    with bench(TreeAggregate(0.5, convergence_tol=0)) as run:
        run.begin((X, Y), 3, range(100_000))
        ended = run.start()
        run.wait(MilestoneCommitted)
        run.run.command(Command.PAUSE)
        run.wait(CommandApplied, command=Command.PAUSE)
        epochs = {e.epoch for e in run.events if isinstance(e, MilestoneCommitted)}
        assert run.run.parameters.version == len(epochs)
        run.run.command(Command.UNPAUSE)
        run.run.command(Command.STOP)
        ended()


def test_a_run_continues_from_its_checkpoint_to_the_same_bits() -> None:
    strategy = TreeAggregate(0.5, updater="l1", reg_param=0.01, convergence_tol=0)
    whole = train(strategy, 2, 12)
    with bench(strategy) as run:
        run.begin((X, Y), 2, range(5))
        run.work()
        taken = run.run.snapshot()
    assert taken is not None
    value, arrays = strategy.to_parts(taken.progress.copied)
    copied = strategy.from_parts(json.loads(json.dumps(value)), [a.copy() for a in arrays])
    saved = json.dumps(strategy.settings_to_json(strategy.exact_settings()))
    assert strategy.settings_from_json(json.loads(saved)) == strategy.exact_settings()
    done = taken.progress
    with bench(strategy) as run:
        run.run.restore(Progress(done.ledger, copied, done.samples, done.rows, done.reached))
        run.begin((X, Y), 2, range(5, 12))
        run.work()
        assert weights(run).tobytes() == whole.tobytes()


def test_the_data_can_be_laid_out_again() -> None:
    strategy = TreeAggregate(convergence_tol=0)
    with bench(strategy) as run:
        run.begin((X, Y), 2, range(3))
        run.work()
        run.begin((X, Y), 3, range(3, 6), DataLayout(3, RandomPartitioner(3), 3))
        run.work()
        np.testing.assert_allclose(weights(run), by_hand(strategy, 1, 6), rtol=1e-12)


def test_a_learning_rate_takes_the_place_of_the_step_size() -> None:
    strategy = TreeAggregate(step_size=5.0, convergence_tol=0)
    with bench(strategy) as run:
        run.begin((X, Y), 2, range(4))
        run.run.change_settings(Command.SET, "learning_rate=0.3", learning_rate=0.3)
        run.work()
        expected = by_hand(replace(strategy, step_size=0.3), 2, 4)
        np.testing.assert_allclose(weights(run), expected, rtol=1e-12)


class Single(Linear):
    """Keeps its weights in single precision, and a statistic in double."""

    def __init__(self) -> None:
        specs = (
            ParameterSpec("w", (4,), "float32"),
            ParameterSpec("seen", (), "float64", trained=False),
        )
        super().__init__("logistic", 4)
        feeds = (FeedSpec("x", "float64", (4,)), FeedSpec("y", "float64", ()))
        self.spec = ProgramSpec("numpy", feeds, Layout(specs), ("loss",), True)

    def gradient(self, parameters: Any, batch: Any, found: Any, share: float) -> dict[str, float]:
        found["seen"] += share * batch[0].mean()
        return super().gradient(parameters, batch, found, share)


def test_single_precision_stays_near_double_and_statistics_are_averaged() -> None:
    strategy = TreeAggregate(updater="l2", reg_param=0.1, convergence_tol=0)
    program = Single()
    with bench(strategy, program) as run:
        run.begin((X, Y), 3, range(100))
        run.work()
        found = program.spec.layout.tensors(run.run.parameters.read()[0])
    assert found["w"].dtype == np.float32
    np.testing.assert_allclose(found["w"], by_hand(strategy, 3, 100), rtol=1e-5)
    np.testing.assert_allclose(found["seen"], X.mean(), rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fraction": 0}, "fraction: expected a number above 0 and up to 1"),
        ({"fraction": 1.5}, "fraction: expected a number above 0 and up to 1"),
        ({"step_size": 0}, "step_size: expected a finite number above 0"),
        ({"updater": "L2"}, "updater: expected one of none, l2, l1"),
        ({"reg_param": -1.0}, "reg_param: expected a finite number of at least 0"),
        ({"reg_param": 0.1}, "reg_param: expected 0 with updater 'none', got 0.1. Choose"),
        ({"convergence_tol": 1}, "convergence_tol: expected a number from 0 to below 1"),
        ({"sampler": "spark"}, "sampler: expected one of own, mllib"),
        ({"seed": -1}, "seed: expected a whole number of at least 0"),
    ],
)
def test_a_parameter_out_of_range_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TreeAggregate(**given)


def test_what_does_not_go_with_it_says_what_does() -> None:
    strategy = as_strategy("treeaggregate")
    own = strategy.exact_settings()
    with pytest.raises(ConfigError, match=r"expected 'bsp'.*strategy='ps'"):
        own.check(ASP, 1)
    with pytest.raises(ConfigError, match=r"sync_interval: expected 1 .*got 10.*'allreduce'"):
        own.check(BSP, 10)
    with pytest.raises(ConfigError, match=r"combiner: expected none .*strategy='ps'"):
        strategy.settings(ParameterServer().default_combiner(ASP), PLAIN)
    with pytest.raises(ConfigError, match=r"combiner: expected none .*strategy='ps'"):
        own.changed(combiner=object())
    for refused in (lambda c: strategy.settings(None, c), lambda c: own.changed(codec=c)):
        with pytest.raises(ConfigError, match=r"codec: expected 'fp32' .*got 'int8'.*allreduce"):
            refused(as_codecs("int8"))
    assert own.changed(codec=PLAIN) == own


def test_the_state_of_another_optimizer_is_refused() -> None:
    descent = GradientDescent(Linear("squared", 2).spec.layout, 1.0, "none", 0.0, 0.0)
    descent.restore(descent.state())
    with pytest.raises(ValueError, match="no state of an optimizer, got 1 arrays"):
        descent.restore([np.zeros(2)])


def test_a_gradient_that_is_not_finite_ends_the_run() -> None:
    bad = X.copy()
    bad[4, 0] = np.nan
    with bench(TreeAggregate()) as run:
        run.begin((bad, Y), 3, range(3))
        with pytest.raises((AssertionError, TosError), match=r"NaN|nan"):
            run.work()
        assert run.run.parameters.version == 0


def test_a_swap_neither_brings_nor_takes_the_state_of_a_programs_optimizer() -> None:
    with bench(TreeAggregate()) as run:
        trainer = run.run.trainer
        assert trainer.hand_over().optimizer is None
        assert not trainer.take_over(HandedOver(7, None, [np.ones(2)]))
        assert trainer.parameters.version == 7
