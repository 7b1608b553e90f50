"""How many bytes a second links carry of late."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.telemetry.samples import milestone, started
from tos_notebook.events import DRIVER, Repartitioned, RunResumed, StrategySwapped
from tos_notebook.steering.links import LinkRate, LinkRates
from tos_notebook.telemetry.links import KEEP, MOST, MOST_WORKERS, LinkMeter
from tos_notebook.telemetry.tally import Tally


def second(partition: int, *links: tuple[int, int, int], **changes: Any) -> Any:
    """Return a milestone of a second."""
    times = {"compute": 0.5, "exchange": 0.25, "wait": 0.25}
    return milestone(partition=partition, links=links, **times, **changes)


def test_rates_are_bytes_over_all_the_time_of_who_sends_the_busiest_first() -> None:
    meter = LinkMeter()
    meter.add(second(0, (0, 1, 4000), (0, DRIVER, 30), (DRIVER, 0, 0)))
    meter.add(second(1, (1, 0, 5000), (1, DRIVER, 20), (DRIVER, 1, 900)))
    found = meter.rates()
    assert found.busiest == (
        (1, 0, 5000.0), (0, 1, 4000.0), (DRIVER, 1, 900.0), (0, DRIVER, 30.0), (1, DRIVER, 20.0),
    )  # fmt: skip
    assert found.more == 0
    assert str(LinkRates(found.busiest[:3])) == (
        "1 -> 0 5 kB/s, 0 -> 1 4 kB/s, driver -> 1 900 B/s"
    )


def test_what_was_sent_long_ago_fades_until_it_is_forgotten() -> None:
    meter = LinkMeter()
    meter.add(second(0, (0, 1, 1000)))
    meter.add(second(0, (0, 2, 1000)))
    rates = {link.target: link.rate for link in meter.rates().busiest}
    assert rates == {1: pytest.approx(KEEP * 1000 / (1 + KEEP)), 2: pytest.approx(1000 / 1.8)}
    for _ in range(40):
        meter.add(second(0, (0, 2, 1000)))
    assert [link.target for link in meter.rates().busiest] == [2]


def test_steps_through_the_driver_have_a_link_there_and_one_back() -> None:
    meter = LinkMeter()
    meter.add(second(3, bytes_up=70, bytes_down=90))
    assert meter.rates().busiest == ((DRIVER, 3, 90.0), (3, DRIVER, 70.0))


def test_of_many_links_the_busiest_are_told_and_how_many_more_there_are() -> None:
    meter = LinkMeter()
    for partition in range(MOST_WORKERS + 10):
        links = [(partition, peer, 1000 + peer) for peer in range(3)]
        meter.add(second(partition, *links, more_links=5))
    found = meter.rates()
    assert len(found.busiest) == MOST
    assert {link.target for link in found.busiest} == {2}
    assert found.more == MOST_WORKERS * (3 + 5) - MOST
    assert str(found).endswith(f", and {found.more + MOST - 6:,} more")


def test_links_count_where_steps_are_made_together_and_until_others_train() -> None:
    tally = Tally()
    tally(started(0.0))
    tally(second(0, (0, 1, 1000)))
    assert tally.links.rates() == LinkRates()
    for ending in (
        Repartitioned(2.0, 1, 4, 0.1),
        StrategySwapped(2.0, 1, "allreduce", True),
        RunResumed(2.0, 1, 5, 2, 1000, True),
    ):
        tally(StrategySwapped(1.0, 1, "allreduce", True))
        tally(second(0, (0, 1, 1000)))
        assert tally.links.rates().busiest == (LinkRate(0, 1, 1000.0),)
        tally(ending)
        assert tally.links.rates() == LinkRates()
