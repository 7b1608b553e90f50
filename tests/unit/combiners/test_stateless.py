"""Each rule against its closed form, computed in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.combiners.support import (
    FLOATS,
    INTEGERS,
    Array,
    arrays,
    assert_close,
    pairs,
    push,
    wide,
)
from tos_notebook.combiners import ADAG, EASGD, Combiner, Downpour, DynSGD, FedAsync
from tos_notebook.errors import ConfigError

ANY = FLOATS + INTEGERS
staleness = st.integers(0, 9)


def rounded(values: Array, like: Array) -> Array:
    return values if like.dtype.kind == "f" else np.rint(values)


@given(pairs(ANY))
def test_downpour_adds_the_change_and_replies_the_centre(pair: tuple[Array, Array]) -> None:
    center, delta = pair
    reference = wide(center) + wide(delta)
    before = delta.copy(), center.copy()
    Downpour().merge(center, delta, push(staleness=7))
    assert_close(center, reference, *before)
    np.testing.assert_array_equal(delta, center)


@given(pairs(ANY), staleness, st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_dynsgd_divides_by_a_power_of_staleness(
    pair: tuple[Array, Array], tau: int, exponent: float
) -> None:
    center, delta = pair
    reference = wide(center) + rounded(wide(delta) / (tau + 1) ** exponent, delta)
    before = delta.copy(), center.copy()
    DynSGD(exponent).merge(center, delta, push(staleness=tau))
    assert_close(center, reference, *before)
    np.testing.assert_array_equal(delta, center)


@given(st.sampled_from(FLOATS).flatmap(lambda dtype: arrays(dtype, 1)))
def test_dynsgd_adds_exactly_a_fifth_at_staleness_four(one: tuple[Array]) -> None:
    """Exactly: the nearest float to Δ/5, which Δ times the nearest float to 1/5 is not."""
    (delta,) = one
    fifth = delta / delta.dtype.type(5)
    center = np.zeros_like(delta)
    DynSGD().merge(center, delta, push(staleness=4))
    np.testing.assert_array_equal(center, fifth)


@given(pairs(ANY), st.integers(1, 20))
def test_adag_divides_by_the_steps(pair: tuple[Array, Array], steps: int) -> None:
    center, delta = pair
    reference = wide(center) + rounded(wide(delta) / steps, delta)
    before = delta.copy(), center.copy()
    ADAG().merge(center, delta, push(steps=steps))
    assert_close(center, reference, *before)


@given(pairs(ANY), staleness)
def test_fresh_dynsgd_and_one_step_adag_are_downpour_to_the_bit(
    pair: tuple[Array, Array], tau: int
) -> None:
    cases = [(Downpour(), 0), (DynSGD(), 0), (DynSGD(exponent=0), tau), (ADAG(), tau)]
    results = []
    for rule, stale in cases:
        center, delta = pair[0].copy(), pair[1].copy()
        rule.merge(center, delta, push(staleness=stale, steps=1))
        results.append(center)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@given(pairs(ANY), st.floats(0.01, 1))
def test_easgd_moves_both_by_the_elastic_force_and_conserves_their_sum(
    pair: tuple[Array, Array], alpha: float
) -> None:
    center, weights = pair
    before = center.copy(), weights.copy()
    force = alpha * (wide(weights) - wide(center))
    moved = rounded(wide(center) + force, center)
    total = wide(center) + wide(weights)
    EASGD(alpha).merge(center, weights, push())
    assert_close(center, moved, *before)
    assert_close(weights, total - moved, *before)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint8", "int8"])
def test_easgd_conserves_the_sum_of_integers_at_the_ends_of_their_range(dtype: str) -> None:
    info = np.iinfo(dtype)
    center = np.array([info.min, info.max, info.min, info.max - 1, 5], dtype)
    weights = np.array([info.max, info.min, info.min, info.max, info.max], dtype)
    total = center + weights
    low, high = np.minimum(center, weights), np.maximum(center, weights)
    EASGD(0.3).merge(center, weights, push())
    np.testing.assert_array_equal(center + weights, total)
    assert ((low <= center) & (center <= high)).all()


def test_easgd_shares_nine_tenths_among_the_workers_by_default() -> None:
    center, weights = np.zeros(1), np.full(1, 10.0)
    EASGD().merge(center, weights, push(workers=3))
    np.testing.assert_allclose([center[0], weights[0]], [3, 7])


@given(pairs(ANY), staleness, st.floats(0.01, 1), st.sampled_from([0.0, 0.5, 1.0]))
def test_fedasync_blends_the_weights_in_by_their_staleness(
    pair: tuple[Array, Array], tau: int, alpha: float, a: float
) -> None:
    center, weights = pair
    before = center.copy(), weights.copy()
    share = alpha * (1 + tau) ** -a
    blended = wide(center) + share * (wide(weights) - wide(center))
    FedAsync(alpha, a).merge(center, weights, push(staleness=tau))
    assert_close(center, rounded(blended, center), *before)
    np.testing.assert_array_equal(weights, center)


RULES = [Downpour(), DynSGD(), ADAG(), EASGD(), FedAsync()]


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(one=st.sampled_from(ANY).flatmap(lambda dtype: arrays(dtype, 1)))
def test_an_unchanged_push_changes_nothing(rule: Combiner, one: tuple[Array]) -> None:
    center = one[0]
    before = center.copy()
    update = np.zeros_like(center) if rule.pushes == "delta" else center.copy()
    rule.merge(center, update, push(staleness=3, steps=7, workers=4))
    np.testing.assert_array_equal(center, before)
    np.testing.assert_array_equal(update, before)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_large_integers_that_did_not_change_keep_every_digit(rule: Combiner) -> None:
    """Float64 cannot hold them, so the arithmetic in between must not touch them."""
    center = np.array([2**62 + 1, -(2**53) - 1, 2**63 - 1])
    before = center.copy()
    update = np.zeros_like(center) if rule.pushes == "delta" else center.copy()
    rule.merge(center, update, push(staleness=3, steps=7, workers=4))
    np.testing.assert_array_equal(center, before)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(pair=pairs(ANY), cut=st.integers(0, 125))
def test_a_rule_works_slice_by_slice(rule: Combiner, pair: tuple[Array, Array], cut: int) -> None:
    whole = [x.reshape(-1).copy() for x in pair]
    parts = [x.copy() for x in whole]
    info = push(staleness=2, steps=3, workers=2)
    rule.merge(whole[0], whole[1], info)
    for span in (slice(cut), slice(cut, None)):
        rule.merge(parts[0][span], parts[1][span], info)
    np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("rule", [Downpour(), ADAG(), DynSGD()], ids=repr)
def test_an_unsigned_parameter_can_shrink(rule: Combiner) -> None:
    """The change of an unsigned integer is modular; it must be read as signed."""
    before, after = np.array([200, 3], np.uint8), np.array([190, 4], np.uint8)
    center, delta = before.copy(), after - before
    rule.merge(center, delta, push())
    np.testing.assert_array_equal(center, after)
    rule = DynSGD()
    center, delta = before.copy(), after - before
    rule.merge(center, delta, push(staleness=1))
    np.testing.assert_array_equal(center, [195, 3])


def test_float16_differences_beyond_its_range_do_not_overflow() -> None:
    for rule in (FedAsync(0.5, a=0), EASGD(0.5)):
        center, weights = np.full(1, 60000, np.float16), np.full(1, -60000, np.float16)
        rule.merge(center, weights, push())
        assert center[0] == weights[0] == 0


def exchange_locally(rounds: int, seed: int, drift: float) -> tuple[list[Array], list[Array]]:
    """One worker trains and exchanges; return what it had and what it adopted, each time."""
    random = np.random.default_rng(seed)
    center = random.uniform(1, 2, 50).astype(np.float32)
    adopted, had, got = center.copy(), [], []
    for _ in range(rounds):
        trained = (adopted + drift * random.standard_normal(50)).astype(np.float32)
        update = trained - adopted
        Downpour().merge(center, update, push())
        np.testing.assert_array_equal(update, center)
        adopted = update
        had.append(trained)
        got.append(adopted.copy())
    return had, got


def test_one_downpour_worker_trains_locally_to_the_bit_where_the_change_is_exact() -> None:
    """It is where b/2 <= w <= 2b (Sterbenz), which steps this small keep to."""
    had, got = exchange_locally(rounds=20, seed=0, drift=0.01)
    np.testing.assert_array_equal(got, had)


def test_one_downpour_worker_is_a_rounding_away_from_local_training_at_most() -> None:
    had, got = exchange_locally(rounds=20, seed=1, drift=1.0)
    largest = np.abs(had).max()
    np.testing.assert_allclose(got, had, rtol=0, atol=2 * np.finfo(np.float32).eps * largest)
    assert not np.array_equal(got, had)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DynSGD(-1),
        lambda: DynSGD(float("inf")),
        lambda: DynSGD("1"),  # type: ignore[arg-type]
        lambda: EASGD(0),
        lambda: EASGD(1.1),
        lambda: FedAsync(float("nan")),
        lambda: FedAsync(alpha=True),
        lambda: FedAsync(a=-0.1),
    ],
)
def test_a_parameter_out_of_range_is_refused(make: type[Combiner]) -> None:
    with pytest.raises(ConfigError, match=r"expected .* got"):
        make()


def test_repr_shows_the_parameters() -> None:
    assert repr(FedAsync(0.25)) == "FedAsync(alpha=0.25, a=0.5)"
    assert repr(EASGD()) == "EASGD(alpha=None)"
    assert repr(Downpour()) == "Downpour()"
