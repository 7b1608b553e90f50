"""What a cell wants beside its run arrives at the session as it was meant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras
import pytest
from IPython.core.error import UsageError

from tests.unit.magics.conftest import Cells, Engine
from tests.unit.magics.test_cell import GRAPH, TRAIN, program
from tests.unit.magics.test_help import complete
from tos_notebook.errors import ConfigError
from tos_notebook.magics.arguments import learning_rate
from tos_notebook.magics.find import Names
from tos_notebook.magics.parsers import PARSERS
from tos_notebook.steering import conditions

LINE = "%tos_train --model program --data x,y"


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("--validation-data x,y --validation-every 50", "validation_every", 50),
        ("--validation-data x,y --validation-every 30s", "validation_every", "30s"),
        ("--mlflow --epochs 3", "mlflow", True),
        ("--mlflow digits", "mlflow", "digits"),
        ("--learning-rate 0.01", "learning_rate", 0.01),
        ("--learning-rate 1e-3", "learning_rate", 0.001),
        ("--stop-when 'loss < 1 or steps > 9'", "stop_when", "loss < 1 or steps > 9"),
    ],
)  # fmt: skip
def test_words_and_numbers_arrive(
    cells: Cells, engine: Engine, option: str, name: str, value: Any
) -> None:
    cells(f"{LINE} {option}")
    assert engine.sessions[0].started[name] == value


def test_variables_arrive_as_what_they_hold(cells: Cells, engine: Engine) -> None:
    cells(
        "import tos_notebook as tos\n"
        "enough = tos.conditions.loss_below(0.1)\nlate = tos.conditions.after(minutes=1)\n"
        "def decay(step):\n    return 1 / (1 + step)"
    )
    cells(f"{LINE} --stop-when enough,late --learning-rate decay")
    started = engine.sessions[0].started
    assert started["stop_when"] == [conditions.loss_below(0.1), conditions.after(minutes=1)]
    assert started["learning_rate"] is cells.space["decay"]
    assert {"enough", "late"} <= set(complete(cells, "%tos_train --stop-when "))


def test_a_graphs_variable_and_its_first_value_may_both_be_given(
    cells: Cells, engine: Engine
) -> None:
    cell = GRAPH.replace("AdamOptimizer(0.1)", "GradientDescentOptimizer(rate)").replace(
        "loss =", "rate = tf.Variable(0.1, trainable=False)\nloss ="
    )
    cells(f"{TRAIN} --learning-rate rate,0.05{cell}")
    assert program(engine).has_learning_rate
    assert engine.sessions[0].started["learning_rate"] == 0.05


def test_a_resumed_run_may_have_them_too(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def resume(uri: str, **options: Any) -> Any:
        asked.update(options)
        return engine.begin(SimpleNamespace(), None, 1, {})

    monkeypatch.setattr("tos_notebook.training.resume.resume", resume)
    line = "%tos_resume hdfs:///runs/1 --validation-every 5 --validation-on executors"
    cells(f"{line} --stop-when 'hours > 1' --mlflow --learning-rate 0.05")
    assert (asked["validation_every"], asked["stop_when"]) == (5, "hours > 1")
    assert (asked["validation_on"], asked["learning_rate"]) == ("executors", 0.05)
    assert asked["mlflow"] is True
    cells.space["rate"] = SimpleNamespace()
    assert "got 'rate'. A graph's variable" in cells.fails(f"{line} --learning-rate rate")


def test_a_resumed_run_is_saved_and_watched_in_another_way(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def resume(uri: str, **options: Any) -> Any:
        asked.update(options)
        if uri == "wrong":
            raise ConfigError("stall_timeout: expected a finite number above 0, got -1.0.")
        return engine.begin(SimpleNamespace(), None, 1, {})

    monkeypatch.setattr("tos_notebook.training.resume.resume", resume)
    cells.space["stop"] = keras.callbacks.Callback()
    line = "--checkpoint-every 50 --max-checkpoints 5 --tensorboard /logs --histograms"
    cells(f"%tos_resume hdfs:///runs/1 {line} --callbacks stop --on-callback-error raise")
    del asked["spark"]
    assert asked == {
        "checkpoint_every": 50,
        "max_checkpoints": 5,
        "tensorboard": "/logs",
        "histograms": True,
        "callbacks": [cells.space["stop"]],
        "on_callback_error": "raise",
    }
    assert "--stall-timeout: expected a finite" in cells.fails("%tos_resume wrong")


def test_what_ipython_has_put_among_the_variables_is_not_meant(
    cells: Cells, engine: Engine
) -> None:
    """It has an open of its own, which is near to much."""
    assert "open" in cells.space
    assert "Did you mean" not in cells.fails(f"{LINE} --stop-when nope")


def test_nothing_is_started_with_what_is_not_there(cells: Cells, engine: Engine) -> None:
    cells(LINE)
    assert not {"learning_rate", "stop_when", "validation_every"} & {*engine.sessions[0].started}
    assert "expected a number, got 'decya'" in cells.fails(f"{LINE} --learning-rate decya")
    assert "--stop-when: expected the name" in cells.fails(f"{LINE} --stop-when enuogh")
    assert len(engine.sessions) == 1


@pytest.mark.parametrize(
    "option", ["--keep-best val_loss", "--validation-every 50", "--validation-on executors"]
)
def test_what_needs_validation_data_is_refused_before_the_cell_runs(
    cells: Cells, engine: Engine, option: str
) -> None:
    output = cells.fails(f"%{LINE} {option}\nprint('it ran')")
    assert f"{option.split()[0]}: expected validation data to " in output
    assert "give --validation-data, too." in output
    assert "it ran" not in output
    cells(f"{LINE} {option} --validation-split 0.5 --seed 1")


def test_a_condition_on_validation_data_names_the_option(cells: Cells, engine: Engine) -> None:
    output = cells.fails(f"{LINE} --stop-when 'val_loss < 1'")
    assert "--stop-when: expected validation data for 'val_loss < 1', which looks at" in output
    assert "Give --validation-data, or a condition on the training." in output
    assert not engine.sessions


@pytest.mark.parametrize(
    ("line", "both"),
    [
        ("--num-workers 2 --partitions 1", "--partitions or --num-workers"),
        ("--codec=int8 --compression bf16", "--codec or --compression"),
    ],
)
def test_both_names_of_an_option_are_refused(line: str, both: str) -> None:
    with pytest.raises(UsageError, match=f"expected {both}, which are one option; got both"):
        PARSERS["tos_train"].parse(line)


def test_two_learning_rates_are_refused() -> None:
    with pytest.raises(ValueError, match="or that and a number: rate"):
        learning_rate(Names({}), "0.1,0.2")


def test_the_status_says_why_a_run_was_stopped(cells: Cells, engine: Engine) -> None:
    cells(LINE)
    engine.runs[0].reason = "training loss 0.09 < 0.1"
    engine.runs[0].end("stopped")
    assert "  stopped: training loss 0.09 < 0.1\n" in cells("%tos_status")


def test_the_status_counts_evaluations_that_were_left_out(cells: Cells, engine: Engine) -> None:
    cells(LINE)
    assert "left out" not in cells("%tos_status")
    engine.runs[0]._left_out = 3
    assert "validation accuracy 0.875, evaluations 5 (3 left out)" in cells("%tos_status")
