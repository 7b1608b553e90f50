"""Where a file goes, which format its name says, and how a curve is drawn in one line."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.settings import SAMPLED, SETTINGS, TOGETHER
from tos_notebook import federated
from tos_notebook.errors import ConfigError
from tos_notebook.program.export.base import SAVED
from tos_notebook.training.results.card import BARS, sparkline
from tos_notebook.training.results.report import run_facts, setting_facts
from tos_notebook.training.results.save import deliver, save


@pytest.mark.parametrize(
    ("place", "given", "expected"),
    [
        ("model.keras", None, "keras"),
        ("hdfs:///m/weights.npz", None, "numpy"),
        ("hdfs:///m/served", "savedmodel", "savedmodel"),
        ("weights", "numpy", "numpy"),
    ],
)
def test_the_format_is_what_was_said_or_what_the_name_says(
    place: str, given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    program = SimpleNamespace(formats=SAVED, save=lambda chosen, path: made.append(chosen))
    model: Any = SimpleNamespace(present=lambda: nullcontext(program), served=None)

    def delivered(sc: Any, path: Path, place: str) -> str:
        made.append("numpy" if path.suffix == ".npz" else "")
        return place

    monkeypatch.setattr("tos_notebook.training.results.save.deliver", delivered)
    assert save(None, model, {}, place, given) == place
    assert "".join(made) == expected


@pytest.mark.parametrize(
    ("place", "given", "message"),
    [
        ("model", None, "expected one of keras, savedmodel, checkpoint, numpy"),
        ("model.h5", "h5", "got 'h5'"),
        ("model", "keras", "ends in .keras, got 'model'"),
    ],
)
def test_an_unclear_format_is_refused(place: str, given: str | None, message: str) -> None:
    unused: Any = None
    with pytest.raises(ConfigError, match=message):
        save(None, unused, {}, place, given)


def test_what_is_delivered_replaces_what_was_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "model"
    for content in ("old", "new"):
        made = tmp_path / content
        made.mkdir()
        (made / content).write_text(content)
        assert deliver(None, made, str(target)) == str(target)
    assert [path.name for path in target.iterdir()] == ["new"]
    assert list(target.parent.iterdir()) == [target]
    file = tmp_path / "file"
    file.write_text("text")
    assert deliver(None, file, str(tmp_path / "other")) == str(tmp_path / "other")
    assert (tmp_path / "other").read_text() == "text"
    assert not file.exists()


def test_a_sparkline_spans_its_values() -> None:
    line = sparkline([4.0, math.nan, 0.0, 2.0])
    assert (line[0], line[1], line[2]) == (BARS[-1], " ", BARS[0])
    assert line[3] in BARS[3:5]
    assert sparkline([1.0, 1.0]) == BARS[0] * 2
    assert sparkline([]) == ""


def test_the_report_says_of_the_settings_what_the_model_card_says() -> None:
    run: Any = SimpleNamespace(
        name=None,
        status=SimpleNamespace(
            state="finished",
            epoch=2,
            epochs=3,
            loss=0.25,
            samples=1200,
            elapsed=75.0,
            validation={"accuracy": 0.97123, "loss": math.nan},
        ),
        settings=replace(SETTINGS, sync_interval=5),
        chaos_log=(),
        program=SimpleNamespace(summary="a model"),
        own_rate=None,
        master="local[2]",
    )
    of_card, of_report = setting_facts(run, "keep"), run_facts(run, "keep")
    assert of_card.items() <= of_report.items()
    assert (of_report["State"], of_report["Epochs"]) == ("finished", "2 of 3")
    assert (of_report["Loss"], of_report["Validation accuracy"]) == ("0.25", "0.9712")
    assert "Validation loss" not in of_report
    assert of_report["Trained"] == "1,200 samples in 75.0 s"
    assert datetime.fromisoformat(of_report["Written"]).tzinfo is not None
    assert (of_card["Exchange every"], of_card["Chaos"]) == ("5 batches", "none")
    assert of_card["Learning rate"] == "the program's own"


def test_the_learning_rate_is_a_number_where_it_is_known() -> None:
    run: Any = SimpleNamespace(settings=SETTINGS, chaos_log=(), own_rate=0.0010000000474974513)
    assert setting_facts(run, "keep")["Learning rate"] == "0.001 (the program's own)"
    run.settings = replace(SETTINGS, learning_rate=0.01 * 0.9)
    assert setting_facts(run, "keep")["Learning rate"] == "0.009"
    run.settings = SAMPLED
    assert setting_facts(run, "keep")["Learning rate"] == "the strategy's step size"


def test_of_steps_made_together_no_combiner_and_no_sync_mode_is_reported() -> None:
    run: Any = SimpleNamespace(settings=TOGETHER, chaos_log=(), own_rate=None)
    facts = setting_facts(run, "keep")
    assert facts["Strategy"] == "allreduce (of gradients, algorithm ring, chosen by auto)"
    assert facts["Exchange every"] == "1 batch"
    run.settings = replace(SETTINGS, sync_interval=federated(4, 2)["sync_interval"])
    assert setting_facts(run, "keep")["Exchange every"] == "whole epoch"
    assert not {"Combiner", "Sync mode"} & set(facts)
    sampled: Any = SimpleNamespace(settings=SAMPLED, chaos_log=(), own_rate=None)
    of_samples = setting_facts(sampled, "keep")
    assert "Exchange every" not in of_samples
    assert of_samples["Learning rate"] == "the strategy's step size"
