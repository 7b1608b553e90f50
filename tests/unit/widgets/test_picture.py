from __future__ import annotations

import base64
import re
from dataclasses import replace
from html import escape
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.settings import SAMPLED, SETTINGS, TOGETHER
from tests.unit.telemetry.samples import joined, milestone, started
from tests.unit.widgets.support import FACTS, FakeRun, mimebundle
from tos_notebook import events
from tos_notebook.chaos import Kill, Slow
from tos_notebook.widgets import Result, RunModel
from tos_notebook.widgets.axes import Axis
from tos_notebook.widgets.facts import RunFacts
from tos_notebook.widgets.picture_facts import facts_of
from tos_notebook.widgets.saved import POINTS, saved
from tos_notebook.widgets.svg import Panel, chart

SVG = "{http://www.w3.org/2000/svg}"
NASTY = '<script>alert("1")</script> & <b>'


def trained(milestones: int = 20, workers: int = 2, **changes: Any) -> RunModel:
    model = RunModel()
    model(started(0.0))
    model(events.StateChanged(0.0, "running"))
    for n in range(milestones):
        event = milestone(n / 10 + 0.1, partition=n % workers, loss=2 / (n + 1))
        for name, value in changes.items():
            setattr(event, name, value)
        model(event)
    model(events.Validated(milestones / 10, 0, 2000, {"loss": 0.25, "accuracy": 0.875}))
    return model


def bundle(model: RunModel) -> dict[str, str]:
    return mimebundle(Result(FakeRun(model)))  # type: ignore[arg-type]


def html(model: RunModel) -> str:
    return bundle(model)["text/html"]


def svg(text: str) -> ET.Element:
    found = re.search(r'<img src="data:image/svg\+xml;base64,([^"]+)"', text)
    assert found
    return ET.fromstring(base64.b64decode(found[1]))


def images(page: str) -> list[tuple[str, str]]:
    """Return each image's data and what it shows in words."""
    return re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="([^"]+)"', page)


def test_it_shows_the_curves_a_table_and_how_it_was_run() -> None:
    model = trained()
    model(events.RunFinished(2.5, "finished"))
    page = html(model)
    texts = [text.text for text in svg(page).iter(f"{SVG}text")]
    assert {"training", "validation", "loss", "accuracy"} <= set(texts)
    assert page.count("<tr>") == 1 + 2 + 16
    for text in ("finished", "dynsgd", "10 batches of 100", "accuracy 0.875, loss 0.25"):
        assert text in page
    for name in ("Strategy", "Sync mode", "Mean staleness"):
        assert f"{name}</th>" in page


def test_an_exchange_at_the_end_of_an_epoch_is_called_so() -> None:
    """Federated runs exchange once in an epoch, which 1,000,000 batches do not tell."""
    facts: Any = FACTS | {"sync_interval": 1_000_000}
    assert dict(facts_of(trained().snapshot(5.0, facts)))["Exchange every"] == "whole epoch"


def test_of_steps_made_together_it_shows_who_waits_and_nothing_stale() -> None:
    model = trained(staleness=0, wait=1.2)
    run = FakeRun(model)
    run.settings = TOGETHER
    page = mimebundle(Result(run))["text/html"]  # type: ignore[arg-type]
    assert "allreduce (of gradients, algorithm ring, chosen by auto)" in page
    assert "1 batch of 100" in page
    # 0.3 s are computed and 0.1 s exchanged.
    assert '<th scope="col">Waits</th>' in page
    assert "<td>75%</td>" in page
    for text in ("taleness", "Sync mode", "ombiner", "None"):
        assert text not in page
    run.settings = SAMPLED
    shown = mimebundle(Result(run))["text/html"]  # type: ignore[arg-type]
    assert "Exchange every" not in shown
    assert "the strategy&#x27;s step size" in shown


def test_it_shows_no_staleness_where_no_combiner_counts_it() -> None:
    run = FakeRun(trained(staleness=None))
    run.settings = replace(SETTINGS, strategy="tensorflow", combiner=None)
    page = mimebundle(Result(run))["text/html"]  # type: ignore[arg-type]
    for text in ("taleness", "Sync mode", "ombiner", "None", "Reduces"):
        assert text not in page


