"""What a minority of bad workers can do to the center, and what it cannot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.combiners.support import FLOATS, Array, Model, assert_elements_close, stacks, wide
from tos_notebook.combiners import (
    ADAG,
    EASGD,
    Clip,
    Combiner,
    FedAdam,
    Median,
    MultiKrum,
    RobustCombiner,
    SlowMo,
    TrimmedMean,
    as_combiner,
)
from tos_notebook.errors import ConfigError

several = st.sampled_from(FLOATS).flatmap(lambda dtype: stacks(dtype, least=3, most=9))
Make = Callable[[], RobustCombiner]


def merged(rule: Combiner, changes: Array, *orders: int) -> Array:
    """Return what a round of workers makes of a center of zeros."""
    model = Model(rule, np.zeros_like(changes[0]))
    for worker in orders or range(len(changes)):
        model.merge(changes[worker], worker=worker, workers=len(changes))
    return model.center


@given(several)
def test_the_median_is_numpys(changes: Array) -> None:
    assert_elements_close(merged(Median(), changes), np.median(wide(changes), axis=0), *changes)


@given(several, st.sampled_from([0.1, 0.2, 0.3, 0.49]))
def test_the_trimmed_mean_leaves_out_its_share_at_either_end(changes: Array, trim: float) -> None:
    voices = len(changes)
    cut = min(int(np.ceil(round(trim * voices, 9))), (voices - 1) // 2)
    kept = np.sort(wide(changes), axis=0)[cut : voices - cut]
    assert_elements_close(merged(TrimmedMean(trim), changes), kept.mean(axis=0), *changes)


@given(several)
def test_to_trim_nothing_is_the_mean(changes: Array) -> None:
    mean = wide(changes).mean(axis=0)
    assert_elements_close(merged(TrimmedMean(trim=0), changes), mean, *changes)


@given(several, st.randoms())
@pytest.mark.parametrize("make", [Median, TrimmedMean, MultiKrum])
def test_the_order_of_the_workers_makes_no_difference(
    make: Make, changes: Array, random: object
) -> None:
    order = list(range(len(changes)))
    random.shuffle(order)  # type: ignore[attr-defined]
    if make is MultiKrum:  # ties are decided by who came first
        changes = changes + np.arange(len(changes), dtype=changes.dtype)[:, None] ** 2 / 7
        assume(apart(krum_scores(changes, 1)))
    in_order = wide(merged(make(), changes))
    assert_elements_close(merged(make(), changes, *order), in_order, *changes)


def krum_scores(changes: Array, f: int) -> Array:
    """The definition, by brute force."""
    apart = wide(changes)[:, None] - wide(changes)[None]
    distances = np.sort((apart**2).sum(axis=2), axis=1)[:, 1:]
    return distances[:, : max(1, len(changes) - f - 2)].sum(axis=1)


def apart(scores: Array) -> bool:
    """Whether no two are so near each other that rounding decides."""
    return bool(np.diff(np.sort(scores)).min() > 1e-6 * max(1, scores.max()))


@given(st.integers(5, 9), st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_multikrum_averages_those_of_least_score(voices: int, size: int, f: int, seed: int) -> None:
    """Of numbers that are random throughout: Hypothesis' own are often equal, so scores tie."""
    changes = np.random.default_rng(seed).standard_normal((voices, size))
    scores = krum_scores(changes, f)
    assume(apart(scores))
    chosen = np.sort(np.argsort(scores)[: max(1, len(changes) - f)])
    assert_elements_close(merged(MultiKrum(f), changes), changes[chosen].mean(axis=0), *changes)


@given(several, st.sampled_from([1e6, -1e6, 3e4]), st.integers(0, 8))
@pytest.mark.parametrize("make", [Median, TrimmedMean, lambda: MultiKrum(1)])
def test_one_bad_worker_cannot_move_the_centre_out_of_the_honest_range(
    make: Make, honest: Array, bad: float, place: int
) -> None:
    # Krum's guarantee needs 2 f + 3 workers.
    assume(make in (Median, TrimmedMean) or len(honest) >= 4)
    worst = np.full(honest.shape[1], bad).clip(-6e4, 6e4).astype(honest.dtype)
    changes = np.insert(honest, place % (len(honest) + 1), worst, axis=0)
    center = wide(merged(make(), changes))
    own = np.finfo(honest.dtype)
    slack = 4 * float(own.eps) * np.abs(wide(honest)).max(axis=0)
    slack += 4 * float(own.smallest_subnormal)
    assert (wide(honest).min(axis=0) - slack <= center).all()
    assert (center <= wide(honest).max(axis=0) + slack).all()


def test_the_mean_has_no_such_protection() -> None:
    changes = np.array([[1.0], [2.0], [3.0], [4.0], [1e6]])
    assert merged(SlowMo(momentum=0), changes)[0] > 1e5
    for rule in (Median(), TrimmedMean(), MultiKrum()):
        assert 1 <= merged(rule, changes)[0] <= 4


