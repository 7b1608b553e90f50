from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pytest

from tests.support.settings import SETTINGS, TOGETHER
from tests.unit.telemetry.samples import milestone
from tos_notebook.errors import ConfigError
from tos_notebook.telemetry.compare import compare
from tos_notebook.telemetry.figure import COLORS, POINTS
from tos_notebook.telemetry.history import History
from tos_notebook.training.results.settings import RunSettings


@dataclass(eq=False)
class FakeRun:
    number: int
    milestones: int = 3
    settings: RunSettings = SETTINGS

    @property
    def run_id(self) -> str:
        return f"run-x-{self.number}"

    @property
    def history(self) -> pd.DataFrame:
        record = History()
        for n in range(self.milestones):
            event = milestone(time=n + 1.0, samples=10, bytes_up=10**6, bytes_down=10**6)
            record(event)
        return record.frame()


def lines_of(drawing: Any, name: str) -> list[Any]:
    return [trace for trace in drawing.data if trace.name == name]


def test_each_run_has_one_line_over_time_one_over_samples_and_one_over_bytes() -> None:
    drawing = compare(FakeRun(1), FakeRun(4))
    assert len(drawing.data) == 6
    time, samples, traffic = lines_of(drawing, "run 4")
    assert list(time.x) == pytest.approx([0.4, 1.4, 2.4])
    assert list(samples.x) == [10, 20, 30]
    assert list(traffic.x) == [2.0, 4.0, 6.0]
    assert list(time.y) == pytest.approx([0.5, 0.5, 0.5])
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


def test_a_long_run_is_thinned_out() -> None:
    assert all(len(trace.x) <= POINTS for trace in compare(FakeRun(1, POINTS + 1)).data)


def test_no_run_is_an_error() -> None:
    with pytest.raises(ConfigError, match="Expected runs to compare, got 'run-1'"):
        compare("run-1")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least one run"):
        compare()


def test_a_run_without_milestones_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match=r"run 2 \(run-x-2\) has none"):
        compare(FakeRun(1), FakeRun(2, milestones=0))


def test_runs_of_several_strategies_are_named_by_them() -> None:
    drawing = compare(FakeRun(1), FakeRun(2, settings=TOGETHER))
    text = "allreduce (of gradients, algorithm ring, chosen by auto)"
    assert {trace.name for trace in drawing.data} == {"run 1, ps", f"run 2, {text}"}


def test_runs_of_one_strategy_by_two_algorithms_are_told_apart() -> None:
    star = replace(TOGETHER, own={"of": "gradients", "algorithm": "star"})
    drawing = compare(FakeRun(1, settings=TOGETHER), FakeRun(2, settings=star))
    assert "run 2, allreduce (of gradients, algorithm star)" in {t.name for t in drawing.data}
