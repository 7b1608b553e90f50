from __future__ import annotations

import base64
import math
import re
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pandas as pd
import plotly.io as pio
import pytest

import tos_notebook
from tests.support.settings import SAMPLED, SETTINGS, TOGETHER
from tests.unit.telemetry.samples import milestone
from tos_notebook.errors import ConfigError
from tos_notebook.events import CommandAccepted, Event, Validated
from tos_notebook.telemetry.figure import COLORS, smoothed
from tos_notebook.telemetry.history import History
from tos_notebook.telemetry.thinned import POINTS
from tos_notebook.training.results.settings import RunSettings


@dataclass(eq=False)
class FakeRun:
    number: int
    milestones: int = 3
    settings: RunSettings = SETTINGS
    name: str | None = None
    told: tuple[Event, ...] = ()
    loss: float = 0.5
    own_rate: float | None = None

    @property
    def run_id(self) -> str:
        return f"run-x-{self.number}"

    @property
    def record(self) -> History:
        record = History()
        for n in range(self.milestones):
            rest = {"samples": 10, "bytes_up": 10**6, "bytes_down": 10**6}
            record(milestone(time=n + 1.0, loss=self.loss / (n + 1), **rest))
        for event in self.told:
            record(event)
        return record

    @property
    def status(self) -> Any:
        return self.record.totals()

    @property
    def history(self) -> pd.DataFrame:
        return self.record.frame()

    @property
    def validation(self) -> pd.DataFrame:
        return self.record.validation()

    @property
    def events(self) -> Any:
        return self.record.steered()


def compare(*runs: Any) -> Any:
    """Return the figure."""
    return tos_notebook.compare(*runs).figure


def lines_of(drawing: Any, name: str) -> list[Any]:
    return [trace for trace in drawing.data if trace.name == name]


def test_each_run_has_one_line_over_time_one_over_samples_and_one_over_bytes() -> None:
    drawing = compare(FakeRun(1), FakeRun(4))
    assert len(drawing.data) == 6
    time, samples, traffic = lines_of(drawing, "run 4")
    assert list(time.x) == pytest.approx([0.4, 1.4, 2.4])
    assert list(samples.x) == [10, 20, 30]
    assert list(traffic.x) == [2.0, 4.0, 6.0]
    assert list(time.y) == pytest.approx(smoothed(FakeRun(4).history).tolist())
    titles = [drawing.layout[axis].title.text for axis in ("xaxis", "xaxis2", "xaxis3")]
    assert titles == ["time (s)", "samples trained", "traffic (MB, both ways)"]


def test_a_run_is_in_the_legend_once_and_looks_the_same_everywhere() -> None:
    lines = lines_of(compare(FakeRun(1), FakeRun(2)), "run 2")
    assert [bool(line.showlegend) for line in lines] == [True, False, False]
    assert len({(line.line.color, line.line.dash, line.legendgroup) for line in lines}) == 1


def test_many_runs_all_look_different() -> None:
    drawing = compare(*(FakeRun(n) for n in range(2 * len(COLORS))))
    looks = {(trace.line.color, trace.line.dash) for trace in drawing.data}
    assert len(looks) == 2 * len(COLORS)


def test_a_run_named_twice_is_drawn_once() -> None:
    run = FakeRun(1)
    assert len(compare(run, run).data) == 3


def test_a_list_of_runs_is_compared_like_runs_one_by_one() -> None:
    """As ``tos.runs(uri)`` returns them."""
    first, second, third = (FakeRun(number) for number in (1, 2, 3))
    found = tos_notebook.compare([first, second], third).table
    assert found.equals(tos_notebook.compare(first, second, third).table)


def test_a_long_run_is_thinned_out() -> None:
    assert all(len(trace.x) <= POINTS for trace in compare(FakeRun(1, POINTS + 1)).data)


def test_no_run_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"Expected runs to compare, got 'run-1'.*%tos_compare"):
        compare("run-1")
    with pytest.raises(ConfigError, match="at least one run"):
        compare()


def test_a_run_without_milestones_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match="but run 2 has none"):
        compare(FakeRun(1), FakeRun(2, milestones=0))


