"""GapAware and DC-ASGD: what they make of the way the center went meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.combiners.support import FLOATS, INTEGERS, Array, Model, pairs, stacks, wide
from tos_notebook.combiners import DCASGD, Combiner, Downpour, GapAware
from tos_notebook.errors import CombinerError, ConfigError

pushes = st.sampled_from(FLOATS).flatmap(lambda dtype: stacks(dtype, least=2))
workers = st.lists(st.integers(0, 2), min_size=8, max_size=8)


def replay(rule: Combiner, changes: Array, who: list[int]) -> Model:
    """Let workers push in a given order; each pulls nothing but its replies."""
    model, base = Model(rule, np.ones_like(changes[0])), [0, 0, 0]
    for change, worker in zip(changes, who, strict=False):
        model.merge(change, worker=worker, staleness=model.pushes - base[worker])
        base[worker] = model.pushes
    return model


def reference(
    correct: Callable[[Array, Array], Array], changes: Array, who: list[int]
) -> tuple[Array, float]:
    """The same in float64; and the largest value on the way."""
    center = np.ones(changes.shape[1])
    adopted, largest = [center] * 3, 1.0
    for change, worker in zip(wide(changes), who, strict=False):
        center = center + correct(change, center - adopted[worker])
        adopted[worker] = center
        largest = max(largest, float(np.abs(center).max()))
    return center, largest


@given(pushes, workers)
def test_gapaware_divides_by_the_squared_gap(changes: Array, who: list[int]) -> None:
    changes = changes / changes.dtype.type(100)
    model = replay(GapAware(gamma=4.0), changes, who)
    expected, largest = reference(lambda d, gap: d / (1 + gap**2 / 4), changes, who)
    atol = 200 * float(np.finfo(changes.dtype).eps) * largest
    np.testing.assert_allclose(wide(model.center), expected, rtol=0, atol=atol)


@given(pushes, workers, st.sampled_from([0.0, 0.04, 0.5]))
def test_dcasgd_adds_the_gap_weighted_by_the_squared_gradient(
    changes: Array, who: list[int], lam: float
) -> None:
    """In gradients: c -= η (g + λ g² (c - b)), with g = -Δ / η."""
    lr = 0.5
    changes = changes / changes.dtype.type(100)

    def correct(change: Array, gap: Array) -> Array:
        gradient = -change / lr
        return np.asarray(-lr * (gradient + lam * gradient**2 * gap))

    model = replay(DCASGD(lam, lr), changes, who)
    expected, largest = reference(correct, changes, who)
    atol = 1000 * float(np.finfo(changes.dtype).eps) * largest
    np.testing.assert_allclose(wide(model.center), expected, rtol=0, atol=atol)


@given(pushes, workers)
def test_dcasgd_without_correction_is_asynchronous_sgd_to_the_bit(
    changes: Array, who: list[int]
) -> None:
    ours, downpour = replay(DCASGD(lam=0), changes, who), replay(Downpour(), changes, who)
    np.testing.assert_array_equal(ours.center, downpour.center)


@given(pairs(FLOATS + INTEGERS))
@pytest.mark.parametrize("rule", [GapAware(), DCASGD(2.0)], ids=repr)
def test_fresh_pushes_are_downpour_to_the_bit(rule: Combiner, pair: tuple[Array, Array]) -> None:
    center, delta = pair
    ours, downpour = Model(rule, center), Model(Downpour(), center)
    for worker in (0, 0, 1):
        ours.merge(delta, worker=worker, staleness=0)
        downpour.merge(delta, worker=worker)
    np.testing.assert_array_equal(ours.center, downpour.center)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_gap_of_the_root_of_gamma_halves_a_change(dtype: str) -> None:
    gamma = 0.25
    model = Model(GapAware(gamma), np.zeros(1, dtype))
    model.merge(np.full(1, 0.5, dtype), worker=0)
    model.merge(np.full(1, 0.125, dtype), worker=1, staleness=1)
    assert model.center[0] == 0.5 + 0.125 / 2


def test_a_worker_that_came_later_counts_as_fresh_until_it_has_adopted() -> None:
    model = Model(GapAware(1.0), np.zeros(1))
    model.merge(np.ones(1), worker=0)
    model.merge(np.ones(1), worker=0)  # c = 2
    model.merge(np.ones(1), worker=1, staleness=1)  # pulled version 1: not the beginning
    assert model.center[0] == 3
    model.merge(np.ones(1), worker=0)
    model.merge(np.ones(1), worker=1, staleness=1)
    assert model.center[0] == 4.5


def test_a_worker_that_pulled_anew_is_not_measured_by_what_it_had() -> None:
    """After a new job, or a refused push, it goes on from a center that no push brought it."""
    model = Model(GapAware(1.0), np.zeros(1))
    model.merge(np.ones(1), worker=0)
    for _ in range(3):
        model.merge(np.ones(1), worker=1)
    model.merge(np.ones(1), worker=0, staleness=0)
    assert model.center[0] == 5


def test_an_enormous_gap_stops_a_change_and_stays_finite() -> None:
    model = Model(GapAware(), np.zeros(1, np.float32))
    model.merge(np.full(1, 1e30, np.float32), worker=0)
    model.merge(np.ones(1, np.float32), worker=1, staleness=1)
    assert model.center[0] == np.float32(1e30)


def test_dcasgd_refuses_more_than_one_step_and_says_what_to_do() -> None:
    model = Model(DCASGD(), np.zeros(1))
    with pytest.raises(CombinerError, match=r"one step per milestone, got 10.*sync_interval to 1"):
        model.merge(np.ones(1), steps=10)
    assert model.center[0] == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: GapAware(0),
        lambda: GapAware(float("inf")),
        lambda: DCASGD(-1),
        lambda: DCASGD(lr=0),
        lambda: DCASGD("a"),
    ],
)
def test_a_parameter_out_of_range_is_refused(make: Callable[[], Combiner]) -> None:
    with pytest.raises(ConfigError, match=r"expected .* got"):
        make()
