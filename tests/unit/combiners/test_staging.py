"""What users' combiners return is checked before any of it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.combiners.support import Array, push
from tos_notebook.combiners import Combiner, PushInfo, as_combiner
from tos_notebook.combiners.staging import Proposal, stage
from tos_notebook.errors import CombinerError, NonFiniteUpdate


def ask(returned: Any, like: Array) -> Proposal:
    """Stage one tensor with a combiner that returns a given value."""

    def rule(center: Array, update: Array, push: PushInfo) -> Any:
        return returned

    return stage({"W": as_combiner(rule)}, {"W": like}, {"W": like}, push())["W"]


@pytest.mark.parametrize(
    ("returned", "dtype", "expected"),
    [
        ([1.5, 2.5], "float32", [1.5, 2.5]),
        (np.array([1.5, 2.5]), "float16", [1.5, 2.5]),
        (np.array([1, 2]), "float64", [1, 2]),
        (np.array([1.6, -7.0]), "uint8", [2, 0]),
        (np.array([300, 3]), "int8", [127, 3]),
        (np.array([2**62 + 1, 3]), "int64", [2**62 + 1, 3]),
        (np.array([1e30, -1e30]), "int64", [2**63 - 1024, -(2**63)]),
    ],
)
def test_numbers_are_converted_to_the_parameters_dtype(
    returned: npt.ArrayLike, dtype: str, expected: list[float]
) -> None:
    proposal = ask(returned, np.zeros(2, dtype))
    assert proposal.center.dtype == dtype
    np.testing.assert_array_equal(proposal.center, expected)
    np.testing.assert_array_equal(proposal.reply, expected)


@pytest.mark.parametrize(
    ("returned", "came"),
    [
        (None, r"got shape \(\) of object"),
        (np.zeros(3), r"expected shape \(2,\) of float32, got shape \(3,\) of float64"),
        (0.0, r"got shape \(\) of float64"),
        (["a", "b"], "of <U1"),
        (np.zeros(2, complex), "of complex128"),
        ([[1.0], [1.0, 2.0]], "inhomogeneous"),
    ],
)
def test_nonsense_is_refused_by_combiner_and_tensor(returned: Any, came: str) -> None:
    with pytest.raises(CombinerError, match=f"Combiner rule, parameter 'W': .*{came}"):
        ask(returned, np.zeros(2, np.float32))


@pytest.mark.parametrize(
    ("returned", "dtype"),
    [([1, np.nan], "float32"), ([np.inf, 1], "int32"), ([1e6, 1], "float16")],
)
def test_values_that_are_or_become_infinite_are_refused(returned: Any, dtype: str) -> None:
    with pytest.raises(NonFiniteUpdate, match=r"parameter 'W': .*got 1 of 2 values"):
        ask(np.array(returned), np.zeros(2, dtype))


def test_a_result_that_the_combiner_keeps_is_copied() -> None:
    """A rule may write all its results into one array of its own."""
    own = np.zeros(2)

    def rule(center: Array, update: Array, push: PushInfo) -> Array:
        return np.add(center, update, out=own)

    tensors = {"a": np.ones(2), "b": np.full(2, 5.0)}
    staged = stage(dict.fromkeys(tensors, as_combiner(rule)), tensors, tensors, push())
    np.testing.assert_array_equal(staged["a"].center, [2, 2])
    np.testing.assert_array_equal(staged["b"].center, [10, 10])


def test_the_users_exception_is_the_cause() -> None:
    def rule(center: Array, update: Array, push: PushInfo) -> Array:
        raise KeyError("no such thing")

    tensors = {"W": np.ones(2)}
    with pytest.raises(CombinerError, match="rule, parameter 'W': raised KeyError") as caught:
        stage(dict.fromkeys(tensors, as_combiner(rule)), tensors, tensors, push())
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    assert cause.__traceback__ is not None


def test_an_elementwise_rule_has_a_reply_of_its_own_and_scalars_work() -> None:
    class Swap(Combiner):
        def merge(self, center: Array, update: Array, push: PushInfo) -> None:
            center[:], update[:] = update.copy(), center.copy()

    centers, updates = {"s": np.array(1.0)}, {"s": np.array(2.0)}
    staged = stage({"s": Swap()}, centers, updates, push())["s"]
    assert (staged.center.shape, staged.center, staged.reply) == ((), 2, 1)
    assert (centers["s"], updates["s"]) == (1, 2)
