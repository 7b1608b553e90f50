"""A push's norm is limited over the whole model, whatever merges it then."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.combiners.support import FLOATS, Array, Model, push, stacks, wide
from tos_notebook.combiners import EASGD, Clip, Downpour, DynSGD, FedAdam, Median, as_combiner
from tos_notebook.combiners.arithmetic import global_norm
from tos_notebook.errors import ConfigError

changes = st.sampled_from(FLOATS).flatmap(lambda dtype: stacks(dtype))


@given(changes, st.floats(0.01, 1000))
def test_a_longer_change_is_scaled_to_the_norm_and_a_shorter_one_is_left(
    tensors: Array, norm: float
) -> None:
    model = Model(Clip(norm), *np.zeros_like(tensors))
    model.merge(*tensors)
    length = float(np.linalg.norm(wide(tensors)))
    if length <= norm:
        np.testing.assert_array_equal(model.centers, tensors)
        return
    eps = float(np.finfo(tensors.dtype).eps)
    expected = wide(tensors) * (norm / length)
    tiny = float(np.finfo(tensors.dtype).smallest_subnormal)
    np.testing.assert_allclose(wide(np.array(model.centers)), expected, rtol=4 * eps, atol=tiny)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_norm_of_enormous_numbers_is_no_infinity(dtype: str) -> None:
    large = np.finfo(dtype).max / 4
    assert global_norm([np.full(4, large, dtype)]) == pytest.approx(2 * float(large))
    model = Model(Clip(1.0), np.zeros(4, dtype))
    model.merge(np.full(4, large, dtype))
    np.testing.assert_allclose(model.center, 0.5)


def test_nothing_and_zeros_have_the_norm_zero() -> None:
    assert global_norm([]) == global_norm([np.zeros(0)]) == global_norm([np.zeros(3)]) == 0


def test_integers_are_neither_counted_nor_scaled() -> None:
    model = Model(Clip(1.0), np.zeros(1), np.zeros(1, np.int64))
    model.merge(np.full(1, 0.5), np.full(1, 1000))
    assert (model.centers[0][0], model.centers[1][0]) == (0.5, 1000)


def test_another_rule_merges_what_was_clipped() -> None:
    model = Model(Clip(1.0, then=DynSGD()), np.zeros(1))
    model.merge(np.full(1, 9.0), staleness=3)
    assert model.center[0] == 0.25


def test_three_rules_compose() -> None:
    """Clipped pushes, their median, and Adam on it: the clipped outlier counts as one voice."""
    rule = Clip(1.0, then=Median(k=3, then=FedAdam(eps=1.0)))
    model, plain = Model(rule, np.zeros(1)), Model(FedAdam(eps=1.0, k=1), np.zeros(1))
    for worker, change in enumerate([0.25, 0.5, 1e9]):
        model.merge(np.full(1, change), worker=worker, workers=3)
    plain.merge(np.full(1, 0.5))
    np.testing.assert_array_equal(model.center, plain.center)


def test_it_has_the_other_rules_properties() -> None:
    mine = as_combiner(lambda center, update, push: center + update)
    assert Clip(1.0).striped
    assert not Clip(1.0, then=mine).striped
    assert repr(Clip(2, then=Downpour())) == "Clip(norm=2.0, then=Downpour())"


def test_by_hand_it_takes_an_array_for_the_whole_model() -> None:
    center, update = np.zeros(2), np.array([3.0, 4.0])
    Clip(1.0, then=FedAdam(eps=1.0)).merge(center, update, push())
    np.testing.assert_array_equal(center, update)
    assert center[0] > 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0,), r"Clip\(norm\): expected a finite number above 0, got 0"),
        ((1.0, EASGD()), "takes changes, got EASGD"),
        ((1.0, "downpour"), "takes changes, got 'downpour'"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[float, Downpour], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Clip(*arguments)
