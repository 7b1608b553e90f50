"""MLlib's updaters, by what defines each: the minimum that its step is."""

from __future__ import annotations

import numpy as np
import pytest

from tos_notebook.strategies.treeaggregate.updaters import UPDATERS, l1, simple, squared_l2

CASES = [(seed, step, reg) for seed in range(10) for step, reg in ((0.01, 0.5), (0.5, 0.1), (1, 1))]


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=7), random.normal(size=7)


@pytest.mark.parametrize("name", UPDATERS)
@pytest.mark.parametrize("seed", range(5))
def test_without_regularization_all_go_down_the_gradient(name: str, seed: int) -> None:
    weights, gradient = drawn(seed)
    before = weights.copy(), gradient.copy()
    made = UPDATERS[name](weights, gradient, 0.3, 0.0)
    np.testing.assert_allclose(made, weights - 0.3 * gradient, rtol=1e-15)
    assert (weights == before[0]).all()
    assert (gradient == before[1]).all()


@pytest.mark.parametrize(("seed", "step", "reg"), CASES)
def test_l2_goes_down_the_gradient_of_loss_and_half_the_squared_norm(
    seed: int, step: float, reg: float
) -> None:
    weights, gradient = drawn(seed)
    expected = simple(weights, gradient + reg * weights, step, 0)
    np.testing.assert_allclose(squared_l2(weights, gradient, step, reg), expected, atol=1e-14)


@pytest.mark.parametrize(("seed", "step", "reg"), CASES)
def test_l1_makes_the_least_of_distance_and_norm(seed: int, step: float, reg: float) -> None:
    weights, gradient = drawn(seed)
    made, aim = l1(weights, gradient, step, reg), simple(weights, gradient, step, 0)

    def cost(value: np.ndarray) -> np.ndarray:
        return (value - aim) ** 2 / 2 + step * reg * np.abs(value)

    for off in (-1e-3, 1e-3, -0.1, 0.1):
        assert (cost(made) <= cost(made + off)).all()
    assert (cost(made) <= cost(np.zeros(7))).all()


def test_l1_sets_small_weights_to_exactly_0() -> None:
    made = l1(np.array([0.3, -0.3, 2.0, -2.0]), np.zeros(4), 0.5, 1.0)
    assert made.tolist() == [0, 0, 1.5, -1.5]