def test_of_steps_made_together_it_says_what_they_cost_and_who_is_the_slowest() -> None:
    model = RunModel()
    model(started(0.0, lockstep=True))
    for partition, wait in enumerate((0.0, 0.6)):
        parts = {"compute": 0.9 - wait, "exchange": 0.1, "wait": wait}
        model(milestone(1.0, partition=partition, **parts, bytes_up=4_000_000))
    run = FakeRun(model)
    run.settings = TOGETHER
    shown = mimebundle(Result(run))  # type: ignore[arg-type]
    for text in (
        "Workers' time: compute 60%, reduce 10%, wait 30%",
        "Each worker: sends 4 MB/s, receives 16 B/s",
        "Slowest worker: executor 1, partition 0: waits 0%, the others 60%",
        "Links: 0 -> driver 4 MB/s, 1 -> driver 4 MB/s, driver -> 0 16 B/s, driver -> 1 16 B/s",
    ):
        name, _, value = text.partition(": ")
        assert text in shown["text/plain"]
        assert f"{name}</th>" in shown["text/html"]
        assert f">{escape(value)}</td>" in shown["text/html"]
    for name in ("Computes", "Reduces", "Waits", "Sent", "Received"):
        assert f'<th scope="col">{name}</th>' in shown["text/html"]
    assert "<td>4 MB</td>" in shown["text/html"]


def test_it_shows_what_workers_used_and_a_dash_where_nobody_knows() -> None:
    page = html(trained(cpu=1.37, memory=412_000_000))
    for name in ("CPU", "Memory"):
        assert f'<th scope="col">{name}</th>' in page
    assert "<td>137%</td><td>412 MB</td>" in page
    assert "<td>137%</td><td>–</td>" in html(trained(cpu=1.37))


def test_it_shows_metrics_and_throughput_as_the_live_view_does() -> None:
    model = trained(100, metrics={"accuracy": 0.5, NASTY: 1.0})
    model(events.RunFinished(20.0, "finished"))
    page = html(model)
    (_, first), (_, second) = images(page)
    assert first.endswith(
        "Training accuracy from 0.5 to 0.5; validation accuracy from 0.875 to 0.875; over 0:10."
    )
    # One milestone of 100 samples each tenth of a second.
    assert second.endswith("Training samples per second from 1,000 to 1,000; over 9.9 s.")
    assert "samples per second</summary>" in page
    assert "<script" not in page
    for image, _ in images(page):
        ET.fromstring(base64.b64decode(image))


def test_all_its_charts_are_small_however_long_the_run() -> None:
    model = trained(30_000, metrics={f"metric {n}": 0.123456789 for n in range(10)})
    page = html(model)
    found = images(page)
    # Two charts each: the loss, four of the metrics, the throughput.
    assert len(found) == 3
    assert sum(len(image) for image, _ in found) < 60_000
    # Of the accuracy, which comes last, nothing but its evaluation is known.
    assert "metric 3, samples per second; 7 metrics have none: run.history</summary>" in page


def test_before_two_milestones_there_is_no_throughput() -> None:
    assert [label for _, label in images(html(trained(1)))] == [
        "Training loss from 2 to 2; validation loss from 0.25 to 0.25; over 0.1 s. "
        "Validation accuracy from 0.875 to 0.875; over 0.1 s."
    ]


def test_it_says_why_a_run_was_stopped() -> None:
    model = trained()
    model(events.RunFinished(2.5, "stopped", reason=f"training loss 0.09 < 0.1 {NASTY}"))
    page = html(model)
    assert "Stopped</th>" in page
    assert "training loss 0.09 &lt; 0.1 &lt;script&gt;" in page


def test_it_names_what_was_steered_and_when_as_far_as_it_took_effect() -> None:
    model = trained()
    model(events.CommandAccepted(1.0, "swap combiner", NASTY))
    model(events.CommandApplied(1.5, "swap combiner", NASTY))
    model(events.CommandAccepted(2.0, "set", "learning_rate=0.5"))
    page = html(model)
    assert "Steered</th>" in page
    assert "<summary>Steering</summary>" in page
    assert "swap combiner &lt;script&gt;" in page
    assert " at 0:01" in page
    assert "learning_rate=0.5" not in page
    assert "<script" not in page


