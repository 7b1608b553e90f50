"""What exchanges cost, by formulas: limits, orders and crossings that hold for every cluster."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook import theory
from tos_notebook.errors import CaptureError, ConfigError
from tos_notebook.program.capture import capture
from tos_notebook.reduction.costs import DELTA, GAMMA
from tos_notebook.theory import Costs
from tos_notebook.theory.exchanges import SERVER_CORES, TAU

NAMES = [
    *("ps asp", "ps:shards=2", "ps:shards=4", "ps bsp"),
    *("allreduce:star", "allreduce:ring", "allreduce:direct", "allreduce:halving"),
    *("allreduce:two_level", "allreduce:parameters/10", "treeaggregate"),
]
AMONG_WORKERS = NAMES[5:9]
CLUSTERS = st.fixed_dictionaries(
    {
        "batch_seconds": st.floats(1e-4, 1),
        "workers": st.integers(1, 64) | st.lists(st.integers(1, 8), min_size=1, max_size=8),
        "sync_interval": st.integers(1, 100),
        "latency": st.floats(0, 1e-2),
        "bandwidth": st.floats(1e6, 1e11),
        "slowest": st.floats(1, 10),
    }
)
SIZES = st.integers(1, 10**9)


def of(nbytes: int = 1_000_000, **given: Any) -> Costs:
    return theory.cost(nbytes, **{"batch_seconds": 0.01, **given})


@given(SIZES, CLUSTERS)
def test_a_step_is_its_parts_and_no_link_carries_more_than_it_can(
    nbytes: int, cluster: dict[str, Any]
) -> None:
    found, workers = of(nbytes, **cluster), cluster["workers"]
    n = workers if isinstance(workers, int) else sum(workers)
    link = 1 / DELTA if isinstance(workers, list) and len(workers) == 1 else cluster["bandwidth"]
    for way in found:
        assert min(way.compute, way.exchange, way.wait, way.merge) >= 0
        assert way.step == way.compute + way.exchange + way.wait
        assert way.rows_per_second == pytest.approx(100 * n / way.step)
        assert way.utilization == pytest.approx(way.driver / link)
        assert way.utilization <= 1 + 1e-9
        assert way.worker <= link * (1 + 1e-9)


@given(SIZES, CLUSTERS)
def test_more_bytes_or_a_slower_link_never_train_more_rows(
    nbytes: int, cluster: dict[str, Any]
) -> None:
    slower = cluster | {"bandwidth": cluster["bandwidth"] / 2, "latency": 2 * cluster["latency"]}
    fast, larger = of(nbytes, **cluster), of(2 * nbytes, **cluster)
    for other in (larger, of(nbytes, **slower)):
        for way in fast:
            assert other[way.name].rows_per_second <= way.rows_per_second * (1 + 1e-9)
            assert other[way.name].exchange >= way.exchange
    for way in fast:
        assert larger[way.name].saturated_at <= way.saturated_at


@given(SIZES, CLUSTERS, st.integers(1, 64))
def test_one_more_worker_makes_no_step_shorter_where_the_driver_carries_it(
    nbytes: int, cluster: dict[str, Any], n: int
) -> None:
    known = cluster | {"slowest": 1.0, "sync_interval": 10}
    few, more = (of(nbytes, **known | {"workers": workers}) for workers in (n, n + 1))
    # Halving is slow where n is no power of two, and may be the fastest where it is.
    for name in set(NAMES) - {"allreduce:halving", "allreduce:parameters/10"}:
        assert more[name].step >= few[name].step * (1 - 1e-9)
    assert more["ps asp"].rows_per_second >= few["ps asp"].rows_per_second * (1 - 1e-9)


@given(SIZES, CLUSTERS)
def test_to_exchange_half_as_often_never_costs_rows(nbytes: int, cluster: dict[str, Any]) -> None:
    often = of(nbytes, **cluster)
    seldom = of(nbytes, **cluster | {"sync_interval": 2 * cluster["sync_interval"]})
    for before, after in zip(often, seldom, strict=True):
        assert after.rows_per_second >= before.rows_per_second * (1 - 1e-9)


@given(SIZES, CLUSTERS)
def test_what_goes_through_the_driver_costs_the_same_by_any_name(
    nbytes: int, cluster: dict[str, Any]
) -> None:
    found = of(nbytes, **cluster | {"sync_interval": 1})
    star = found["allreduce:star"]
    for name in ("ps bsp", "treeaggregate"):
        assert found[name].step == star.step
        assert found[name].driver == star.driver


def test_a_worker_alone_exchanges_with_a_driver_only() -> None:
    found = of(workers=1)
    for name in AMONG_WORKERS:
        assert (found[name].exchange, found[name].worker) == (0, 0)
        assert found[name].step == 0.01
    assert found["ps asp"].step == found["ps bsp"].step > 0.01


def test_workers_among_themselves_leave_the_driver_free() -> None:
    for name in AMONG_WORKERS:
        way = of(workers=6)[name]
        assert (way.driver, way.utilization, way.merge) == (0, 0, 0)
        assert way.saturated_at == math.inf


def test_asynchronous_workers_wait_the_longer_the_nearer_they_are_to_saturation() -> None:
    """10 batches of 0.6 ms, 0.8 MB, 10 Gb/s: the driver has time for an eleventh worker."""
    known = {"batch_seconds": 6e-4, "latency": 0.0}
    edge = of(800_000, workers=1, **known)["ps asp"].saturated_at
    assert edge == pytest.approx(2 + 0.96 + 6e-3 * 1.25e9 / 800_000 + 0.54, rel=0.02)
    alone, few, at, far = (of(800_000, workers=n, **known)["ps asp"] for n in (1, 4, 12, 200))
    assert alone.wait == pytest.approx(0, abs=1e-12)
    assert few.wait < 0.2 * few.exchange < few.exchange < at.wait
    assert far.utilization == pytest.approx(1, rel=0.01)
    assert far.rows_per_second == pytest.approx(100 * 10 * 1.25e9 / 800_000, rel=0.01)


def test_shards_serve_as_many_times_as_many_workers_before_they_saturate() -> None:
    found = of(100_000_000, workers=64, latency=0.0, bandwidth=1.25e8, shards=(1, 2, 4, 8))
    driver = found["ps asp"]
    assert found["ps:shards=1"].step == pytest.approx(driver.step)
    for count in (2, 4, 8):
        way = found[f"ps:shards={count}"]
        own = 10 * (way.compute + way.exchange)
        assert way.saturated_at == pytest.approx(own / (1e8 / 1.25e8 / count))
        assert own < 10 * (driver.compute + driver.exchange)
        assert way.rows_per_second / driver.rows_per_second == pytest.approx(count, rel=0.1)
        assert way.driver * count == pytest.approx(64 * 1e8 / (10 * way.step))
    assert [way.name for way in of(shards=3)][:3] == ["ps asp", "ps:shards=3", "ps bsp"]


@pytest.mark.parametrize(
    ("shards", "measured"), [("ps asp", 0.70), ("ps:shards=2", 1.28), ("ps:shards=4", 2.18)]
)
def test_rates_are_those_that_were_measured_over_slow_links(shards: str, measured: float) -> None:
    """4 workers that do not compute, 20 MB; pushes in the time that one takes through a link."""
    found = of(20_000_000, batch_seconds=1e-9, workers=4, bandwidth=25e6, sync_interval=1)
    pushes = found[shards].rows_per_second / 100
    assert pushes * 20_000_000 / 25e6 == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize(("shards", "measured"), [(2, 1.82), (4, 2.14)])
def test_shards_bring_what_was_measured_with_a_large_model(shards: int, measured: float) -> None:
    """100 MB, 4 workers that do not compute, 1 Gb/s: see `benchmarks.scale.shards`."""
    known = {"batch_seconds": 1e-9, "workers": 4, "bandwidth": 125e6, "sync_interval": 1}
    found = of(100_000_000, **known)
    gain = found[f"ps:shards={shards}"].rows_per_second / found["ps asp"].rows_per_second
    assert gain == pytest.approx(measured, rel=0.25)


def test_shards_of_one_host_share_its_memory() -> None:
    found = of(100_000_000, workers=(4,))
    assert found["ps:shards=4"].rows_per_second < 1.1 * found["ps asp"].rows_per_second


def test_synchronous_workers_exchange_as_long_as_they_train_at_the_point_of_saturation() -> None:
    edge = of(latency=0.0, bandwidth=1e8)["ps bsp"].saturated_at
    assert edge == pytest.approx(0.1 / (1e6 * (2e-8 + GAMMA + 2 * TAU / SERVER_CORES)))
    below, above = (
        of(workers=n, latency=0.0, bandwidth=1e8)["ps bsp"]
        for n in (math.floor(edge), math.ceil(edge))
    )
    assert below.exchange < below.compute == above.compute < above.exchange


def test_a_ring_wins_where_vectors_are_large_and_a_star_where_they_are_small() -> None:
    """With n workers they cross at 2(n - 2)α of latency for 2(n - (n - 1)/n)Pβ of bytes."""
    n, latency, beta = 8, 30e-6, 1 / 1.25e9
    crossing = 2 * (n - 2) * latency / (2 * (n - (n - 1) / n) * beta)
    for share, wins in ((0.5, "star"), (2, "ring")):
        found = of(int(share * crossing), workers=n, latency=latency)
        least = min(("star", "ring"), key=lambda name: found[f"allreduce:{name}"].exchange)
        assert least == wins


@pytest.mark.parametrize("name", ["ps bsp", "allreduce:ring"])
def test_all_wait_for_the_slowest_only_where_they_step_together(name: str) -> None:
    found = of(workers=4, slowest=3.0)
    assert found[name].compute == pytest.approx(0.01 * 6 / 4)
    assert found[name].wait == pytest.approx(0.03 - 0.01 * 6 / 4)
    assert found["ps asp"].wait < 1e-5
    assert found["ps asp"].rows_per_second > found[name].rows_per_second


def test_a_program_stands_for_the_bytes_of_its_parameters() -> None:
    program = SimpleNamespace(layout=SimpleNamespace(nbytes=400))
    assert theory.cost(program, batch_seconds=1.0) == theory.cost(400, batch_seconds=1.0)


def test_a_table_shows_every_way_as_text_and_in_a_cell() -> None:
    found = of(800_000, workers=9)
    lines = repr(found).splitlines()
    assert lines[0].startswith("0.8 MB of parameters, 9 workers, 10 ms for a batch of 100; links")
    assert [line.split("  ")[0] for line in lines[3:]] == NAMES
    assert len({len(line) for line in lines[1:]}) == 1
    assert lines[2].split()[1:6] == 5 * ["ms/batch"]
    assert "<th>merging ms/batch</th>" in found._repr_html_()
    assert found._repr_html_().count("<tr>") == 1 + len(NAMES)
    way = found["ps asp"]
    assert way.seconds == way.exchange * 10


def test_gradients_are_exchanged_after_each_batch_whatever_the_interval_is() -> None:
    for name in ("allreduce:star", *AMONG_WORKERS, "treeaggregate"):
        assert of(sync_interval=50)[name] == of(sync_interval=1)[name]
    found = of(sync_interval=50)
    assert {w.name: w.sync_interval for w in found if w.sync_interval > 1} == {
        "ps asp": 50,
        "ps:shards=2": 50,
        "ps:shards=4": 50,
        "ps bsp": 50,
        "allreduce:parameters/50": 50,
    }
    assert found["allreduce:parameters/50"].exchange == pytest.approx(
        min(found[name].exchange for name in AMONG_WORKERS) / 50
    )


def test_what_the_driver_adds_is_told_for_a_batch_as_all_other_times_are() -> None:
    for way in of(workers=4, latency=0.0):
        if way.driver:
            shards = int(way.name.partition("ps:shards=")[2] or 1)
            assert way.merge == pytest.approx(4e6 / shards * GAMMA / way.sync_interval)
    assert of(workers=4)["ps bsp"].merge < of(workers=4)["ps bsp"].exchange


def test_two_levels_are_a_ring_unless_workers_share_a_host_and_faster_where_they_do() -> None:
    apart = of(workers=8)
    assert apart["allreduce:two_level"].exchange == apart["allreduce:ring"].exchange
    assert of(workers=8 * (1,))["allreduce:two_level"].exchange == pytest.approx(
        apart["allreduce:ring"].exchange
    )
    shared = of(workers=(4, 4), latency=1e-3)
    assert shared["allreduce:two_level"].exchange < shared["allreduce:ring"].exchange
    leader = shared["allreduce:two_level"]
    assert leader.worker * leader.step == pytest.approx(1_000_000)
    assert "8 workers on 2 hosts" in repr(shared)


def test_a_compiled_keras_model_stands_for_the_bytes_of_its_parameters() -> None:
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(CaptureError, match="compile"):
        theory.cost(model, batch_seconds=1.0)
    model.compile("sgd", "mse")
    captured = capture(model)
    assert theory.cost(model, batch_seconds=1.0) == theory.cost(captured, batch_seconds=1.0)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"workers": 0}, "workers: expected a whole number of at least 1"),
        ({"batch_seconds": 0}, "batch_seconds: expected a finite number above 0"),
        ({"slowest": 0.5}, "slowest: expected a number of at least 1, got 0.5"),
        ({"latency": -1}, "latency: expected a finite number of at least 0"),
        ({"bandwidth": math.inf}, "bandwidth: expected a finite number above 0"),
        ({"nbytes": 0}, "program: expected a whole number of at least 1"),
        ({"nbytes": 1.5}, "program: expected a whole number of at least 1, got 1.5"),
        ({"nbytes": SimpleNamespace()}, r"compiled Keras model, .* type SimpleNamespace\.$"),
        ({"workers": ()}, "workers: expected how many there are on each host, got none"),
        ({"shards": 0}, "shards: expected a whole number of at least 1, got 0"),
        ({"workers": (2, 0)}, "workers: expected a whole number of at least 1, got 0"),
    ],
)
def test_what_is_out_of_range_is_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        of(**given)


def test_a_way_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"expected one of ps asp, .*; got 'gossip'"):
        of()["gossip"]
    with pytest.raises(ConfigError, match=r"Did you mean allreduce:ring\?$"):
        of()["allreduce:rings"]
