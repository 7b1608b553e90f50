"""``%%tos_train`` with an engine that only remembers: options, threads, waiting, re-running."""

from __future__ import annotations

from typing import Any

import keras
import pytest
from IPython.core.error import StdinNotImplementedError

import tos_notebook
from tests.support.threads import wait_for_end
from tests.unit.magics.conftest import Cells, Cluster, Engine, FakeRun
from tos_notebook.errors import DataError, WorkerError

LINE = "%tos_train --model program --data train"


def interrupt() -> None:
    raise KeyboardInterrupt


def test_options_reach_session_and_run(cells: Cells, engine: Engine) -> None:
    cells.space["program"].optimizer_state = ("momentum",)
    output = cells(
        f"{LINE} --epochs 3 --batch-size 20 --sync ssp:2 --sync-interval 4 --combiner easgd "
        "--codec int8 -o mine --repartition-every 2 --partitions 6 --seed 7 --no-shuffle "
        "--stall-timeout 20 --worker-timeout 900 --non-finite skip --optimizer-state reset "
        "--validation-data x,y"
    )
    session = engine.sessions[0]
    assert session.program is cells.space["program"]
    assert session.options == {
        "combiner": "easgd", "batch_size": 20, "codec": "int8", "sync": "ssp:2", "sync_interval": 4,
        "non_finite": "skip", "optimizer_state": "reset", "strategy": "ps",
    }  # fmt: skip
    assert session.data is cells.space["train"]
    validation = session.started.pop("validation_data")
    assert session.started.pop("sinks") == ()
    assert validation[0] is cells.space["x"]
    assert validation[1] is cells.space["y"]
    assert session.epochs == 3
    assert session.started == {
        "repartition_every": 2, "partitions": 6, "seed": 7, "shuffle": False,
        "stall_timeout": 20.0, "name": "mine",
        "worker_timeout": 900.0,
    }  # fmt: skip
    assert cells.space["mine"] is engine.runs[0]
    assert engine.shown == engine.runs
    assert "10 in 2 tensors, 40 B" in output
    assert "x float32 (?, 4), y" in output
    assert "Training 3 epochs on train" in output


def test_a_share_of_the_data_is_evaluated_instead_of_the_default(
    cells: Cells, engine: Engine
) -> None:
    cells("%tos_config validation_data=train")
    try:
        output = cells(f"{LINE} --validation-split 0.1")
    finally:
        cells("%config TosMagics.validation_data = ''")
    started = engine.sessions[0].started
    assert started["validation_split"] == 0.1
    assert "validation_data" not in started
    assert "validation on 10 % of its rows" in output


@pytest.mark.parametrize(
    ("option", "shuffle"),
    [
        ("", True),
        ("--shuffle", True),
        ("--no-shuffle", False),
        ("--shuffle partitions", "partitions"),
        ("--shuffle --no-shuffle", False),
    ],
)
def test_rows_are_dealt_put_in_order_or_left_as_they_are(
    cells: Cells, engine: Engine, option: str, shuffle: bool | str
) -> None:
    cells(f"{LINE} {option} --seed 3")
    assert engine.sessions[0].started["shuffle"] == shuffle


def test_a_way_to_shuffle_that_there_is_not_is_refused(cells: Cells, engine: Engine) -> None:
    assert "partitions" in cells.fails(f"{LINE} --shuffle rows")
    assert not engine.sessions


def test_callbacks_are_named_one_by_one_or_as_a_list(cells: Cells, engine: Engine) -> None:
    stop, log = keras.callbacks.Callback(), keras.callbacks.Callback()
    cells.space.update(stop=stop, log=log, both=[stop, log])
    cells(f"{LINE} --callbacks stop,log")
    cells(f"{LINE} --callbacks both --if-running replace")
    assert [s.started["callbacks"] for s in engine.sessions] == [[stop, log]] * 2
    assert "got 'none'" in cells.fails(f"{LINE} --callbacks none --if-running replace")


@pytest.mark.parametrize(("sync", "combiner"), [("asp", "dynsgd"), ("bsp", "fedavg")])
def test_the_combiner_that_is_used_by_default_goes_with_the_sync_mode(
    cells: Cells, engine: Engine, sync: str, combiner: str
) -> None:
    assert f"sync {sync}, codec fp32, combiner {combiner}" in cells(f"{LINE} --sync {sync}")
    assert "combiner" not in engine.sessions[0].options