def test_curve_fact_and_status_end_at_one_training_loss() -> None:
    model = trained()
    shown = model.snapshot(5.0, FACTS).state["totals"]["loss"]
    page = html(model)
    assert f"Training loss from 2 to {shown:g};" in page
    assert re.search(rf"Training loss</th><td[^>]*>{shown:g}</td>", page)


def test_a_metric_ends_at_one_value_while_it_trains_and_when_it_is_reopened() -> None:
    """A saved curve has few points: its last ones are means of more samples than a live one's."""
    model = RunModel()
    model(started(0.0))
    for n in range(1000):
        model(milestone(n / 10 + 0.1, metrics={"accuracy": n / 1000}))
    news = model.snapshot(101.0, FACTS)
    shown = news.state["totals"]["metrics"]["accuracy"]
    totals: Any = saved(news)["saved"]
    assert totals["totals"]["metrics"] == {"accuracy": shown}
    assert re.search(rf"Training accuracy from [\d.]+ to {shown:g};", html(model))


def test_it_says_that_something_went_wrong_on_purpose() -> None:
    model = trained()
    run = FakeRun(model)
    run.chaos_log = (Slow(5, worker=1), Kill(worker=0))
    page = mimebundle(Result(run))["text/html"]  # type: ignore[arg-type]
    assert "Chaos on purpose" in page
    assert "partition 1: 5 times slower; partition 0: killed, once" in page


def test_it_says_how_much_less_has_travelled_than_without_a_codec() -> None:
    assert "10.7 times less than as they are" in html(trained(bytes_up=8, bytes_down=16))
    assert "less than" not in html(trained(bytes_up=128, bytes_down=128))
    # Workers that share memory exchange among themselves what no link carries.
    assert "less than" not in html(trained(bytes_up=8, bytes_down=16, links=((0, 1, 8),)))


def test_the_same_stands_in_plain_text() -> None:
    model = trained()
    model(events.RunFinished(2.5, "finished"))
    lines = bundle(model)["text/plain"].splitlines()
    assert lines[0].startswith("Run 1: finished, epoch 5 of 5 in 0:02 · validation accuracy 0.875")
    assert "  Combiner: dynsgd" in lines


def test_a_name_stands_in_the_first_line() -> None:
    model = trained()
    model(events.RunFinished(2.5, "finished"))
    run: Any = FakeRun(model)
    run.name = "Wide <net>"
    page = mimebundle(Result(run))
    assert page["text/plain"].startswith("Run 1 (Wide <net>): finished, epoch 5 of 5")
    assert "Run 1 (Wide &lt;net&gt;): finished" in page["text/html"]
    assert model.row(3.0, RunFacts(run)())["name"] == "Wide <net>"


def test_it_is_small_whatever_the_run_was_like() -> None:
    model = RunModel()
    model(started(0.0))
    for n in range(20_000):
        event = milestone(n / 10, partition=n % 300, loss=1 + n % 7, executor=str(n % 300))
        event.host = "a-host-with-a-long-name.example.org" * 10
        model(event)
    error = events.WorkerFailed(
        1.0, 0, 0, "1", "h", "E: " + "<&>" * 50_000, ("<>" * 9000,) * 50, 0, ()
    )
    model(error)
    model(events.RunFinished(3000.0, "failed", error.message))
    page = html(model)
    assert len(page.encode()) < 100_000
    assert "more workers" in page
    assert len(next(svg(page).iter(f"{SVG}path")).attrib["d"].split("L")) <= POINTS


def test_whatever_others_wrote_is_escaped() -> None:
    model = trained(executor=NASTY, host=NASTY)
    run = FakeRun(model)
    run.run_id = NASTY
    run.master = NASTY
    frames = NASTY, f'File "/site-packages/{NASTY}'
    model(events.WorkerFailed(1.0, 0, 0, NASTY, NASTY, NASTY, frames, 0, ()))
    model(events.RunFinished(3.0, "failed", NASTY))
    page = mimebundle(Result(run))["text/html"]  # type: ignore[arg-type]
    assert "<script" not in page
    assert "&lt;script" in page


