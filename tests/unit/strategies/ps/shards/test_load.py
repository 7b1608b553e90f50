"""What a shard tells of itself, as rates; a clock that the test moves."""

from __future__ import annotations

import pytest

from tos_notebook.steering.shards import ShardLoad
from tos_notebook.strategies.ps.shards.load import WINDOW, LoadMeter
from tos_notebook.strategies.ps.shards.traffic import Traffic
from tos_notebook.wire.messages import Done, Serving


def test_rates_are_over_the_last_seconds_only() -> None:
    times = iter(range(100))
    meter = LoadMeter(Serving("token", 1, "node", 4000, "", 1), lambda: float(next(times)))
    assert meter.load() == ShardLoad(2, "node", 0.0, 0, 0.0, 0.0, 0.0)
    for number in range(20):
        # From the tenth second on nothing comes any more, and cores are idle.
        busy = min(number, 10)
        cpu = 500 if number < 10 else 0
        meter.add(Done(0, 4 * busy, "", "", cpu, 2048, 100 * busy, 300 * busy))
        if number == 9:
            assert meter.load() == ShardLoad(
                2, "node", 0.5, 2048 * 1024, 100.0, 300.0, 4.0, 900, 2700, 36
            )
    assert meter.load() == ShardLoad(2, "node", 0.0, 2048 * 1024, 0, 0, 0, 1000, 3000, 40)
    assert WINDOW < 9


def test_a_shard_that_starts_again_has_no_rate_below_zero() -> None:
    meter = LoadMeter(Serving("token", 0, "node", 4000, "", 1))
    meter.add(Done(0, 9, "", "", 0, 0, 900, 900))
    meter.add(Done(0, 1, "", "", 0, 0, 100, 100))
    assert meter.load()[4:7] == (0.0, 0.0, 0.0)


def test_a_line_says_all_of_it() -> None:
    said = str(ShardLoad(1, "10.0.0.7", 0.42, 300_000_000, 1.2e8, 1.1e8, 2.34))
    assert said.startswith("shard 1 on 10.0.0.7: 0.42 cores, 300 MB, 2.3 merges/s, 120 MB/s in")
    assert "cores, 2.3" in str(ShardLoad(1, "a", 0.42, 0, 0, 0, 2.34))


@pytest.mark.parametrize("times", [1, 3])
def test_traffic_is_the_sum_of_what_was_counted(times: int) -> None:
    traffic = Traffic()
    for _ in range(times):
        traffic.add(received=5)
        traffic.add(sent=7)
    assert traffic.read() == (5 * times, 7 * times)
