"""What a worker can do to the center that says of NaN and of infinity that they are finite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.combiners.support import Array
from tos_notebook.combiners import (
    COMBINERS,
    Clip,
    Combiner,
    FedAdam,
    Median,
    MultiKrum,
    TrimmedMean,
    get,
)
from tos_notebook.errors import CheckpointError, CombinerError, NonFiniteUpdate
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Merge, Push

LAYOUT = Layout([ParameterSpec("W", (40,), "float32"), ParameterSpec("h", (3,), "float16")])
STRIPE = 64
"""Bytes: several stripes."""

HUGE = {"W": 3.3e38, "h": 6.5e4}
"""Near the largest number of each dtype: the sum of two is infinite."""

ROBUST: dict[str, Callable[[], Combiner]] = {
    "median": Median,
    "trimmedmean": TrimmedMean,
    "multikrum": MultiKrum,
    "median, then fedadam": lambda: Median(then=FedAdam(k=1)),
    "clip, then median": lambda: Clip(1e6, Median()),
}


def store_of(combiner: Combiner) -> Center:
    initial = LAYOUT.pack([np.ones(spec.shape, spec.dtype) for spec in LAYOUT.specs])
    return Center(LAYOUT, initial, combiner, STRIPE)


def merge(
    store: Center, value: Array | float, worker: int = 0, skip: bool = False, finite: bool = True
) -> Merge:
    """Push one value for all parameters."""
    update = LAYOUT.pack([np.full(spec.shape, value, spec.dtype) for spec in LAYOUT.specs])
    push = Push(worker, store.version, 1, 10, workers=5, finite=finite, skip=skip)
    return store.merge(update, push)


def merge_huge(store: Center, worker: int, sign: int) -> None:
    update = LAYOUT.pack([np.full(s.shape, sign * HUGE[s.name], s.dtype) for s in LAYOUT.specs])
    store.merge(update, Push(worker, store.version, 1, 10, workers=5))


def merge_all_huge(store: Center, *signs: int) -> None:
    for turn, sign in enumerate(signs):
        merge_huge(store, turn % 5, sign)


def center(store: Center) -> dict[str, Array]:
    return LAYOUT.tensors(store.read()[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", sorted(COMBINERS))
def test_what_is_not_finite_is_in_no_checkpoint_whatever_the_worker_says(
    name: str, bad: float
) -> None:
    """Either the center is as finite as it was, or it is not copied."""
    store = store_of(get(name))
    for worker in range(5):
        try:
            merge(store, bad if worker == 2 else 0.5, worker)
        except CombinerError:
            break
    if all(np.isfinite(tensor).all() for tensor in center(store).values()):
        store.snapshot()
        return
    assert not store.combiner.compares
    with pytest.raises(CheckpointError, match="No checkpoint is written"):
        store.snapshot()
    assert isinstance(store.check(store.center), NonFiniteUpdate)


@pytest.mark.parametrize("name", sorted(COMBINERS))
def test_sums_that_overflow_end_the_run_and_are_in_no_checkpoint(name: str) -> None:
    store = store_of(get(name))
    try:
        merge_all_huge(store, *[1] * 10, *[-1] * 10)
    except CombinerError as error:
        assert "lower the learning rate" in str(error)  # noqa: PT017
        with pytest.raises(CheckpointError, match="No checkpoint is written"):
            store.snapshot()
    else:
        assert all(np.isfinite(tensor).all() for tensor in center(store).values())
        store.snapshot()


@pytest.mark.parametrize(
    ("name", "signs"),
    [
        ("downpour", (1, 1)),
        ("fedavg", (1, 1)),
        ("median", (1,) * 10),
        ("easgd", (1, -1, 1, -1)),
    ],
)
def test_sums_beyond_the_largest_number_are_told_as_what_they_are(
    name: str, signs: tuple[int, ...]
) -> None:
    store = store_of(get(name))
    with pytest.raises(CombinerError, match=rf"{name} expected sums within the range"):
        merge_all_huge(store, *signs)
    assert store.torn is not None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rule", ROBUST)
def test_a_robust_rule_gives_no_voice_to_what_is_not_finite(rule: str, bad: float) -> None:
    """A round is full without it: the others need not wait for one who has spoken."""
    with_bad, without = store_of(ROBUST[rule]()), store_of(ROBUST[rule]())
    for worker in range(5):
        value = bad if worker == 2 else float(worker)
        outcome = merge(with_bad, value, worker)
        assert (outcome.left_out is not None) == (worker == 2)
    assert with_bad.version == 5
    for worker in (0, 1, 3, 4):
        update = LAYOUT.pack([np.full(s.shape, worker, s.dtype) for s in LAYOUT.specs])
        without.merge(update, Push(worker, without.version, 1, 10, workers=4))
    for name, tensor in center(with_bad).items():
        np.testing.assert_array_equal(tensor, center(without)[name])
        assert (tensor != 1).all()


@pytest.mark.parametrize("rule", ROBUST)
def test_a_round_of_robust_rules_without_any_voice_moves_nothing(rule: str) -> None:
    store = store_of(ROBUST[rule]())
    for worker in range(5):
        merge(store, np.nan, worker)
    assert all((tensor == 1).all() for tensor in center(store).values())
    for worker in range(5):
        merge(store, 2.0, worker)
    assert all((tensor != 1).all() for tensor in center(store).values())


@pytest.mark.parametrize("rule", ROBUST)
def test_one_value_that_is_not_finite_silences_a_worker_in_all_parameters(rule: str) -> None:
    store = store_of(ROBUST[rule]())
    for worker in range(5):
        tensors = [np.full(s.shape, 1e3 if worker == 4 else 1.0, s.dtype) for s in LAYOUT.specs]
        if worker == 4:
            tensors[1][0] = np.inf
        push = Push(worker, store.version, 1, 10, workers=5)
        store.merge(LAYOUT.pack(tensors), push)
    assert all((abs(tensor - 1) <= 1).all() for tensor in center(store).values())


@pytest.mark.parametrize("rule", ROBUST)
def test_one_huge_voice_does_not_overflow_the_others(rule: str) -> None:
    store = store_of(ROBUST[rule]())
    for worker in range(4):
        merge(store, 1.0, worker)
    for sign in (1, -1, 1):
        merge_huge(store, 0, sign)
    merge(store, 1.0, 4)
    assert all((abs(tensor - 1) <= 1).all() for tensor in center(store).values())


@pytest.mark.parametrize(("skip", "refused"), [(False, True), (True, False)])
def test_what_a_worker_owns_up_to_falls_under_the_policy(skip: bool, refused: bool) -> None:
    """Left out, the worker has spoken all the same: else no round would ever be full."""
    store = store_of(Median())
    if refused:
        with pytest.raises(NonFiniteUpdate, match="'W'"):
            merge(store, np.nan, finite=False)
        assert store.version == 0
    else:
        assert merge(store, np.nan, skip=skip, finite=False).left_out is not None
        assert store.version == 1


def test_a_rule_that_does_not_compare_refuses_what_another_might_leave_out() -> None:
    store = store_of(get("downpour"))
    with pytest.raises(NonFiniteUpdate, match="'W'"):
        merge(store, np.nan, skip=True, finite=False)
