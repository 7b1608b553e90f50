"""The original's three combiners: natively, by hand, and under the original's names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.combiners.support import FLOATS, INTEGERS, Array, arrays, assert_close, pairs, push
from tos_notebook.combiners import (
    DeltaWeightCombiner,
    Downpour,
    FedAsync,
    MeanWeightCombiner,
    UpdateMeanWeightCombiner,
    as_combiner,
)
from tos_notebook.errors import ConfigError
from tos_notebook.tensorspark import weight_combiner as comb


@given(pairs(FLOATS), st.integers(1, 9))
def test_mean_is_the_same_natively_and_by_hand(pair: tuple[Array, Array], num: int) -> None:
    center, weights = pair
    before = center.copy(), weights.copy()
    reference = MeanWeightCombiner(num).compute(center.astype(float), weights.astype(float))
    MeanWeightCombiner(num).merge(center, weights, push())
    assert_close(center, reference, *before)
    np.testing.assert_array_equal(weights, center)


@given(pairs(FLOATS + INTEGERS), st.integers(1, 9))
def test_mean_is_fedasync_without_discount(pair: tuple[Array, Array], num: int) -> None:
    ours, theirs = [x.copy() for x in pair], [x.copy() for x in pair]
    MeanWeightCombiner(num).merge(*ours, push(staleness=5))
    FedAsync(alpha=1 / num, a=0).merge(*theirs, push(staleness=5))
    np.testing.assert_array_equal(ours, theirs)


def test_mean_counts_the_active_workers_by_default() -> None:
    center, weights = np.zeros(1), np.full(1, 8.0)
    MeanWeightCombiner().merge(center, weights, push(workers=4))
    assert center[0] == weights[0] == 2


@given(pairs(FLOATS + INTEGERS))
def test_mean_of_one_worker_takes_its_weights_to_the_bit(pair: tuple[Array, Array]) -> None:
    center, weights = pair
    expected = weights.copy()
    MeanWeightCombiner().merge(center, weights, push(workers=1))
    np.testing.assert_array_equal(center, expected)
    np.testing.assert_array_equal(weights, expected)


@pytest.mark.parametrize("num", [0, 1.5, True, "2"])
def test_mean_refuses_a_number_that_is_no_count(num: int) -> None:
    with pytest.raises(ConfigError, match="num"):
        MeanWeightCombiner(num)


def test_mean_by_hand_needs_its_number() -> None:
    with pytest.raises(ConfigError, match=r"MeanWeightCombiner\(num=4\)"):
        MeanWeightCombiner().compute(np.zeros(1), np.ones(1))


@given(pairs(FLOATS + INTEGERS))
def test_updatemean_takes_the_first_push_and_then_the_mean(pair: tuple[Array, Array]) -> None:
    rule = UpdateMeanWeightCombiner()
    first = [x.copy() for x in pair]
    rule.merge(*first, push(pushes=0))
    np.testing.assert_array_equal(first, [pair[1], pair[1]])
    later, theirs = [x.copy() for x in pair], [x.copy() for x in pair]
    rule.merge(*later, push(pushes=1))
    FedAsync(alpha=0.5, a=0).merge(*theirs, push())
    np.testing.assert_array_equal(later, theirs)


def test_updatemean_by_hand_remembers_the_first_push_of_each_tensor() -> None:
    rule = UpdateMeanWeightCombiner()
    zero, four = np.zeros(2), np.full(2, 4.0)
    np.testing.assert_array_equal(rule.compute(zero, four, name="W"), four)
    np.testing.assert_array_equal(rule.compute(zero, four, name="W"), four / 2)
    np.testing.assert_array_equal(rule.compute(zero, four, name="b"), four)


@given(pairs(FLOATS + INTEGERS))
def test_delta_is_downpour(pair: tuple[Array, Array]) -> None:
    ours, theirs = [x.copy() for x in pair], [x.copy() for x in pair]
    DeltaWeightCombiner().merge(*ours, push(staleness=2))
    Downpour().merge(*theirs, push(staleness=2))
    np.testing.assert_array_equal(ours, theirs)


@given(
    arrays("int64", 1),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 50)), max_size=20),
)
def test_delta_by_hand_adds_every_change_once(
    one: tuple[Array], changes: list[tuple[int, int]]
) -> None:
    """In any order of pushes: the center is the start plus the sum of all changes."""
    start = one[0]
    rule, center = DeltaWeightCombiner(), start.copy()
    workers = {worker: start.copy() for worker in range(4)}
    for worker, change in changes:
        trained = workers[worker] + change
        center = rule.compute(center, trained, worker, "W")
        workers[worker] = center.copy()
    np.testing.assert_array_equal(center, start + sum(change for _, change in changes))


def test_delta_by_hand_keeps_its_own_copies() -> None:
    rule = DeltaWeightCombiner()
    pulled = rule.compute(np.zeros(2), np.ones(2), 0, "W")
    pulled += 1  # the caller goes on training in place
    np.testing.assert_array_equal(rule.compute(np.ones(2), pulled, 0, "W"), [2, 2])


def test_the_original_names_are_there() -> None:
    class Mine(comb.WeightCombiner):
        def compute(
            self, origin_weight: Array, new_weight: Array, worker_id: int = -1, name: str = ""
        ) -> Array:
            return np.maximum(origin_weight, new_weight)

    center, weights = np.array([1.0, 5.0]), np.array([3.0, 4.0])
    as_combiner(Mine()).merge(center, weights, push())
    np.testing.assert_array_equal([center, weights], [[3, 5], [3, 5]])
    assert comb.MeanWeightCombiner is MeanWeightCombiner
    assert comb.UpdateMeanWeightCombiner is UpdateMeanWeightCombiner
    assert comb.DeltaWeightCombiner is DeltaWeightCombiner
