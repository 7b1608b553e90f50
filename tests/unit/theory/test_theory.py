from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook import theory
from tos_notebook.errors import ConfigError


def radius(move: float, staleness: int) -> float:
    """Return by what factor c_{t+1} = c_t - move c_{t-τ} grows in the long run."""
    companion = np.eye(staleness + 1, k=-1)
    companion[0, 0] += 1
    companion[0, staleness] -= move
    return float(np.abs(np.linalg.eigvals(companion)).max())


def threshold(staleness: int) -> float:
    """Return where descent with delayed gradients ceases to be stable, by bisection."""
    low, high = 1e-3, 3.0
    assert radius(low, staleness) < 1 < radius(high, staleness)
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if radius(middle, staleness) < 1 else (low, middle)
    return low


@pytest.mark.parametrize(
    ("staleness", "known"), [(0, 2.0), (1, 1.0), (2, 0.618), (5, 0.285), (10, 0.149)]
)
def test_descent_with_delayed_gradients_is_stable_up_to_the_bound(
    staleness: int, known: float
) -> None:
    bound = theory.stability_bound(staleness)
    assert bound == pytest.approx(known, abs=6e-4)
    assert bound == pytest.approx(threshold(staleness), abs=1e-3)


@given(st.floats(0, 1e6), st.floats(0, 1e3))
def test_more_staleness_leaves_less_room(staleness: float, more: float) -> None:
    bound = theory.stability_bound(staleness)
    assert 0 < theory.stability_bound(staleness + more) <= bound <= 2


@pytest.mark.parametrize("workers", [1, 2, 4, 8, 16])
def test_simulated_staleness_has_the_predicted_mean(workers: int) -> None:
    """Within five standard errors, once every worker has pushed some times."""
    runs, settled = 2000, 10 * workers
    found = theory.simulate(workers, settled + 20, runs=runs).staleness[settled:].mean(axis=0)
    error = found.std() / math.sqrt(runs)
    assert abs(found.mean() - theory.mean_staleness(workers)) <= 5 * error


@pytest.mark.parametrize(
    ("workers", "known"), [(1, 0.0), (2, 0.5), (4, 0.75), (8, 0.875), (16, 0.9375)]
)
def test_asynchrony_has_the_predicted_momentum_and_step(workers: int, known: float) -> None:
    rate, curvature = 0.4, 0.5
    runs = theory.simulate(workers, rate=rate, curvature=curvature).parameter
    fit = theory.fit_momentum(runs.mean(axis=1))
    assert theory.implicit_momentum(workers) == known
    assert fit.momentum == pytest.approx(known, abs=0.01)
    step = theory.effective_rate(rate, workers) * curvature
    assert fit.step == pytest.approx(step, rel=0.05)


@given(st.just(0.0) | st.floats(0.05, 0.95), st.floats(0.05, 0.5))
def test_the_fit_finds_the_momentum_of_exact_descent(momentum: float, step: float) -> None:
    x = [1.0, 1.0]
    for _ in range(40):
        x.append(x[-1] + momentum * (x[-1] - x[-2]) - step * x[-1])
    fit = theory.fit_momentum(x[1:])
    assert fit == pytest.approx((momentum, step), abs=1e-6)


def test_a_simulation_is_a_function_of_its_seed() -> None:
    first, same, other = (theory.simulate(3, 9, seed=seed, runs=5) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.parameter, same.parameter)
    assert (first.staleness != other.staleness).any()
    assert first.parameter.shape == (10, 5)


def test_one_worker_simulated_descends_as_if_alone() -> None:
    found = theory.simulate(1, 5, rate=0.5, curvature=0.5, runs=2)
    assert not found.staleness.any()
    np.testing.assert_allclose(found.parameter[:, 0], 0.75 ** np.arange(6))


@given(st.floats(0.01, 3), st.floats(0.01, 3), st.integers(1, 20))
def test_a_round_of_local_steps_multiplies_the_error(rate: float, h: float, steps: int) -> None:
    """Any number of workers: the mean of equal copies is each of them."""
    workers = np.full(3, 7.0)
    for _ in range(steps):
        workers -= rate * h * workers
    factor = theory.local_sgd_factor(rate, h, steps)
    assert workers.mean() / 7 == pytest.approx(factor, rel=1e-6, abs=1e-9)


def test_gauges_set_predictions_beside_what_the_staleness_makes_of_them() -> None:
    staleness, momentum, stable, curvature = theory.gauges(4, 1.0, rate=0.5)
    assert (staleness.predicted, staleness.measured) == (3, 1)
    assert (momentum.predicted, momentum.measured) == (0.75, 0.5)
    # π/14 and π/6: the sines of the bounds at 3 and at 1.
    assert (stable.predicted, stable.measured) == pytest.approx((0.2225, 0.5), abs=1e-4)
    assert curvature.measured == pytest.approx(2.0)
    assert curvature.predicted == pytest.approx(4 * stable.predicted)
    assert "learning rate 0.5" in curvature.meaning


def test_gauges_of_one_worker_say_that_nothing_is_stale() -> None:
    found = theory.gauges(1, 0.0)
    assert [(gauge.predicted, gauge.measured) for gauge in found] == [(0, 0), (0, 0), (1, 1)]


def test_gauges_without_a_milestone_are_unknown() -> None:
    for gauge in theory.gauges(math.nan, math.nan, rate=1.0):
        assert math.isnan(gauge.predicted)
        assert math.isnan(gauge.measured)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.mean_staleness(0.5), "workers: expected .* at least 1, got 0.5"),
        (lambda: theory.implicit_momentum(math.nan), "workers: .* got nan"),
        (lambda: theory.effective_rate(0, 2), "rate: expected .* above 0, got 0"),
        (lambda: theory.stability_bound(-1), "staleness: expected .* at least 0, got -1"),
        (lambda: theory.stability_bound(math.inf), "staleness: .* got inf"),
        (lambda: theory.local_sgd_factor(0.1, 1, 0), "steps: .* at least 1, got 0"),
        (lambda: theory.local_sgd_factor(0.1, -1, 1), "curvature: .* above 0, got -1"),
        (lambda: theory.fit_momentum([1, 0.5]), r"at least 5 finite values .* got shape \(2,\)"),
        (lambda: theory.fit_momentum([[1.0] * 9]), r"one dimension, got shape \(1, 9\)"),
        (lambda: theory.fit_momentum([1.0] * 9 + [math.inf]), "at least 5 finite values"),
        (lambda: theory.simulate(0), "workers: .* at least 1, got 0"),
        (lambda: theory.simulate(1, 0), "steps: .* at least 1, got 0"),
        (lambda: theory.simulate(1, runs=0), "runs: .* at least 1, got 0"),
        (lambda: theory.gauges(2, 1, rate=0), "rate: .* above 0, got 0"),
    ],
)
def test_values_out_of_range_are_refused(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(ConfigError, match=message):
        call()
