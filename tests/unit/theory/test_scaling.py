"""What a cluster is predicted to do: within what its links and processes allow."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tos_notebook import theory
from tos_notebook.errors import ConfigError
from tos_notebook.theory.queueing import unloaded
from tos_notebook.theory.scaling import COUNT, DRIVER, SHARD, Hosts, saturation

FEW = (4, 64)


@settings(max_examples=25)
@given(
    st.integers(1000, 10**8),
    st.floats(0.01, 10),
    st.integers(1, 300),
    st.integers(0, 16),
    st.integers(1, 20),
)
def test_a_rate_is_never_above_what_the_busiest_part_allows(
    nbytes: int, compute: float, workers: int, shards: int, per_host: int
) -> None:
    hosts = Hosts(nbytes, compute, per_host, 1.25e9, 0.0)
    point = hosts.point(f"ps:shards={shards}" if shards else "ps", workers)
    parts = max(1, shards)
    process = (SHARD if shards else DRIVER).of(nbytes / parts)
    busiest = max(process, nbytes / parts / 1.25e9, COUNT.seconds if shards else 0.0)
    alone = compute + unloaded(hosts.route(0, shards))
    # The window of a simulation ends in the midst of rounds.
    assert point.rate <= 1.34 * min(workers / alone, 1 / busiest)


def test_a_saturated_driver_makes_as_many_pushes_as_its_process_allows() -> None:
    point = theory.scaling(4_000_000, batch_seconds=0.01, workers=(1000,), ways=("ps",))["ps"]
    assert point.points[0].rate == pytest.approx(1 / DRIVER.of(4_000_000), rel=0.02)
    assert point.points[0].limit == "driver's process"
    busy = DRIVER.of(4_000_000)
    assert point.saturated_at == pytest.approx((0.1 + busy) / busy / 0.8, rel=0.2)


def test_a_slow_link_is_named_as_the_limit() -> None:
    found = theory.scaling(4_000_000, batch_seconds=0.01, workers=FEW, ways=("ps",), bandwidth=1e7)
    assert found["ps"].points[-1].limit == "driver's link"
    assert found["ps"].points[-1].rate == pytest.approx(1e7 / 4e6, rel=0.02)


def test_one_link_for_all_workers_of_a_host_limits_them() -> None:
    given = {"batch_seconds": 0.01, "workers": (64,), "ways": ("ps:shards=16",), "bandwidth": 1e8}
    found = theory.scaling(4_000_000, per_host=64, **given)["ps:shards=16"].points[0]
    assert found.limit == "workers' links"
    assert found.rate == pytest.approx(1e8 / 4e6, rel=0.02)


def test_more_shards_saturate_later() -> None:
    ways = ("ps", "ps:shards=4", "ps:shards=16")
    found = theory.scaling(
        100_000_000, batch_seconds=1.0, workers=(4, 16, 64, 256, 1024), ways=ways
    )
    at = [found[way].saturated_at for way in ways]
    assert at == sorted(at)
    assert at[0] < at[1] / 2 < at[2] / 4


def test_few_workers_push_as_often_as_if_each_were_alone() -> None:
    found = theory.scaling(31_400, batch_seconds=0.1, workers=(4,), ways=("ps", "allreduce"))
    for curve in found.curves:
        assert curve.points[0].limit == "workers"
        assert curve.points[0].share == pytest.approx(1, abs=0.05)
        assert curve.saturated_at == math.inf
    assert found["ps"].points[0].rate == pytest.approx(4, rel=0.05)


def test_all_reduce_of_one_worker_exchanges_nothing() -> None:
    hosts = Hosts(4_000_000, 0.5, 10, 1.25e9, 0.0)
    assert hosts.point("allreduce", 1).rate == pytest.approx(2.0)


def test_all_reduce_is_limited_by_its_exchange_where_that_grows() -> None:
    """A ring sends as many messages as there are workers."""
    hosts = Hosts(31_400, 0.1, 1, 1.25e9, 0.0)
    assert hosts.point("allreduce:ring", 10_000).limit == "exchange"
    assert hosts.point("allreduce:ring", 4).limit == "workers"
    assert hosts.point("allreduce", 10_000).rate > hosts.point("allreduce:ring", 10_000).rate


def test_saturation_is_where_the_rate_of_the_next_point_is_reached() -> None:
    assert saturation([(4, 1.0), (16, 0.9), (64, 0.7)]) == pytest.approx(56)
    assert saturation([(4, 1.0), (16, 0.9), (64, 0.1)]) == 16
    assert saturation([(4, 0.4), (16, 0.1)]) == 2
    assert saturation([(4, 1.0), (16, 0.8)]) == math.inf


def test_a_table_has_a_line_for_each_number_of_workers_and_says_where_curves_bend() -> None:
    found = theory.scaling(4_000_000, batch_seconds=0.01, workers=(4, 1024), ways=("ps",))
    setting, head, few, many, saturated, limit = repr(found).splitlines()
    assert "4 MB of parameters, 0.1 s between two exchanges, 10 workers on a host" in setting
    assert head.split() == ["workers", "ps"]
    assert few.split()[0] == "4"
    assert many.split()[0] == "1,024"
    assert saturated.split()[:2] == ["saturated", "at"]
    assert "driver's process" in limit
    assert "<th>ps</th>" in found._repr_html_()
    assert "<td>1,024</td>" in found._repr_html_()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_seconds": 0}, "batch_seconds: .* above 0, got 0"),
        ({"workers": ()}, r"workers: expected rising numbers of workers, got \(\)"),
        ({"workers": (4, 4)}, "workers: expected rising"),
        ({"workers": (0,)}, "workers: .* at least 1, got 0"),
        ({"ways": ("ps:shards=0",)}, "ways: expected 'ps', .* got 'ps:shards=0'"),
        ({"ways": ("allreduce:star",)}, "ways: .* ring, .* got 'allreduce:star'"),
        ({"per_host": 0}, "per_host: .* at least 1, got 0"),
        ({"bandwidth": 0}, "bandwidth: .* above 0, got 0"),
        ({"jitter": -1}, "jitter: .* at least 0, got -1"),
        ({"program": "model"}, "program: expected a compiled Keras model"),
    ],
)
def test_values_out_of_range_are_refused(given: dict[str, object], message: str) -> None:
    usual: dict[str, object] = {"program": 1000, "batch_seconds": 0.1, "workers": FEW}
    with pytest.raises(ConfigError, match=message):
        theory.scaling(**(usual | given))  # type: ignore[arg-type]


def test_a_way_that_was_not_simulated_is_refused() -> None:
    found = theory.scaling(1000, batch_seconds=0.1, workers=FEW, ways=("ps",))
    with pytest.raises(ConfigError, match="expected one of ps; got 'allreduce'"):
        found["allreduce"]
