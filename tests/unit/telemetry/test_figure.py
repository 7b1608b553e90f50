from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.telemetry.samples import milestone, started
from tos_notebook.events import CommandAccepted, CommandApplied, Validated
from tos_notebook.telemetry.figure import (
    INTERVALS,
    LINES,
    figure,
    since_start,
    smoothed,
)
from tos_notebook.telemetry.history import History
from tos_notebook.telemetry.thinned import POINTS, thin_out


def history(milestones: int, executors: int = 1, partitions: int = 2) -> History:
    result = History()
    for n in range(milestones):
        result(
            milestone(
                time=n + 1.0,
                partition=n % partitions,
                executor=str(n % executors),
                samples=10,
                loss=1 / (n + 1),
                staleness=n % 3,
            )
        )
    return result


def traces(record: History, *validation: Validated) -> dict[str, Any]:
    return {trace.name: trace for trace in figure(record, validation).data}


def test_four_panels_of_few_traces() -> None:
    lines = traces(history(40, executors=2), Validated(4.0, 0, 40, {"loss": 0.6}))
    panels = {name: trace.xaxis or "x" for name, trace in lines.items()}
    assert panels == {
        "each milestone": "x",
        "training, smoothed": "x",
        "validation": "x",
        "samples per second": "x2",
        "executor 0": "x3",
        "executor 1": "x3",
        "milestones": "x4",
    }


def test_loss_stands_over_the_samples_that_all_workers_trained() -> None:
    each = traces(history(4))["each milestone"]
    assert list(each.x) == [10, 20, 30, 40]
    assert list(each.y) == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])


def test_validation_stands_over_the_samples_trained_until_then() -> None:
    evaluations = [Validated(float(n), n, 20 * n, {"loss": 1.0 / n}) for n in (1, 2)]
    line = traces(history(4), *evaluations)["validation"]
    assert list(line.x) == [20, 40]
    assert list(line.y) == [1.0, 0.5]


def test_without_validation_named_that_of_the_history_is_drawn() -> None:
    record = history(4)
    record(Validated(3.0, 0, 30, {"loss": 0.5}))
    assert list(traces(record)["validation"].x) == [30]


def test_throughput_times_its_intervals_is_all_samples() -> None:
    bars = traces(history(200))["samples per second"]
    assert 1 < len(bars.x) <= INTERVALS
    assert np.sum(bars.y * bars.width) == pytest.approx(2000)


def test_of_one_executor_each_partition_has_its_line_of_milestones() -> None:
    lines = traces(history(5))
    assert list(lines["partition 0"].y) == [1, 2, 3]
    assert list(lines["partition 1"].y) == [1, 2]


def test_of_many_executors_three_stand_for_all() -> None:
    record = history(10 * (LINES + 1) + 1, executors=LINES + 1, partitions=LINES + 1)
    record(milestone(time=100.0, executor="3"))
    record(milestone(time=101.0, executor="3"))
    names = [name for name in traces(record) if "executor" in name]
    assert [name.split(":")[0] for name in names] == ["most", "median", "fewest"]
    assert names[0] == "most: executor 3"


def test_the_bars_of_the_staleness_count_all_milestones() -> None:
    bars = traces(history(7))["milestones"]
    assert list(bars.x) == [0, 1, 2]
    assert list(bars.y) == [3, 2, 2]


def test_a_wide_range_of_staleness_is_gathered_in_few_bars() -> None:
    record = History()
    for n in range(1000):
        record(milestone(staleness=n))
    bars = traces(record)["milestones"]
    assert len(bars.x) <= INTERVALS + 1
    assert sum(bars.y) == 1000


def test_a_rare_huge_staleness_does_not_squeeze_the_others_together() -> None:
    record = history(300)
    record(milestone(time=400.0, staleness=5000))
    bars = traces(record)["milestones"]
    assert list(bars.y) == [100, 100, 100, *[0] * 8, 1]
    assert list(bars.text) == [*[""] * 11, "11 and more"]