def test_an_error_shows_the_users_lines_first_and_folds_the_rest() -> None:
    model = trained()
    frames = ('  File "cell.py", line 3, in f\n    x / 0', '  File "/a/site-packages/b.py", line 1')
    model(
        events.WorkerFailed(1.0, 4, 1, "7", "h", "ZeroDivisionError: by zero", frames, 1, (30, 39))
    )
    model(events.RunFinished(3.0, "failed", "ZeroDivisionError: by zero  [...]"))
    page = html(model)
    before, folded, *_ = page.split("<details>")
    assert "ZeroDivisionError: by zero" in before
    assert "executor 7 (h), partition 4, attempt 1, epoch 2, batches 30 to 39" in before
    assert "x / 0" in before
    # JupyterLab gives what is preformatted in an output the letters of its text.
    assert page.count("<pre") == page.count('<pre style="font-family:monospace') == 2
    assert "site-packages" in folded
    assert "site-packages" not in before
    assert "x / 0" in bundle(model)["text/plain"]


def test_its_tables_stand_at_the_left_and_scroll_by_themselves() -> None:
    """A page that shows outputs would put the one into the middle, and cut the other."""
    page = html(trained())
    assert '<table cellpadding="4" style="margin-left:0">' in page
    assert re.search(r'<div style="[^"]*overflow-x:auto[^"]*"><table', page)


def test_its_charts_fit_a_printed_sheet() -> None:
    """A4, of 794 pixels, leaves 569 beside margins and prompts; paper does not scroll."""
    widths = re.findall(r"min-width:(\d+)px", html(trained()))
    assert widths
    assert max(map(int, widths)) <= 569


def test_the_curve_survives_in_a_notebook_that_is_not_trusted() -> None:
    """Its sanitizer takes an svg element out, and leaves the letters in it."""
    page = html(trained())
    assert "<svg" not in page
    assert images(page)[0][1].startswith(
        "Training loss from 2 to 0.36; validation loss from 0.25 to 0.25; over 0:02."
    )


def test_what_is_saved_of_a_run_that_trains_says_as_of_when() -> None:
    model = trained()
    for text in bundle(model).values():
        assert re.search(r"The run as it was at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}", text)
    model(events.RunFinished(2.5, "finished"))
    for text in bundle(model).values():
        assert "as it was" not in text


def test_a_run_that_failed_before_its_first_milestone_is_an_error_and_no_zeros() -> None:
    model = RunModel()
    model(started())
    model(joined())
    model(events.WorkerFailed(1.0, 0, 0, "1", "h", "ValueError: no", (), 0, ()))
    model(events.RunFinished(1.0, "failed", "ValueError: no"))
    shown, folded = html(model).split("<details>")
    assert "ValueError: no" in shown
    assert "<table" not in shown
    assert "No loss yet" not in shown
    assert "Milestones</th>" in folded
    assert "Executor</th>" not in folded


def test_before_the_first_milestone_there_is_no_curve() -> None:
    model = RunModel()
    model(started())
    assert "No loss yet." in html(model)


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), 0.0, -1.0, 1e300])
def test_any_loss_can_be_drawn(loss: float) -> None:
    model = RunModel()
    model(started(0.0))
    for n in range(5):
        model(milestone(n / 10, loss=loss if n % 2 else 0.5))
    path = next(svg(html(model)).iter(f"{SVG}path"))
    assert not re.search("nan|inf", path.attrib["d"])


@given(st.lists(st.floats(allow_subnormal=False), max_size=30))
def test_a_chart_is_valid_xml_within_its_box(values: list[float]) -> None:
    ys = np.array(values)
    drawn = chart(Panel("loss", [("training", np.arange(len(ys), dtype=float), ys)]))
    assert bool(drawn) == bool((np.abs(ys) <= 1e30).any())
    if not drawn:
        return
    root = ET.fromstring(drawn)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for circle in root.iter(f"{SVG}circle"):
        assert 0 <= float(circle.attrib["cx"]) <= width
        assert 0 <= float(circle.attrib["cy"]) <= height


