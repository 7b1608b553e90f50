"""Server optimizers on the mean of K pushes, against their closed forms in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.combiners.support import (
    FLOATS,
    Array,
    Model,
    assert_close,
    assert_elements_close,
    stacks,
    wide,
)
from tos_notebook.combiners import (
    BMUF,
    Combiner,
    DelayedNesterov,
    DiLoCo,
    FedAdam,
    FedAvg,
    FedBuff,
    FedYogi,
    OuterMomentum,
    SlowMo,
)
from tos_notebook.errors import ConfigError

rounds = st.sampled_from(FLOATS).flatmap(lambda dtype: stacks(dtype))
momenta = st.sampled_from([0.0, 0.5, 0.9])


@given(rounds)
@pytest.mark.parametrize(
    "make",
    [
        FedAvg,
        lambda k: FedBuff(k, lr=1.0, momentum=0),
        lambda k: DiLoCo(k, lr=1.0, momentum=0),
        lambda k: SlowMo(k, lr=1.0, momentum=0),
        lambda k: BMUF(k, lr=1.0, momentum=0),
    ],
    ids=["fedavg", "fedbuff", "diloco", "slowmo", "bmuf"],
)
def test_without_momentum_one_round_of_n_is_fedavg(
    make: Callable[[int], Combiner], changes: Array
) -> None:
    """The mean of all n workers' parameters, who began at the same center."""
    center = changes[0][::-1] / 2
    model = Model(make(len(changes)), center)
    for worker, change in enumerate(changes):
        model.merge(change, worker=worker)
    mean = np.mean(wide(center) + wide(changes), axis=0)
    assert_elements_close(model.center, mean, center, *changes)


@given(rounds)
@pytest.mark.parametrize("kind", [FedAvg, DiLoCo, SlowMo, BMUF])
def test_a_round_is_as_many_pushes_as_there_are_workers(
    kind: Callable[..., Combiner], changes: Array
) -> None:
    n = len(changes)
    given_k, by_default = Model(kind(k=n), changes[0]), Model(kind(), changes[0])
    for change in (*changes, *changes):
        given_k.merge(change, workers=1)
        by_default.merge(change, workers=n)
    np.testing.assert_array_equal(given_k.center, by_default.center)


@given(rounds, st.data())
def test_fedavg_weighs_each_worker_by_its_samples(changes: Array, data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 1000), min_size=len(changes), max_size=len(changes)))
    center = changes[0][::-1] / 2
    model = Model(FedAvg(len(changes)), center)
    for worker, (change, samples) in enumerate(zip(changes, counts, strict=True)):
        model.merge(change, worker=worker, samples=samples)
    weights = np.asarray(counts, np.float64) / sum(counts)
    moved = np.tensordot(weights, wide(changes), axes=1)
    assert_elements_close(model.center, wide(center) + moved, center, *changes)


@given(rounds)
def test_fedavg_of_one_worker_adds_its_change_to_the_bit(changes: Array) -> None:
    model = Model(FedAvg(), changes[0])
    expected = changes[0].astype(changes.dtype)
    for samples, change in enumerate(changes, 3):
        model.merge(change, samples=samples)
        expected = expected + change
    np.testing.assert_array_equal(model.center, expected)


def test_fedbuff_waits_for_half_the_workers() -> None:
    for workers, expected in [(1, 1), (2, 1), (5, 2), (8, 4)]:
        model = Model(FedBuff(), np.zeros(1))
        moved = 0
        for count in range(1, workers + 1):
            model.merge(np.ones(1), workers=workers)
            moved = moved or (count if model.center[0] else 0)
        assert moved == expected


@given(rounds)
def test_a_round_that_is_not_full_leaves_the_centre_and_replies_it(changes: Array) -> None:
    rules = (FedBuff, DiLoCo, SlowMo, BMUF, lambda k: FedAdam(k=k), lambda k: FedYogi(k=k))
    for make in rules:
        model = Model(make(len(changes) + 1), changes[0])
        for change in changes:
            (reply,) = model.merge(change)
            np.testing.assert_array_equal(model.center, changes[0])
            np.testing.assert_array_equal(reply, changes[0])


