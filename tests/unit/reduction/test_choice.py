"""The costs are those of what the schedules send, and the choice is the least of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulated_reduction import Simulation
from tests.unit.reduction.conftest import meshes, together
from tos_notebook.reduction.choice import MOST_STREAMS, SHORT, choose
from tos_notebook.reduction.costs import DELTA, costs
from tos_notebook.reduction.measuring import measure
from tos_notebook.reduction.schedules import (
    Schedule,
    at_once,
    direct,
    halving,
    ring,
    two_level,
)
from tos_notebook.reduction.sharing import Memory

GIGABIT = 125e6
TEN_GIGABIT = 1.25e9
SIZE = 240_000


def through_interface(schedule: Schedule, hosts: list[int]) -> int:
    """Return the bytes that leave the host which sends most."""
    run = Simulation(schedule, [np.zeros(SIZE, "float32") for _ in hosts])
    left = [0] * len(set(hosts))
    for (source, target), nbytes in run.sent.items():
        if hosts[source] != hosts[target]:
            left[hosts[source]] += nbytes
    return max(left)


@pytest.mark.parametrize("hosts", [[0, 1], [0, 1, 2, 3], [0, 0, 1, 1], [0] * 4 + [1] * 4])
def test_what_takes_time_is_what_a_host_sends(hosts: list[int]) -> None:
    """At a byte a second nothing else counts."""
    n = len(hosts)
    found = costs(n, SIZE * 4, 0.0, 1.0, hosts)
    made = {"ring": ring(n), "direct": direct(n), "halving": halving(n)}
    if len(set(hosts)) < n:
        made["two_level"] = two_level(hosts)
    del found["star"]
    assert {**found} == {
        name: pytest.approx(through_interface(schedule, hosts), rel=0.01)
        for name, schedule in made.items()
    }


@pytest.mark.parametrize("make", [ring, direct, halving])
@pytest.mark.parametrize("n", [2, 3, 4, 6, 8, 16])
def test_a_latency_counts_once_for_each_round(make: Callable[[int], Schedule], n: int) -> None:
    schedule = make(n)
    rounds = max(len(rounds) for rounds in schedule.ranks)
    assert costs(n, 0, 1.0, 1e9)[schedule.name] == rounds


@pytest.mark.parametrize(
    ("n", "nbytes", "bandwidth", "hosts", "expected"),
    [
        (2, 31_400, TEN_GIGABIT, [], "direct"),
        (2, 314_000, TEN_GIGABIT, [], "ring"),
        (8, 31_400, TEN_GIGABIT, [], "direct"),
        (8, 1_000_000_000, TEN_GIGABIT, [], "halving"),
        (6, 1_000_000_000, TEN_GIGABIT, [], "ring"),
        (64, 31_400, TEN_GIGABIT, [], "halving"),
        (8, 4_000_000, GIGABIT, [0] * 4 + [1] * 4, "two_level"),
        (3, 40_000_000, GIGABIT, ["one"] * 3, "ring"),
    ],
)
def test_the_choice_follows_the_table(
    n: int, nbytes: int, bandwidth: float, hosts: list[object], expected: str
) -> None:
    schedule = choose(n, nbytes, 30e-6, bandwidth, hosts)  # type: ignore[arg-type]
    assert (schedule.name, schedule.n) == (expected, n)


@given(
    n=st.integers(1, 40),
    nbytes=st.integers(0, 10**9),
    latency=st.floats(1e-6, 1e-2),
    bandwidth=st.floats(1e6, 1e10),
    per_host=st.integers(0, 8),
)
def test_nothing_that_may_be_chosen_costs_less(
    n: int, nbytes: int, latency: float, bandwidth: float, per_host: int
) -> None:
    hosts = [rank // per_host for rank in range(n)] if per_host else []
    found = costs(n, nbytes, latency, bandwidth, hosts)
    schedule = choose(n, nbytes, latency, bandwidth, hosts)
    if n > 1 and schedule == at_once(n):
        # One round less, for bytes that take less time.
        assert n <= MOST_STREAMS
        assert (n - 1) * nbytes <= SHORT
        saved = latency - (1 - 2 / n) * (n - 1) * nbytes / bandwidth
        assert saved > 0 or saved == pytest.approx(0, abs=1e-12)
        return
    allowed = set(found) - {"star"} - ({"direct"} if n > 32 else set())
    assert found[schedule.name] == min(found[name] for name in allowed)
    assert schedule.n == n


@pytest.mark.parametrize("n", [1, 2, 3])
def test_all_ranks_measure_the_same(n: int) -> None:
    with meshes(n) as formed:
        calls = [lambda mesh=mesh: measure(mesh) for mesh in formed]  # type: ignore[misc]
        speeds = together(calls)
    assert len(set(speeds)) == 1
    assert speeds[0].latency > 0
    assert speeds[0].bandwidth > 0
    assert speeds[0].delta == DELTA


@pytest.mark.parametrize("hosts", [[0, 0], [0, 1, 0], [1, 0, 0, 0]])
def test_all_ranks_measure_the_same_within_a_host(hosts: list[int]) -> None:
    n, held = len(hosts), [Memory(0) for _ in hosts]
    with meshes(n, memories=held) as formed:
        speeds = together([lambda mesh=mesh: measure(mesh, hosts) for mesh in formed])  # type: ignore[misc]
    for memory in held:
        memory.close()
    assert len(set(speeds)) == 1
    assert 0 < speeds[0].delta < 1e-6


def test_memory_that_is_fast_brings_the_choice_to_two_levels() -> None:
    hosts = [0] * 4 + [1] * 4
    slow, fast = (choose(8, 4_000_000, 30e-6, GIGABIT, hosts, delta) for delta in (1e-7, 1e-10))
    assert (slow.name == "two_level", fast.name == "two_level") == (False, True)