def test_runs_are_named_by_what_makes_them_differ() -> None:
    star = replace(TOGETHER, own={"of": "gradients", "algorithm": "star"})
    named = {t.name for t in compare(FakeRun(1), FakeRun(2, settings=star, name="<star>")).data}
    assert named == {
        "run 1, strategy ps, combiner dynsgd",
        "&lt;star&gt;, strategy allreduce",
    }
    alike = compare(FakeRun(1, name="a"), FakeRun(2, name="a"))
    assert {t.name for t in alike.data} == {"a (run 1)", "a (run 2)"}


def test_the_table_has_only_the_settings_that_differ_and_what_came_of_them() -> None:
    found = tuple(Validated(2.0, 0, 10, {"loss": v, "accuracy": v, "f1": v}) for v in (0.3, 0.2))
    told = (CommandAccepted(1.5, "set", "sync=bsp"), *found)
    bsp = replace(SETTINGS, sync="bsp")
    table = tos_notebook.compare(
        FakeRun(1, name="wide"), FakeRun(2, settings=bsp, told=told, loss=2.0)
    ).table
    assert table.index.tolist() == ["wide", "run 2"]
    assert table["sync"].tolist() == ["asp", "bsp"]
    assert table["steered"].tolist() == ["", "1 time"]
    best = table.loc["run 2", ["best val_loss", "best val_accuracy", "last val_f1"]]
    assert best.tolist() == [0.2, 0.3, 0.2]
    assert table["best val_loss"].isna().tolist() == [True, False]
    assert not {"codec", "batch_size", "combiner"} & {*table.columns}
    # The second one has come as far as the first was from the beginning.
    assert table["seconds to same loss"].tolist() == [0.4, 2.4]
    assert table["MB sent"].tolist() == [6.0, 6.0]
    assert table["samples/s"].tolist() == [10.0, 10.0]


def test_an_exchange_at_the_end_of_an_epoch_is_called_so() -> None:
    """Federated runs exchange once in an epoch: no reader knows what 1000000 batches stand for."""
    options = tos_notebook.federated(4, 2).session
    federated = replace(SETTINGS, sync_interval=options["sync_interval"])
    table = tos_notebook.compare(FakeRun(1), FakeRun(2, settings=federated)).table
    assert table["sync_interval"].tolist() == ["10", "whole epoch"]


def test_loss_and_speed_are_those_of_views_and_lists() -> None:
    run = FakeRun(1, milestones=40)
    totals = run.record.totals()
    row = tos_notebook.compare(run).table.loc["run 1"]
    assert row["loss"] == pytest.approx(totals.loss, rel=1e-3)
    assert row["samples/s"] == pytest.approx(totals.samples_per_second, rel=1e-3)


@dataclass(eq=False)
class FakeSavedRun(FakeRun):
    """Knows the combiner by its name."""

    @property
    def run(self) -> str:
        return self.run_id


def test_a_saved_run_with_equal_settings_looks_equal() -> None:
    live = FakeRun(1, own_rate=0.1, name="live")
    kept: Any = replace(SETTINGS, combiner="dynsgd")
    saved = FakeSavedRun(2, settings=kept, name="saved", own_rate=0.1)
    assert not {"learning_rate", "combiner"} & {*tos_notebook.compare(live, saved).table}


def test_a_combiner_is_called_by_its_name_unless_two_of_one_name_differ() -> None:
    strong, mild, other = (
        replace(SETTINGS, combiner=rule)
        for rule in (
            tos_notebook.combiners.EASGD(alpha=0.5),
            tos_notebook.combiners.EASGD(alpha=0.1),
            tos_notebook.combiners.DynSGD(),
        )
    )
    table = tos_notebook.compare(FakeRun(1, settings=strong), FakeRun(2, settings=other)).table
    assert table["combiner"].tolist() == ["easgd", "dynsgd"]
    table = tos_notebook.compare(FakeRun(1, settings=strong), FakeRun(2, settings=mild)).table
    assert table["combiner"].tolist() == ["EASGD(alpha=0.5)", "EASGD(alpha=0.1)"]


def test_a_rate_that_the_program_brings_is_compared_as_a_number() -> None:
    steered = replace(SETTINGS, learning_rate=0.1)
    runs = FakeRun(1, own_rate=0.1), FakeRun(2, settings=steered, own_rate=0.1)
    assert "learning_rate" not in tos_notebook.compare(*runs).table
    table = tos_notebook.compare(runs[0], FakeRun(3)).table
    assert table["learning_rate"].tolist() == ["0.1", "the program's own"]


