"""Each algorithm sums right, sends what its formula says, and leaves the same bits everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.simulated_reduction import Simulation
from tos_notebook.common.arrays import Array
from tos_notebook.reduction.schedules import (
    Message,
    Round,
    Schedule,
    direct,
    halving,
    ring,
    two_level,
)


def by_twos(n: int) -> Schedule:
    return two_level([rank // 2 for rank in range(n)])


def in_turn(n: int) -> Schedule:
    """Three hosts that take ranks in turn, and leaders that sum directly."""
    return two_level([f"host{rank % 3}" for rank in range(n)], direct)


def on_one_host(n: int) -> Schedule:
    return two_level(["host"] * n)


FLAT = [ring, direct, halving]
ALL: list[Callable[[int], Schedule]] = [*FLAT, by_twos, in_turn, on_one_host]
RANKS = [*range(1, 9), 16]


def vectors_of(n: int, size: int, dtype: str, seed: int) -> list[Array]:
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return [random.standard_normal(size).astype(dtype) for _ in range(n)]
    return [random.integers(-(2**40), 2**40, size).astype(dtype) for _ in range(n)]


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("n", RANKS)
@settings(max_examples=30)
@given(
    size=st.one_of(st.integers(0, 40), st.integers(0, 100_000)),
    dtype=st.sampled_from(["float32", "float64", "int64"]),
    seed=st.integers(0, 2**32),
)
def test_all_ranks_end_with_the_same_bits_of_the_sum(
    make: Callable[[int], Schedule], n: int, size: int, dtype: str, seed: int
) -> None:
    vectors = vectors_of(n, size, dtype, seed)
    expected = reduce(np.add, [vector.astype("longdouble") for vector in vectors])
    largest = reduce(np.add, [np.abs(vector).astype("longdouble") for vector in vectors])
    in_order = reduce(np.add, vectors)
    ended = Simulation(make(n), [vector.copy() for vector in vectors]).vectors
    assert len({vector.tobytes() for vector in ended}) == 1
    if dtype == "int64":
        np.testing.assert_array_equal(ended[0], in_order)
    else:
        # Each addition rounds once, whatever the order.
        bound = n * np.finfo(dtype).eps * largest
        assert np.all(np.abs(ended[0] - expected) <= bound)
    if make is direct:
        assert ended[0].tobytes() == in_order.tobytes()


@pytest.mark.parametrize("make", FLAT)
@pytest.mark.parametrize("n", RANKS)
def test_a_rank_sends_and_receives_what_the_formula_says(
    make: Callable[[int], Schedule], n: int
) -> None:
    size = 250_000
    run = Simulation(make(n), vectors_of(n, size, "float32", 0))
    sent = [sum(b for (source, _), b in run.sent.items() if source == rank) for rank in range(n)]
    came = [sum(b for (_, target), b in run.sent.items() if target == rank) for rank in range(n)]
    expected = 2 * (n - 1) / n * size * 4
    if make is halving and n & (n - 1):
        # The lenders send and receive the whole, and all other ranks are a power of two.
        members = 1 << (n.bit_length() - 1)
        lenders, borrowers = sorted(sent)[: n - members], sorted(sent)[-(n - members) :]
        assert lenders == [size * 4] * (n - members)
        expected = 2 * (members - 1) / members * size * 4
        for nbytes in borrowers:
            assert nbytes == pytest.approx(expected + size * 4, rel=0.01)
    else:
        assert sent == pytest.approx([expected] * n, rel=0.01)
        assert came == pytest.approx([expected] * n, rel=0.01)


def test_rounds_are_as_many_as_the_formula_says() -> None:
    for n in RANKS:
        power = n & (n - 1) == 0
        assert [len(r) for r in ring(n).ranks] == [2 * (n - 1)] * n
        assert {len(r) for r in direct(n).ranks} == {2}
        longest = 2 * int(math.log2(n)) + (0 if power else 2)
        assert max(len(r) for r in halving(n).ranks) == longest


def test_only_leaders_send_to_another_host() -> None:
    hosts = ["a", "b", "a", "b", "b", "c"]
    size = 90_000
    run = Simulation(two_level(hosts), vectors_of(6, size, "float32", 0))
    between = {link: b for link, b in run.sent.items() if hosts[link[0]] != hosts[link[1]]}
    assert set(between) == {(0, 1), (1, 5), (5, 0)}
    assert list(between.values()) == pytest.approx([2 * 2 / 3 * size * 4] * 3, rel=0.01)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("n", RANKS)
def test_one_rank_completes_each_part_and_says_so(make: Callable[[int], Schedule], n: int) -> None:
    schedule = make(n)
    finals = [
        part
        for rounds in schedule.ranks
        for made in rounds
        if made.final and made.receives
        for part in range(made.receives[0].start, made.receives[0].stop)
    ]
    assert sorted(finals) == (list(range(schedule.parts)) if n > 1 else [])


@given(parts=st.integers(1, 20), size=st.integers(0, 100_000))
def test_parts_are_balanced_and_cover_the_vector(parts: int, size: int) -> None:
    bounds = ring(parts).bounds(size)
    lengths = np.diff(bounds)
    assert (bounds[0], bounds[-1]) == (0, size)
    assert lengths.max() - lengths.min() <= 1


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([[Round(receives=(Message(1, 0, 1),))], [Round(receives=(Message(0, 0, 1),))]], "wait"),
        ([[Round(sends=(Message(1, 0, 1),))], []], "wait"),
        (
            [[Round(sends=(Message(1, 0, 1),))], [Round(receives=(Message(0, 1, 2),))]],
            "other parts",
        ),
        (
            [
                [Round((Message(1, 0, 1),), (Message(1, 0, 1),))],
                [Round((Message(0, 0, 1),), (Message(0, 0, 1),))],
            ],
            "is changed",
        ),
    ],
)
def test_a_schedule_that_cannot_work_is_found(ranks: list[list[Round]], message: str) -> None:
    """Else the tests above would prove nothing."""
    schedule = Schedule("broken", 2, tuple(map(tuple, ranks)))
    with pytest.raises(AssertionError, match=message):
        Simulation(schedule, [np.zeros(10), np.zeros(10)])
