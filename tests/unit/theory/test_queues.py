"""Closed networks of queues: results that can be derived by hand, and bounds that always hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.theory.queues import MOST, Station, throughput

STATIONS = st.lists(
    st.builds(Station, st.floats(1e-6, 1e3), st.integers(1, 8) | st.just(math.inf)),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize(
    ("workers", "stations", "expected"),
    [
        (5, [Station(2.0, math.inf)], 2.5),
        (5, [Station(2.0, 1)], 0.5),
        (4, [Station(1.0, 1), Station(1.0, 1)], 4 / 5),
        (4, [Station(1.0, 2), Station(1.0, 2)], 3 / 2),
        (4, [Station(1.0, 4), Station(1.0, 4)], 2.0),
        (2, [Station(1.0, math.inf), Station(1.0, 1)], 4 / 5),
        (4, [Station(0.0, 1), Station(1.0, 1)], 1.0),
    ],
)
def test_small_networks_have_the_throughput_of_a_derivation_by_hand(
    workers: int, stations: list[Station], expected: float
) -> None:
    assert throughput(workers, stations) == pytest.approx(expected)


@given(st.integers(1, 300), STATIONS)
def test_no_network_is_faster_than_its_bounds_or_slower_than_one_worker(
    workers: int, stations: list[Station]
) -> None:
    around = sum(station.seconds for station in stations)
    found = throughput(workers, stations)
    bound = min(workers / around, *(s.servers / s.seconds for s in stations))
    assert 1 / around * (1 - 1e-9) <= found <= bound * (1 + 1e-9)


def test_with_very_many_workers_the_bounds_are_the_answer() -> None:
    stations = [Station(1.0, math.inf), Station(1e-3, 1)]
    exact, bound = (throughput(n, stations) for n in (MOST, MOST + 1))
    assert exact == pytest.approx(bound, rel=0.01)