@pytest.mark.parametrize("top", [9, 10, 60, 61, 200])
def test_bars_of_the_staleness_hold_what_they_say(top: int) -> None:
    record = History()
    for n in [*range(top), *[top] * 200]:
        record(milestone(staleness=n))
    bars = traces(record)["milestones"]
    assert sum(bars.y) == top + 200
    assert abs(bars.x[np.argmax(bars.y)] - top) < bars.width
    assert set(bars.text) == {""}


def marks(record: History) -> dict[str, float]:
    """Return where the staleness is marked, by what is said there."""
    drawing = figure(record)
    places = [shape.x0 for shape in drawing.layout.shapes]
    said = [note.text for note in drawing.layout.annotations if note.text.startswith("mean ")]
    return dict(zip(said, places, strict=True))


def test_the_mean_staleness_is_marked_and_what_theory_predicts() -> None:
    """Samples have two workers; the staleness of every third milestone is 0, 1, 2."""
    found = marks(history(40))
    assert list(found) == ["mean 0.97 measured", "mean 1.00 predicted, n − 1"]
    assert list(found.values()) == pytest.approx([39 / 40, 1])


def test_marks_far_to_the_right_are_named_to_their_left() -> None:
    record = History()
    for _ in range(20):
        record(milestone(staleness=15, workers=16))
    notes = [n for n in figure(record).layout.annotations if n.text.startswith("mean ")]
    assert [note.xanchor for note in notes] == ["right", "right"]
    near = [n for n in figure(history(40)).layout.annotations if n.text.startswith("mean 1")]
    assert [note.xanchor for note in near] == ["left"]


def test_the_gauges_of_theory_stand_below() -> None:
    record = History()
    for _ in range(20):
        record(milestone(staleness=1, workers=4))
    caption = figure(record).layout.annotations[-1].text
    for said in ("n = 4 ", "staleness 1.00 (3.00)", "momentum 0.50 (0.75)", "rate 50% (22%)"):
        assert said in caption


def test_lines_differ_by_more_than_their_colour() -> None:
    drawing = figure(history(60, executors=LINES))
    dashes = [trace.line.dash for trace in drawing.data if trace.name.startswith("executor")]
    assert len(dashes) == LINES
    assert len(set(dashes)) == LINES


def test_the_smoothed_line_weighs_milestones_by_their_samples() -> None:
    record = History()
    record(milestone(samples=300, loss=1.0))
    record(milestone(samples=100, loss=5.0, version=2))
    # Of a span of 10, the older one has 9/11 of the newer one's weight.
    expected = (300 * 9 / 11 * 1.0 + 100 * 5.0) / (300 * 9 / 11 + 100)
    assert smoothed(record.frame())[-1] == pytest.approx(expected)


def test_the_smoothed_line_varies_less_than_the_losses() -> None:
    record = History()
    for n in range(100):
        record(milestone(loss=1.0 + (-1) ** n))
    assert np.std(smoothed(record.frame())[20:]) < 0.5 * np.std([0.0, 2.0])


def test_time_counts_from_the_beginning_of_the_first_milestone() -> None:
    record = History()
    record(milestone(time=10.0, compute=0.5, wait=0.25, exchange=0.25))
    record(milestone(time=11.0))
    assert list(since_start(record.frame())) == pytest.approx([1.0, 2.0])


@pytest.mark.parametrize("milestones", [0, 1, 3])
def test_axes_say_their_units_even_without_a_milestone(milestones: int) -> None:
    layout = figure(history(milestones)).layout
    assert layout.xaxis.title.text == "samples trained"
    assert layout.yaxis.title.text == "loss (mean per sample)"
    assert layout.xaxis2.title.text == "time (s)"
    assert layout.yaxis2.title.text == "samples per second"
    assert layout.yaxis3.title.text == "milestones"
    assert layout.xaxis4.title.text == "staleness (versions)"