def test_the_plan_of_steps_made_together_names_what_applies(cells: Cells, engine: Engine) -> None:
    output = cells(f"{LINE} --strategy allreduce:star/4")
    assert "on train, strategy allreduce (of gradients, algorithm star), batch " in output
    assert "sync interval 4, codec fp32" in output
    assert "None" not in output


def test_the_plan_names_the_strategy_and_a_combiner_only_where_it_has_one(
    cells: Cells, engine: Engine
) -> None:
    assert "on train, strategy ps, batch size 100, " in cells(f"{LINE} -o first")
    output = cells(f"{LINE} --strategy allreduce --validation-data train")
    assert "strategy allreduce (of gradients, algorithm auto), " in output
    assert "codec fp32, validation on train" in output


def test_a_sync_mode_that_there_is_not_is_refused_before_anything_is_started(
    cells: Cells, engine: Engine
) -> None:
    assert "expected 'asp'" in cells.fails(f"{LINE} --sync spp:3")
    assert not engine.sessions


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--batch-size 0", "--batch-size: expected a whole number of at least 1, got 0"),
        ("--compression int9", "--compression: No codec is named 'int9'. Did you mean int8?"),
        ("--sync-interval often", "expected a whole number, or auto; got 'often'."),
        ("--num-workers=0", "--num-workers: expected a whole number of at least 1"),
        ("--partitions 0", "--partitions: expected a whole number of at least 1"),
        ("--codec int9", "--codec: No codec is named 'int9'. Did you mean int8?"),
        ("--combiner easgdd", "--combiner: No combiner is named 'easgdd'. Did you mean easgd?"),
        ("--strategy allreduc", "--strategy: expected one of"),
        ("--validation-data trian", "--validation-data: expected the name of a variable"),
    ],
)
def test_a_wrong_value_names_the_option_before_anything_is_printed(
    cells: Cells, engine: Engine, options: str, text: str
) -> None:
    output = cells.fails(f"{LINE} {options}")
    assert text in output
    assert len(output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (f"{LINE} --combiner dynsg", "--combiner: No combiner is named 'dynsg'"),
        (f"{LINE} --strategy allreduc", "--strategy: expected one of"),
        (f"{LINE} --learning-rate -1", "--learning-rate: expected a finite number above 0"),
        (f"{LINE} --validation-data x", "--validation-data: expected records of 2 fields"),
        (f"{LINE} --partitioner x", "--partitioner: expected one of tos.partitioners"),
        (f"{LINE} --callbacks x", "--callbacks: expected Keras callbacks"),
        (f"{LINE} --optimizer-state reset", "--optimizer-state: expected 'keep', since the"),
        ("%tos_resume file:///none --epochs 0", "--epochs: expected a whole number"),
        (
            "%tos_resume file:///none --validation-data x,y",
            "--validation-data: expected the run's model with it, since no checkpoint holds what "
            "evaluates; got none. Make the model again, and give --model, too.",
        ),
        ("%tos_resume file:///none --callbacks x", "--callbacks: expected Keras callbacks"),
    ],
)
def test_what_does_not_fit_is_refused_before_spark_starts(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch, line: str, text: str
) -> None:
    """To start it takes 10 s and more."""
    monkeypatch.delattr("tos_notebook.magics.connect.Connection.ensure")
    monkeypatch.setattr("tos_notebook.magics.connect.Connection.starts", lambda *_: True)
    assert text in cells.fails(line)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--sync spp:3", "--sync: expected 'asp'"),
        ("--learning-rate -1", "--learning-rate: expected a finite number above 0"),
        ("--learning-rate rate,0", "--learning-rate: expected a finite number above 0"),
        ("--checkpoint-dir runs --checkpoint-every often", "--checkpoint-every: expected"),
        ("--validation-data x,y --validation-every often", "--validation-every: expected"),
        ("--class-weight 0:a,1:5", "--class-weight: expected weights by class"),
        ("--class-weight 0:-1", "--class-weight: expected weights of at least 0"),
        ("--stop-when 'val_accuracy >'", "--stop-when: "),
        ("--stop-when 'val_accuracy > 1'", "--stop-when: expected validation data"),
    ],
)
def test_what_is_wrong_by_itself_is_refused_before_the_cell_runs(
    cells: Cells, engine: Engine, options: str, text: str
) -> None:
    """No variable that the cell makes could set it right."""
    output = cells.fails(f"%%tos_train --data train {options}\nprint('it ran')")
    assert text in output
    assert "it ran" not in output