def test_a_run_whose_strategy_makes_the_steps_has_its_step_size_and_no_rate() -> None:
    sampled = FakeRun(1, settings=SAMPLED, own_rate=0.1)
    table = tos_notebook.compare(sampled, FakeRun(2, own_rate=0.1)).table
    assert table["step_size"].tolist() == [str(SAMPLED.own["step_size"]), ""]
    assert table["learning_rate"].tolist() == ["", "0.1"]
    smaller = replace(SAMPLED, own={**SAMPLED.own, "step_size": 0.25})
    table = tos_notebook.compare(sampled, FakeRun(2, settings=smaller, own_rate=0.1)).table
    assert table["step_size"].tolist() == [str(SAMPLED.own["step_size"]), "0.25"]
    assert "learning_rate" not in table


def test_runs_whose_loss_is_unknown_have_a_table_too() -> None:
    both = tos_notebook.compare(FakeRun(1, loss=math.nan, name="wild"), FakeRun(2, name="mild"))
    assert both.table["seconds to same loss"].isna().tolist() == [True, True]
    lines = repr(both).splitlines()
    assert "NaN" not in repr(both)
    assert ("diverged" in lines[-2], "diverged" in lines[-1]) == (True, False)
    assert lines[-2].split()[-3] == "–"


def test_a_comparison_shows_its_table_and_its_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    shell = SimpleNamespace(
        display_formatter=SimpleNamespace(format=lambda part: ({"text/plain": part}, {})),
        display_pub=SimpleNamespace(publish=lambda data, metadata: shown.append(data)),
    )
    both = tos_notebook.compare(FakeRun(1), FakeRun(2))
    with pytest.raises(NotImplementedError):
        both._ipython_display_()
    monkeypatch.setattr("tos_notebook.telemetry.compare.ipython_shell", lambda: shell)
    both._ipython_display_()
    assert [data["text/plain"] for data in shown] == [both.table, both.figure]
    assert "run 2" in repr(both)


def test_images_of_a_comparison_say_what_they_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a saved page has a picture that no screen reader can tell of."""
    shown: list[Any] = []
    shell = SimpleNamespace(
        display_formatter=SimpleNamespace(format=lambda part: ({"image/png": b""}, {})),
        display_pub=SimpleNamespace(publish=lambda data, metadata: shown.append(metadata)),
    )
    monkeypatch.setattr("tos_notebook.telemetry.compare.ipython_shell", lambda: shell)
    tos_notebook.compare(FakeRun(1), FakeRun(2))._ipython_display_()
    assert shown[-1]["image/png"]["alt"].startswith("Training loss of run 1, run 2, over time")


def test_runs_without_a_common_loss_have_no_time_to_it() -> None:
    """One that has never had a finite loss reached none that the others reached, either."""
    found = tos_notebook.compare(FakeRun(1), FakeRun(2, loss=math.nan)).table
    assert found["seconds to same loss"].isna().all()


def still_picture(drawing: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the SVG that a page without scripts has of a figure."""
    shown: list[dict[str, str]] = []
    shell = SimpleNamespace(display_pub=SimpleNamespace(publish=shown.append))
    monkeypatch.setattr("tos_notebook.telemetry.pictured.ipython_shell", lambda: shell)
    monkeypatch.setattr(pio.renderers, "default", "plotly_mimetype")
    drawing.show()
    found = re.search(r"base64,([^\"]+)", shown[0]["text/html"])
    assert found is not None
    return base64.b64decode(found[1]).decode()


def test_the_still_picture_has_every_name_whole_in_as_many_rows_as_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"run {n} with a name that says at length what it tries" for n in range(5)]
    few = still_picture(compare(FakeRun(9)), monkeypatch)
    picture = still_picture(
        compare(*(FakeRun(n, name=name) for n, name in enumerate(names))), monkeypatch
    )
    assert all(f">{name[:24]}" in picture for name in names)
    heights = [int(re.findall(r'viewBox="0 0 820 (\d+)"', each)[0]) for each in (few, picture)]
    rows = set(re.findall(r'<text x="\d+" y="(\d+)">run', picture))
    assert heights[1] - heights[0] == 16 * (len(rows) - 1) > 0


def test_a_still_picture_says_how_many_names_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [FakeRun(n, name=f"{n} {'x' * 38}") for n in range(40)]
    assert "and 26 more</text>" in still_picture(compare(*named), monkeypatch)
