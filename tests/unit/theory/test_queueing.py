"""Simulated networks of queues do what exact solutions say, and stay within bounds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.errors import ConfigError
from tos_notebook.theory.queueing import Observed, Visit, simulate_network, unloaded

TIMES = st.floats(1e-4, 1.0)


def solved(compute: float, demands: Sequence[float], n: int) -> tuple[float, float]:
    """Return rate and exchange of exponential stations, by exact mean value analysis.

    Reiser and Lavenberg 1980, "Mean-value analysis of closed multichain queuing networks", Journal
    of the ACM 27(2).
    """
    waiting = [0.0] * len(demands)
    rate, taken = 0.0, [0.0]
    for workers in range(1, n + 1):
        taken = [demand * (1 + queue) for demand, queue in zip(demands, waiting, strict=True)]
        rate = workers / (compute + sum(taken))
        waiting = [rate * time for time in taken]
    return rate, sum(taken)


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n", [1, 4, 16, 64])
def test_exponential_stations_do_what_mean_value_analysis_says(n: int, jitter: float) -> None:
    """However the times of computing are distributed: only their mean counts."""
    demands = (0.01, 0.02, 0.005)
    route = [Visit((number,), demand) for number, demand in enumerate(demands)]
    rounds = 30_000 // n
    found = simulate_network([route], n, 0.3, jitter=jitter, service_jitter=1.0, rounds=rounds)
    rate, exchange = solved(0.3, demands, n)
    assert found.rate == pytest.approx(rate, rel=0.03)
    assert found.exchange == pytest.approx(exchange, rel=0.05)
    for number, demand in enumerate(demands):
        assert found.busy[(number,)] == pytest.approx(rate * demand, rel=0.05)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_many_rare_workers_wait_as_in_an_open_queue_of_constant_service(load: float) -> None:
    """M/D/1: mean wait ρs / (2 (1 - ρ)). Pollaczek 1930, Mathematische Zeitschrift 32."""
    n, service = 4000, 1e-3
    found = simulate_network(
        [[Visit(("one",), service)]], n, n * service / load, jitter=1.0, rounds=9
    )
    waited = load * service / (2 * (1 - load))
    assert found.exchange - service == pytest.approx(waited, rel=0.1)


@given(TIMES, st.lists(TIMES, min_size=1, max_size=4), st.integers(1, 40), st.integers(0, 3))
def test_the_rate_is_within_the_bounds_of_any_network(
    compute: float, demands: list[float], n: int, seed: int
) -> None:
    """Constant times: n / (Z + R) and 1 / D from above, and one at a time from below."""
    route = [Visit((number,), demand) for number, demand in enumerate(demands)]
    found = simulate_network([route], n, compute, jitter=0.0, rounds=5, seed=seed)
    alone = compute + sum(demands)
    # The last round of the window may end before that of another worker.
    slack = 1 + 1 / 5
    assert found.rate <= slack * min(n / alone, 1 / max(demands))
    assert found.rate >= n / (compute + n * sum(demands)) / slack
    assert all(0 <= share <= slack for share in found.busy.values())


def test_what_is_sent_on_as_it_comes_takes_the_time_of_one_link() -> None:
    route = [Visit(("out",), 2.0, 0.0, 0.5), Visit(("in",), 2.0), Visit(None, 1.0)]
    assert unloaded(route) == 3.5
    found = simulate_network([route], 1, 1.5, jitter=0.0)
    assert found.exchange == pytest.approx(3.5)
    assert found.rate == pytest.approx(0.2)


def test_nobody_waits_where_there_is_no_station() -> None:
    found = simulate_network([[Visit(None, 1.0)]], 50, 1.0, jitter=0.0)
    assert found.exchange == pytest.approx(1.0)
    assert found.busy == {}


def test_workers_of_two_hosts_share_only_what_both_visit() -> None:
    """With links of their own they are twice as fast as with one."""
    apart = [[Visit(("link", host), 1.0)] for host in range(2)]
    together = [[Visit(("link",), 1.0)]]
    rates = [simulate_network(routes, 20, 0.1, rounds=9).rate for routes in (apart, together)]
    assert rates == pytest.approx([2.0, 1.0], rel=0.02)


def test_a_simulation_is_a_function_of_its_seed() -> None:
    def run(seed: int) -> Observed:
        return simulate_network([[Visit(("one",), 0.1)]], 5, 1.0, seed=seed)

    assert run(1) == run(1)
    assert run(1) != run(2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": 0}, "workers: expected .* at least 1, got 0"),
        ({"compute": -1.0}, "compute: expected .* at least 0, got -1"),
        ({"jitter": -1.0}, "jitter: .* at least 0, got -1"),
        ({"service_jitter": float("nan")}, "service_jitter: .* got nan"),
        ({"rounds": 0}, "rounds: .* at least 1, got 0"),
        ({"seed": -1}, "seed: .* at least 0, got -1"),
        ({"routes": []}, "routes: expected at least one"),
        ({"routes": [[]]}, "routes: .* at least one visit"),
    ],
)
def test_values_out_of_range_are_refused(given: dict[str, object], message: str) -> None:
    usual: dict[str, object] = {"routes": [[Visit(("one",), 1.0)]], "workers": 2, "compute": 1.0}
    with pytest.raises(ConfigError, match=message):
        simulate_network(**(usual | given))  # type: ignore[arg-type]