def test_what_a_variable_of_the_cell_may_be_is_read_after_it_has_run(
    cells: Cells, engine: Engine
) -> None:
    cells.space["rule"] = tos_notebook.conditions.loss_below(1)
    output = cells(
        f"%{LINE} --learning-rate mine --stop-when enough\n"
        "mine, enough = 0.5, rule\nprint('it ran')"
    )
    assert "it ran" in output
    assert engine.sessions[0].started["learning_rate"] == 0.5
    assert engine.sessions[0].started["stop_when"] == [cells.space["rule"]]


def test_the_prompt_comes_back_while_the_run_trains(cells: Cells, engine: Engine) -> None:
    cells(LINE)
    assert engine.runs[0].active


def test_a_combiner_of_the_notebook_is_used(cells: Cells, engine: Engine) -> None:
    cells("def mine(center, update, push):\n    return center + update")
    cells(f"{LINE} --combiner mine")
    assert engine.sessions[0].options["combiner"] is cells.space["mine"]


def test_if_starting_fails_the_session_is_closed_and_nothing_is_bound(
    cells: Cells, engine: Engine
) -> None:
    def refuse(run: FakeRun) -> None:
        engine.runs.clear()
        raise DataError("no rows")

    engine.on_start = refuse
    assert cells.fails(LINE).strip().endswith("DataError: no rows")
    assert engine.sessions[0].closed
    assert "run" not in cells.space


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("%tos_train --model program", "--data train"),
        ("%tos_train --model program --data trian", "Did you mean train?"),
        ("%tos_train --model nope --data train", "--model: expected the name of a variable"),
        ("%tos_train --model program --data train --epoch 3", "Did you mean --epochs?"),
        ("%tos_train --data train --lr 3", "unknown option --lr. Did you mean --learning-rate?"),
        (
            "%tos_train --data train --va x",
            "--va. Did you mean --validation-on, --validation-data, --validation-split or "
            "--validation-every?",
        ),
        ("%tos_train --model program --data train --epochs ten", "whole number, got 'ten'"),
        ("%tos_train --model program --data train --loss x", "--loss: only for a TF1-style graph"),
        (
            "%tos_train --model train --data train",
            "expected a compiled Keras model, got train",
        ),
        ("%tos_train --data train", "Found nothing to train"),
        ("%tos_train --data 'train", "No closing quotation"),
        (f"{LINE} --learning-rate fast", "--learning-rate: expected a number, got 'fast'."),
        (f"{LINE} --learning-rate trian", "none has that name. Did you mean train?"),
        ("%tos_train --data train -o 3x", "name of a variable, got '3x'"),
        ("%%tos_train --data train --nope\nraise ValueError", "unknown option --nope"),
        ("%%tos_train --data train", "use one %: %tos_train --data train"),
        ("\n%%tos_train\n", "expected code below this line"),
        ("%%tos_train --data train\n  \n\n", "such as a compiled Keras model; got none"),
        ("%%tos_train --epochs 3\nraise ValueError", "expected the training data"),
    ],
)
def test_mistakes_are_one_message_without_a_traceback(
    cells: Cells, engine: Engine, line: str, text: str
) -> None:
    output = cells.fails(line)
    assert text in output
    assert "Traceback" not in output
    assert len(output.strip().splitlines()) == 1
    assert not engine.sessions


def test_wait_blocks_until_the_run_has_ended(cells: Cells, engine: Engine) -> None:
    engine.on_start = lambda run: setattr(run, "waiting", run.end)
    cells(f"{LINE} --wait")
    assert engine.settled == engine.runs


def test_wait_raises_what_ended_the_run(cells: Cells, engine: Engine) -> None:
    error = WorkerError("ValueError: boom", "1", "host", 3)
    engine.on_start = lambda run: setattr(run, "waiting", lambda: run.end("failed", error))
    output = cells.fails(f"{LINE} --wait")
    assert output.strip().splitlines()[-1].startswith("WorkerError: ValueError: boom")


def test_an_interrupt_stops_waiting_and_says_how_to_stop_the_run(
    cells: Cells, engine: Engine
) -> None:
    engine.on_start = lambda run: setattr(run, "waiting", interrupt)
    assert "%tos_stop stops it" in cells(f"{LINE} --wait")
    assert engine.runs[0].active