@given(rounds, st.integers(1, 3), st.data())
def test_fedbuff_weights_by_the_root_of_the_steps_that_were_missed(
    changes: Array, k: int, data: st.DataObject
) -> None:
    """Not of the pushes: the center moves at every K-th only."""
    model = Model(FedBuff(k, lr=0.7), np.zeros_like(changes[0]))
    reference, path = np.zeros(changes.shape[1]), []
    for count, change in enumerate(changes[: len(changes) // k * k]):
        base = data.draw(st.integers(0, count))
        model.merge(change, staleness=count - base)
        reference += wide(change) / np.sqrt(1 + count // k - base // k)
        path.append(0.7 * reference / k)
    expected = path[-1] if path else reference
    assert_elements_close(model.center, expected, *changes, *path)


def test_what_fedbuff_remembers_of_its_steps_is_bounded() -> None:
    model = Model(FedBuff(1), np.zeros(1))
    for count in range(3000):
        model.merge(np.ones(1), staleness=count)
    (rule,) = model.rules
    assert isinstance(rule, FedBuff)
    assert len(rule.steps) == 1000
    before = float(model.center[0])
    model.merge(np.ones(1), staleness=3000)
    assert model.center[0] - before == pytest.approx(1001**-0.5)


@given(rounds, momenta, st.integers(1, 3))
@pytest.mark.parametrize("kind", [FedBuff, SlowMo, BMUF, DiLoCo])
def test_momentum_over_several_rounds_has_its_closed_form(
    kind: Callable[..., Combiner], changes: Array, momentum: float, k: int
) -> None:
    model = Model(kind(k, lr=0.5, momentum=momentum), np.zeros_like(changes[0]))
    for change in changes:
        model.merge(change)
    center = m = np.zeros(changes.shape[1])
    path = []
    for start in range(0, len(changes) - k + 1, k):
        mean = wide(changes[start : start + k]).mean(axis=0)
        m = momentum * m + mean
        center = center + 0.5 * (mean + momentum * m if kind is DiLoCo else m)
        path += [m, center]
    assert_elements_close(model.center, center, *changes, *path)


def test_slowmo_follows_its_paper_and_diloco_torch_by_hand() -> None:
    """Two rounds of Δ = 1: m = 1, then 1 + μ."""
    slow, nesterov = (
        Model(SlowMo(1, 1.0, 0.5), np.zeros(1)),
        Model(DiLoCo(1, 1.0, 0.5), np.zeros(1)),
    )
    for slow_expected, nesterov_expected in [(1, 1.5), (2.5, 3.25)]:
        slow.merge(np.ones(1))
        nesterov.merge(np.ones(1))
        assert slow.center[0] == slow_expected
        assert nesterov.center[0] == nesterov_expected


@given(rounds, momenta)
def test_delayed_nesterov_of_every_push_is_outer_nesterov(changes: Array, beta: float) -> None:
    ours = Model(DelayedNesterov(0.7, beta, n=1), np.zeros_like(changes[0]))
    outer = Model(DiLoCo(1, 0.7, beta), np.zeros_like(changes[0]))
    path = []
    for change in changes:
        ours.merge(change)
        outer.merge(change)
        path.append(outer.center.copy())
    (rule,) = outer.rules
    assert isinstance(rule, OuterMomentum)
    assert_elements_close(ours.center, wide(outer.center), *changes, *path, rule.m)


@given(rounds, momenta, st.integers(1, 4))
def test_delayed_nesterov_steps_at_once_and_updates_its_momentum_later(
    changes: Array, beta: float, n: int
) -> None:
    model = Model(DelayedNesterov(0.7, beta, n), np.zeros_like(changes[0]))
    center = m = np.zeros(changes.shape[1])
    path = []
    for index, change in enumerate(changes):
        model.merge(change)
        center = center + 0.7 * wide(change) / n
        if (index + 1) % n == 0:
            m = beta * m + wide(changes[index + 1 - n : index + 1]).mean(axis=0)
            center = center + 0.7 * beta * m
        path += [m, center]
        assert_elements_close(model.center, center, *changes, *path)


def quadratic(rule: Combiner, workers: int, rounds: int) -> float:
    """Minimise c²/2 with workers that take turns, each n - 1 versions stale; return the worst
    distance of the last rounds."""
    model = Model(rule, np.full(1, 1.0))
    adopted = [1.0] * workers
    late = []
    for turn in range(rounds * workers):
        worker = turn % workers
        change = np.array([-0.3 * adopted[worker]])
        (reply,) = model.merge(
            change, worker=worker, workers=workers, staleness=min(turn, workers - 1)
        )
        adopted[worker] = float(reply[0])
        late.append(abs(float(model.center[0])))
    return max(late[-5 * workers :])


def test_delayed_nesterov_beats_nesterov_at_every_asynchronous_push() -> None:
    """The reason for which it was published: at each push, the momentum acts n times too soon."""
    workers = 8
    naive = quadratic(DiLoCo(k=1, lr=0.7 / workers), workers, rounds=20)
    delayed = quadratic(DelayedNesterov(lr=0.7), workers, rounds=20)
    assert delayed < 0.5 * naive


@given(rounds)
@pytest.mark.parametrize("kind", [FedAdam, FedYogi])
def test_the_first_adaptive_step_has_its_closed_form(kind: type[FedAdam], changes: Array) -> None:
    """From m = v = 0 the two are the same: v = (1 - β₂) Δ̄²."""
    model = Model(kind(lr=0.1, k=len(changes)), np.zeros_like(changes[0]))
    for change in changes:
        model.merge(change)
    mean = wide(changes).mean(axis=0)
    expected = 0.1 * 0.1 * mean / (np.sqrt(0.01 * mean**2) + 1e-3)
    # Near Δ̄ = 0 the step is (1 - β₁) lr Δ̄ / ε.
    assert_elements_close(model.center, expected, *changes, slope=0.1 * 0.1 / 1e-3)


@given(rounds)
@pytest.mark.parametrize("kind", [FedAdam, FedYogi])
def test_adaptive_steps_have_their_closed_form(kind: type[FedAdam], changes: Array) -> None:
    model = Model(kind(lr=0.1, beta1=0.8, beta2=0.9, eps=0.1, k=1), np.zeros_like(changes[0]))
    center = m = v = np.zeros(changes.shape[1])
    path = []
    for change in changes:
        model.merge(change)
        delta = wide(change)
        m = 0.8 * m + 0.2 * delta
        grown = 0.9 * v + 0.1 * delta**2
        v = grown if kind is FedAdam else v - 0.1 * delta**2 * np.sign(v - delta**2)
        center = center + 0.1 * m / (np.sqrt(v) + 0.1)
        path.append(center)
    assert_elements_close(model.center, center, *changes, *path)


@pytest.mark.parametrize("kind", [FedAdam, FedYogi])
def test_an_enormous_change_does_not_spoil_the_second_moment_for_ever(kind: type[FedAdam]) -> None:
    model = Model(kind(k=1, beta2=0.5), np.zeros(1, np.float32))
    model.merge(np.full(1, 1e30, np.float32))
    before = float(model.center[0])
    for _ in range(200):
        model.merge(np.ones(1, np.float32))
    assert np.isfinite(model.center).all()
    if kind is FedAdam:
        assert float(model.center[0]) > before + 1


@given(stacks("float64", least=2))
@pytest.mark.parametrize("kind", [FedBuff, DiLoCo, SlowMo, BMUF])
def test_integers_move_by_the_rounded_step(kind: Callable[..., Combiner], changes: Array) -> None:
    whole = np.rint(changes).astype(np.int32)
    model = Model(kind(len(whole), lr=1.0, momentum=0), whole[0])
    for change in whole:
        model.merge(change)
    np.testing.assert_array_equal(model.center, whole[0] + np.rint(wide(whole).mean(axis=0)))


def test_an_unsigned_parameter_can_shrink_by_a_mean() -> None:
    before, after = np.array([200, 3], np.uint8), np.array([190, 5], np.uint8)
    model = Model(SlowMo(2, 1.0, 0), before)
    model.merge(after - before)
    model.merge(after - before)
    np.testing.assert_array_equal(model.center, after)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FedBuff(0),
        lambda: FedBuff(1.5),
        lambda: FedBuff(lr=0),
        lambda: DiLoCo(momentum=1),
        lambda: SlowMo(momentum=-0.1),
        lambda: BMUF(lr=float("nan")),
        lambda: DelayedNesterov(n=0),
        lambda: DelayedNesterov(beta=1.0),
        lambda: FedAdam(eps=0),
        lambda: FedAdam(beta1=1),
        lambda: FedYogi(beta2="0.9"),
        lambda: FedYogi(k=True),
    ],
)
def test_a_parameter_out_of_range_is_refused(make: Callable[[], Combiner]) -> None:
    with pytest.raises(ConfigError, match=r"expected .* got"):
        make()


def test_the_mean_of_one_worker_is_its_change_to_the_bit() -> None:
    center, change = np.array([0.1, 3e10]), np.array([0.7, 1.0])
    model = Model(SlowMo(1, 1.0, 0), center)
    model.merge(change)
    assert_close(model.center, center + change, center, change)
    np.testing.assert_array_equal(model.center, center + change)
