from __future__ import annotations

import numpy as np
import pytest

from tests.telemetry.samples import milestone
from tos_notebook.telemetry.figure import POINTS, figure, thin_out
from tos_notebook.telemetry.history import History


def history(milestones: int, partitions: int = 2) -> History:
    result = History()
    for n in range(milestones):
        result(milestone(partition=n % partitions, samples=10, loss=1 / (n + 1), staleness=n % 3))
    return result


def test_one_thin_line_per_partition_one_thick_one_over_all_and_staleness_below() -> None:
    lines = {trace.name: trace for trace in figure(history(12, partitions=3)).data}
    assert list(lines) == [
        "partition 0",
        "partition 1",
        "partition 2",
        "all, smoothed",
        "staleness",
    ]
    assert lines["partition 0"].line.width < lines["all, smoothed"].line.width
    assert lines["staleness"].yaxis == "y2"
    assert {trace.yaxis for name, trace in lines.items() if name != "staleness"} == {"y"}


def test_loss_stands_over_the_samples_that_all_partitions_trained() -> None:
    lines = {trace.name: trace for trace in figure(history(4)).data}
    assert list(lines["partition 1"].x) == [20, 40]
    assert list(lines["partition 1"].y) == pytest.approx([1 / 2, 1 / 4])
    assert list(lines["staleness"].y) == [0, 1, 2, 0]


def test_the_smoothed_line_varies_less_than_the_losses() -> None:
    record = History()
    for n in range(100):
        record(milestone(loss=1.0 + (-1) ** n))
    smooth = next(t for t in figure(record).data if t.name == "all, smoothed").y
    assert np.std(smooth[20:]) < 0.5 * np.std([0.0, 2.0])


@pytest.mark.parametrize("milestones", [0, 3])
def test_axes_say_their_units_even_without_a_milestone(milestones: int) -> None:
    layout = figure(history(milestones)).layout
    assert layout.yaxis.title.text == "loss (mean per sample)"
    assert layout.yaxis2.title.text == "staleness (versions)"
    assert layout.xaxis2.title.text == "samples trained"


def test_an_empty_history_draws_no_line() -> None:
    assert len(figure(History()).data) == 0


def test_a_long_run_is_thinned_out() -> None:
    assert all(len(trace.x) <= POINTS for trace in figure(history(3 * POINTS)).data)


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 25, 101])
def test_thinning_out_averages_neighbours(length: int) -> None:
    x = np.arange(length, dtype=np.float64)
    thin_x, thin_y = thin_out(x, 2 * x, points=10)
    assert len(thin_x) <= 10
    np.testing.assert_allclose(thin_y, 2 * thin_x)
    if length <= 10:
        np.testing.assert_array_equal(thin_x, x)
    if length == 25:
        np.testing.assert_allclose(thin_x, [1, 4, 7, 10, 13, 16, 19, 22, 24])
