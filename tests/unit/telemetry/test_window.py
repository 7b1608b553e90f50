from __future__ import annotations

from tos_notebook.telemetry.window import Window


def test_values_are_means_per_sample_and_rates_per_second() -> None:
    window = Window(began=10.0)
    window.add(30, {"loss": 1.0}, ["all", "one"])
    window.add(10, {"loss": 3.0, "accuracy": 0.5}, ["all"])
    assert window.milestones == 2
    assert window.means() == {"loss": 1.5, "accuracy": 0.5}
    assert window.values(12.0) == {"loss": 1.5, "accuracy": 0.5, "all": 20.0, "one": 15.0}


def test_no_time_has_no_rate() -> None:
    window = Window(began=10.0)
    window.add(30, {}, ["all"])
    assert window.values(10.0) == {}