@pytest.mark.parametrize("make", [Median, TrimmedMean, MultiKrum])
def test_a_fast_bad_worker_has_one_voice(make: Make) -> None:
    """Else it would fill a round alone."""
    model = Model(make(), np.zeros(2))
    for _ in range(10):
        model.merge(np.full(2, 1e6), worker=0, workers=5)
    np.testing.assert_array_equal(model.center, [0, 0])
    for worker in range(1, 5):
        model.merge(np.full(2, float(worker)), worker=worker, workers=5)
    assert (model.center >= 1).all()
    assert (model.center <= 4).all()


def test_a_worker_that_pushes_again_in_a_round_speaks_with_the_mean_of_its_changes() -> None:
    """All began at the same center: their sum would be a step that many times as long."""
    model = Model(Median(), np.zeros(1))
    for worker, change in [(0, 1.0), (0, 3.0), (1, 2.5), (0, 5.0), (2, 9.0)]:
        model.merge(np.full(1, change), worker=worker, workers=3)
    assert model.center[0] == 3
    for worker, change in [(0, 1.0), (0, 3.0), (1, 1.0), (2, 9.0)]:
        model.merge(np.full(1, change), worker=worker, workers=3)
    assert model.center[0] == 3 + 2


def test_krum_judges_a_worker_by_all_its_pushes_of_the_round() -> None:
    model = Model(MultiKrum(), np.zeros(1))
    for worker, change in [(0, 1e6), (1, 1.0), (2, 4.0), (3, 1e5)]:
        model.merge(np.full(1, change), worker=worker, workers=5)
    model.merge(np.full(1, 2.0 - 1e6), worker=0, workers=4)  # the fifth has left
    assert model.center[0] == (1 + 1 + 4) / 3


@pytest.mark.parametrize("make", [Median, TrimmedMean])
def test_a_round_does_not_wait_for_workers_that_are_gone(make: Callable[..., Combiner]) -> None:
    model = Model(make(k=8), np.zeros(1))
    for worker in range(3):
        model.merge(np.ones(1), worker=worker, workers=4)
    assert model.center[0] == 0
    model.merge(np.ones(1), worker=0, workers=3)
    assert model.center[0] == 1


@pytest.mark.parametrize("make", [Median, TrimmedMean, MultiKrum])
def test_the_next_round_begins_without_the_last_ones_voices(make: Make) -> None:
    model = Model(make(), np.zeros(1))
    for value in (1.0, 10.0):
        for worker in range(5):
            model.merge(np.full(1, value), worker=worker, workers=5)
    assert model.center[0] == pytest.approx(11)


@given(several)
def test_a_server_optimizer_steps_by_the_aggregate(changes: Array) -> None:
    """Whatever the number of workers: the aggregate is a round by itself."""
    center = merged(Median(then=FedAdam()), changes)
    median = np.median(wide(changes), axis=0).astype(changes.dtype)
    expected = Model(FedAdam(k=1), np.zeros_like(changes[0]))
    expected.merge(median)
    # Near 0 the step is (1 - β₁) lr / ε times the median.
    assert_elements_close(center, wide(expected.center), *changes, slope=10.0)


def test_an_aggregate_of_integers_is_rounded() -> None:
    changes = np.array([[1, 250], [2, 251], [2, 252], [4, 250]], np.uint8)
    center = merged(Median(), changes)
    np.testing.assert_array_equal(center, [2, 256 - 6 + 0])  # -6, -5, -4, -6: median -5.5


def test_krum_judges_a_worker_by_all_its_parameters() -> None:
    """What is odd in one tensor is left out of all of them."""
    rule = MultiKrum(1)
    model = Model(rule, np.zeros(2), np.zeros(1, np.float32))
    for worker in range(5):
        odd = 1e6 if worker == 2 else 0.0
        model.merge(
            np.full(2, float(worker)), np.full(1, odd, np.float32), worker=worker, workers=5
        )
    np.testing.assert_allclose(model.centers[0], (0 + 1 + 3 + 4) / 4)
    assert model.centers[1][0] == 0


def test_distances_beyond_the_largest_number_are_just_the_largest() -> None:
    changes = np.array([[1.0], [2.0], [2.5], [3.0], [1e300]])
    assert merged(MultiKrum(), changes)[0] == pytest.approx(8.5 / 4)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Median(k=0), r"Median\(k\): expected a whole number of at least 1, got 0"),
        (
            lambda: TrimmedMean(trim=0.5),
            r"TrimmedMean\(trim\): expected a number from 0 to below 0\.5",
        ),
        (lambda: MultiKrum(f=0), r"MultiKrum\(f\): expected a whole number of at least 1, got 0"),
        (lambda: MultiKrum(f=2, k=6), r"k >= 2 f \+ 3 = 7, got k=6"),
        (lambda: Median(then=EASGD()), "Median: expected then .* got EASGD"),
        (lambda: Median(then=Median()), "got Median"),
        (lambda: Median(then=Clip(1.0)), "got Clip"),
        (lambda: Median(then=as_combiner(lambda c, u, p: c)), "got <lambda>"),
        (lambda: Median(then="fedadam"), "got 'fedadam'"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused(make: Make, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        make()


def test_a_stateless_rule_may_follow() -> None:
    model = Model(Median(then=ADAG()), np.zeros(1))
    for worker in range(3):
        model.merge(np.full(1, 6.0), worker=worker, workers=3, steps=3)
    assert model.center[0] == 2