def test_a_wide_range_is_drawn_logarithmically() -> None:
    x = np.arange(3.0)
    wide, narrow = np.array([1.0, 10, 1000]), np.array([1.0, 2, 3])
    assert "logarithmic" in chart(Panel("loss", [("training", x, wide)]))
    assert "logarithmic" not in chart(Panel("loss", [("training", x, narrow)]))


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (2.0, ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]),
        (240.0, ["0:00", "1:00", "2:00", "3:00", "4:00"]),
    ],
)
def test_the_times_of_one_axis_have_one_form(until: float, expected: list[str]) -> None:
    ticks = Axis(0.0, until, 0.0, 300.0, "time").ticks()
    assert [text for _, text in ticks] == expected


def test_times_around_a_minute_have_one_form_too() -> None:
    ticks = Axis(59.0, 61.0, 0.0, 300.0, "time").ticks()
    assert [text for _, text in ticks] == ["0:59.0", "0:59.5", "1:00.0", "1:00.5", "1:01.0"]


def test_nearly_constant_values_are_told_apart_by_their_ticks() -> None:
    ticks = Axis(10_030.0, 10_070.0, 0.0, 300.0, "linear").ticks()
    assert [text for _, text in ticks] == ["10.03k", "10.04k", "10.05k", "10.06k", "10.07k"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.21, 0.94, ["0.5"]), (31.4, 94.2, ["50"]), (0.21, 0.39, ["0.3"])],
)
def test_an_axis_has_two_ticks_at_least(low: float, high: float, expected: list[str]) -> None:
    texts = [text for _, text in Axis(low, high, 200.0, 120.0, "linear", 36.0).ticks()]
    assert len(texts) >= 2
    assert texts != expected


@pytest.mark.parametrize(("first", "begin"), [(0.1, "0:00"), (6.0, "6.0 s")])
def test_time_begins_with_the_curve_where_that_is_late(first: float, begin: str) -> None:
    """As in the live view: what a run waits for at its start takes no room of its chart."""
    times = np.linspace(first, 10.0, 9)
    root = ET.fromstring(chart(Panel("loss", [("training", times, times)])))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert begin in texts
    assert ("0:00" in texts) == (begin == "0:00")


def test_one_accident_does_not_make_everything_else_flat() -> None:
    y = np.linspace(2.0, 1.0, 300)
    y[150] = 1e8
    root = ET.fromstring(chart(Panel("loss", [("training", np.arange(300.0), y)])))
    ticks = [text.text for text in root.iter(f"{SVG}text")]
    assert "1.5" in ticks
    # What does not fit is a small triangle at the edge.
    line, beyond = list(root.iter(f"{SVG}path"))[:2]
    assert line.attrib["d"].count("L") == 299
    assert beyond.attrib["d"].count("z") == 1


def test_a_chart_marks_what_was_steered_and_has_a_shaded_gap_for_a_pause() -> None:
    model = trained()
    for time, command in ((0.4, "pause"), (0.9, "unpause")):
        model(events.CommandAccepted(time, command, ""))
        model(events.CommandApplied(time + 0.1, command, ""))
    model(events.CommandAccepted(1.0, "set", "learning_rate=0.5", {"learning_rate": "0.5"}))
    model(events.CommandApplied(1.1, "set", "learning_rate=0.5"))
    model(events.WorkerLost(1.6, 0, 0, "1", "h", "gone"))
    root = svg(html(model))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    # The name of the first has room up to the next one.
    assert {"⚑ LR 0.5", "✕ p0"} <= set(texts)
    shades = [rect for rect in root.iter(f"{SVG}rect") if rect.get("fill-opacity")]
    assert len(shades) == 2, "one in each chart"
    lines = [path.attrib["d"] for path in root.iter(f"{SVG}path")]
    assert [line.count("M") for line in lines if line.count("L") > 10] == [2]