def test_an_interrupt_stops_the_run_if_asked(cells: Cells, engine: Engine) -> None:
    engine.on_start = lambda run: setattr(run, "waiting", interrupt)
    assert "run 1 is stopped" in cells(f"{LINE} --wait --on-interrupt stop")
    assert engine.runs[0].asked == ["stop"]


def test_without_anybody_looking_it_waits_and_shows_the_result(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOS_NONINTERACTIVE", "1")
    engine.on_start = lambda run: setattr(run, "waiting", run.end)
    assert "result of run 1" in cells(LINE)
    assert not engine.shown
    assert len(engine.sessions[0].started["sinks"]) == 1


def test_above_a_view_one_line_says_what_was_captured_and_holds_the_rest(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[dict[str, Any]] = []
    monkeypatch.setattr(
        cells.shell.display_pub, "publish", lambda data, *_, **__: published.append(data)
    )
    cells(LINE)
    (folded,) = [data for data in published if "<details>" in data.get("text/html", "")]
    title, rest = folded["text/html"].split("</summary>")
    assert " parameters, " in title
    assert "\n" not in title
    assert "Captured" in rest
    assert folded["text/plain"].startswith("Captured")


@pytest.mark.parametrize("value", ["", "0"])
def test_noninteractive_can_be_switched_off(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TOS_NONINTERACTIVE", value)
    cells(LINE)
    assert engine.shown


# -- the cell again, while its run is active -----------------------------------------


def test_attach_shows_the_run_again_and_starts_none(cells: Cells, engine: Engine) -> None:
    line = f"{LINE} --if-running attach"
    cells(line)
    del cells.space["run"]
    cells(line)
    assert len(engine.runs) == 1
    assert engine.shown[0] == engine.shown[1]
    assert cells.space["run"] is engine.runs[0]


def test_who_stopped_waiting_by_an_interrupt_waits_again_by_attaching(
    cells: Cells, engine: Engine
) -> None:
    answers = [interrupt, lambda: engine.runs[0].end()]
    engine.on_start = lambda run: setattr(run, "waiting", lambda: answers.pop(0)())
    line = f"{LINE} --wait --if-running attach"
    assert "run 1 continues" in cells(line)
    cells(line)
    assert engine.settled == engine.runs
    assert not engine.runs[0].active


def test_replace_stops_the_run_before_the_cell_runs_again(cells: Cells, engine: Engine) -> None:
    cell = "%%tos_train --model program --data train --if-running replace\nstates = states + [run.state] if 'run' in globals() else []"  # noqa: E501
    cells(cell)
    cells(cell)
    assert cells.space["states"] == ["stopped"]
    assert [run.state for run in engine.runs] == ["stopped", "running"]


def test_stop_stops_the_run_and_starts_none(cells: Cells, engine: Engine) -> None:
    line = f"{LINE} --if-running stop"
    cells(line)
    assert "Run 1 is stopped" in cells(line)
    assert len(engine.runs) == 1
    cells(line)
    assert len(engine.runs) == 2


@pytest.mark.parametrize(
    ("answers", "states"),
    [([""], ["running"]), (["x", "r"], ["stopped", "running"]), (["stop"], ["stopped"])],
)
def test_it_asks_by_default(
    cells: Cells,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[str],
    states: list[str],
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answers.pop(0))
    cells(LINE)
    cells(LINE)
    assert not answers
    assert asked[0].startswith("Run 1 of this cell is running.")
    assert [run.state for run in engine.runs] == states


@pytest.mark.parametrize("error", [StdinNotImplementedError, EOFError, KeyboardInterrupt])
def test_where_nobody_can_be_asked_or_answers_the_option_is_named(
    cells: Cells,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
) -> None:
    def ask(text: str) -> str:
        raise error("the front end has no stdin")

    monkeypatch.setattr("builtins.input", ask)
    cells(LINE)
    output = cells.fails(LINE)
    assert "--if-running attach" in output
    assert len(output.strip().splitlines()) == 1
    assert [run.state for run in engine.runs] == ["running"]


def test_another_cell_starts_another_run(cells: Cells, engine: Engine) -> None:
    cells(LINE)
    cells(f"{LINE} --epochs 2")
    assert [run.active for run in engine.runs] == [True, True]


def test_a_changed_cell_is_the_same_cell_by_its_id(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    header: Any = {"metadata": {"cellId": "abc"}}
    monkeypatch.setattr(type(cells.shell), "parent_header", header, raising=False)
    cells(f"%{LINE}\n1")
    cells(f"%{LINE} --epochs 2 --if-running replace\n2")
    assert [run.state for run in engine.runs] == ["stopped", "running"]
    cells(f"{LINE}\n{LINE} -o other")  # two lines of one cell are two trainings
    assert [run.active for run in engine.runs] == [False, True, True, True]


def test_an_error_in_warming_up_is_shown_once(
    cells: Cells, cluster: Cluster, engine: Engine
) -> None:
    cluster.error = DataError("no tensorflow there")
    cells("%tos_connect local[2]")
    wait_for_end("tos-warm-up")
    assert "no tensorflow there" in cells.fails(LINE)
    cells(LINE)


def test_columns_of_a_frame_are_named_by_options(
    cells: Cells, engine: Engine, spark_context: Any
) -> None:
    from pyspark.sql import SparkSession

    cells.space["df"] = df = SparkSession.builder.getOrCreate().range(9).selectExpr("id", "id as y")
    line = (
        "%tos_train --model program --data df --features id --label y --validation-data df "
        "--weight y"
    )
    assert "  columns    id -> x" in cells(line)
    given = engine.sessions[0].data, engine.sessions[0].started["validation_data"]
    for data in given:
        assert (data.frame, data.names, data.on_bad) == (df, ("id", "y", "y"), "raise")
    assert "Did you mean id" in cells.fails(
        "%tos_train --model program --data df --features idd --label y"
    )


def test_weights_in_a_table_of_pandas_are_refused(cells: Cells, engine: Engine) -> None:
    import pandas as pd

    cells.space["table"] = pd.DataFrame({"a": [1.0], "w": [1.0]})
    said = cells.fails("%tos_train --model program --data table --features a --weight w")
    assert "--weight: expected a Spark DataFrame with it, but --data is of pandas." in said


def test_a_frame_and_the_names_of_its_columns_go_together(cells: Cells, engine: Engine) -> None:
    kind = type("DataFrame", (), {"__module__": "pyspark.sql.classic", "columns": ["a", "b"]})
    cells.space["df"] = kind()
    output = cells.fails("%tos_train --model program --data df")
    assert "--data is a DataFrame" in output
    assert "It has a, b." in output
    assert "only for a DataFrame" in cells.fails(f"{LINE} --features a")
    assert not engine.sessions


def test_a_variable_may_hold_the_partitioner(cells: Cells, engine: Engine) -> None:
    cells.space["mine"] = tos_notebook.partitioners.RandomPartitioner(2)
    cells("%tos_train --model program --data train --partitioner mine")
    assert engine.sessions[0].started["partitioner"] is cells.space["mine"]
    cells("%tos_train --model program --data train")
    assert engine.sessions[1].started.get("partitioner") is None
    text = cells.fails("%tos_train --model program --data train --partitioner mien")
    assert "--partitioner: expected the name of a variable of this notebook, got 'mien'" in text


def test_weights_of_rows_are_answered_with_capture(cells: Cells, engine: Engine) -> None:
    text = cells.fails("%tos_train --model program --data train --sample-weight w")
    assert "unknown option --sample-weight. Capture the model with it" in text
    assert "tos.capture(model, " in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0:1,x:2", "--class-weight: expected weights by class, such as 0:1,1:5"),
        ("wieghts", "--class-weight: expected the name of a variable"),
        ("0:-1", "--class-weight: expected weights of at least 0 by class"),
    ],
)
def test_weights_of_classes_that_cannot_be_read_are_refused(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.delattr("tos_notebook.magics.connect.Connection.ensure")
    assert said in cells.fails(f"{LINE} --class-weight {text}")
    assert not engine.sessions


def test_weights_of_classes_are_a_variable_or_written(
    cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tos_notebook.training.beforehand.weighted", lambda made, weights: made)
    cells.space["weights"] = {0: 2.0}
    cells(f"{LINE} --class-weight weights -o first")
    cells(f"{LINE} --class-weight 0:1,1:5 -o second")
    given = [session.started["class_weight"] for session in engine.sessions]
    assert given == [{0: 2.0}, {0: 1.0, 1: 5.0}]