def test_an_empty_history_draws_no_line() -> None:
    assert len(figure(History()).data) == 0


def test_milestones_of_one_moment_that_took_no_time_are_drawn() -> None:
    record = History()
    record(milestone(compute=0.0, exchange=0.0, loss=float("nan")))
    assert np.isfinite(traces(record)["samples per second"].y).all()


def test_a_long_run_is_thinned_out() -> None:
    drawing = figure(history(2 * POINTS + 1))
    assert all(len(trace.x) <= POINTS for trace in drawing.data)
    assert len(drawing.to_json()) < 500_000


def test_a_saved_figure_is_its_points_and_little_else() -> None:
    """A notebook of several figures is to stay small."""
    short, long = (len(figure(history(count)).to_json()) for count in (10, 1010))
    assert short < 6000
    # Two lines, and one more in two parts: float32 in base64. Bars are few, however long a run.
    assert long - short < 1000 * 3 * 8 * 4 / 3 + 4000


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 25, 101])
def test_thinning_out_averages_neighbors(length: int) -> None:
    x = np.arange(length, dtype=np.float64)
    thin_x, thin_y = thin_out(x, 2 * x, points=10)
    assert len(thin_x) <= 10
    np.testing.assert_allclose(thin_y, 2 * thin_x)
    if length <= 10:
        np.testing.assert_array_equal(thin_x, x)
    if length == 25:
        np.testing.assert_allclose(thin_x, [1, 4, 7, 10, 13, 16, 19, 22, 24])


def together(partitions: int = 2) -> History:
    """Return a run whose workers made each step together, and waited the longer, the faster."""
    result = History()
    result(started(lockstep=True))
    for n in range(4 * partitions):
        who = n % partitions
        times = {"compute": 1.0 + who, "exchange": 0.5, "wait": 2.5 - who}
        result(milestone(time=4.0 + n // partitions, partition=who, staleness=0, **times))
    return result


def test_where_all_make_each_step_together_the_time_of_workers_is_drawn() -> None:
    drawing = figure(together())
    shares = {bars.name: dict(zip(bars.y, bars.x, strict=True)) for bars in drawing.data[-3:]}
    assert shares["compute"] == {"partition 0": 0.25, "partition 1": 0.5}
    assert shares["exchange"] == {"partition 0": 0.125, "partition 1": 0.125}
    assert shares["wait"] == {"partition 0": 0.625, "partition 1": 0.375}
    texts = [note.text for note in drawing.layout.annotations]
    assert texts == ["Loss", "Throughput", "Milestones", "Time of workers"]
    assert drawing.layout.shapes == ()
    assert drawing.layout.xaxis4.title.text == "share of its time"


def test_where_nobody_counts_how_stale_steps_are_the_time_of_workers_is_drawn() -> None:
    result = History()
    result(started())
    result(milestone(staleness=None))
    *titles, why = [note.text for note in figure(result).layout.annotations]
    assert titles == ["Loss", "Throughput", "Milestones", "Time of workers"]
    assert "not counted" in why
    assert result.frame()["staleness"].isna().all()
    assert result.workers()[["staleness_mean", "staleness_max"]].isna().all(axis=None)


def test_a_line_stands_where_a_command_came_into_force() -> None:
    record = history(4)
    record(CommandAccepted(4.5, "set", "learning_rate=0.5"))
    record(CommandApplied(4.6, "set", "learning_rate=0.5"))
    record(CommandAccepted(4.7, "pause", ""))
    record(CommandApplied(4.8, "pause", ""))
    record(CommandAccepted(4.9, "set", "codec=<b>"))
    drawing = figure(record)
    loss = [shape for shape in drawing.layout.shapes if shape.xref == "x"]
    assert [shape.x0 for shape in loss] == [40.0]
    texts = [note.text for note in drawing.layout.annotations]
    assert "learning_rate=0.5" in texts
    assert not any("codec" in text for text in texts), "it is only asked for"
