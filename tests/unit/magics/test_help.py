"""Help and completion, and taking the extension away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter

from tests.unit.magics.conftest import Cells, Engine
from tos_notebook import magics
from tos_notebook.combiners.registry import COMBINERS, describe
from tos_notebook.magics import steer
from tos_notebook.magics.cell import keep_empty
from tos_notebook.magics.offers import offers
from tos_notebook.magics.parsers import PARSERS
from tos_notebook.steering.conditions import as_conditions
from tos_notebook.training import factory

LINE = "%tos_train --model program --data train"


def complete(cells: Cells, text: str) -> set[str]:
    """Return what a front end is offered at the end of a text."""
    with provisionalcompleter():
        return {c.text for c in cells.shell.Completer.completions(text, len(text))}


@pytest.mark.parametrize("name", PARSERS)
def test_every_magic_has_help_with_options_and_examples(cells: Cells, name: str) -> None:
    text = cells.shell.find_line_magic(name).__doc__
    assert f"Usage: {PARSERS[name].name}" in text
    assert all(flag in text for flag in PARSERS[name].flags)
    assert "Examples\n--------" in text
    assert f"%{name}" in text.split("Examples")[1]
    assert max(map(len, text.splitlines())) <= 100


def test_the_question_mark_shows_it(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.core.page.page", lambda text, *_: shown.append(text))
    cells("%tos_train?")
    assert "--repartition-every N" in str(shown)


def test_help_names_all_that_can_be_set(cells: Cells) -> None:
    usage = " ".join(PARSERS["tos_set"].help().split())
    for name in steer.SETTINGS:
        assert f"{name}=..." in usage
        assert f"{name}=" in complete(cells, "%tos_set ")
    assert {"combiner", "partitions", "strategy", "learning_rate"} <= {*steer.SETTINGS}


def test_help_lists_the_combiners(cells: Cells) -> None:
    text = " ".join(cells.shell.find_line_magic("tos_combiner").__doc__.split())
    for row in describe():
        for part in ("name", "rule", "state", "when", "source"):
            assert row[part] in text


def test_loading_the_extension_loads_nothing_heavy() -> None:
    code = "import tos_notebook.magics, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"tensorflow", "keras", "pyspark", "pandas", "plotly", "ipywidgets", "anywidget"}
    assert not heavy & set(done.stdout.split())


def test_it_is_loaded_once_and_taken_away(cells: Cells) -> None:
    assert len(factory.watchers) == 1
    shell = cells.shell
    magics.load_ipython_extension(shell)
    found = [c for c in shell.configurables if type(c) is magics.TosMagics]
    matchers = len(shell.Completer.custom_matchers)
    magics.unload_ipython_extension(shell)
    magics.unload_ipython_extension(shell)
    assert factory.watchers == []
    assert len(found) == 1
    assert len(shell.Completer.custom_matchers) == matchers - 1
    assert keep_empty not in shell.input_transformers_cleanup
    assert shell.find_line_magic("tos_train") is None
    assert shell.find_cell_magic("tos_train") is None
    magics.load_ipython_extension(shell)


@pytest.mark.parametrize("prefix", ["%tos_train ", "%%tos_train --epochs 3 "])
def test_what_may_stand_behind_an_option_is_completed_and_the_next_option_too(
    cells: Cells, prefix: str
) -> None:
    assert complete(cells, f"{prefix}--shuffle ") == {"partitions"}
    assert "--seed" in complete(cells, f"{prefix}--shuffle --")
    assert "--seed" not in complete(cells, f"{prefix}--data --")


def test_strategies_are_completed_with_their_variants(cells: Cells) -> None:
    named = complete(cells, "%tos_train --strategy ")
    assert {"ps", "allreduce", "allreduce:star"} <= named
    assert complete(cells, "%tos_train --strategy allr") == {n for n in named if "allr" in n}
    assert "star" in complete(cells, "%tos_train --strategy allreduce:s")


def test_what_stands_behind_a_colon_is_completed(cells: Cells) -> None:
    assert complete(cells, "%tos_train --sync ssp:1") == {"1", "10"}


def test_limits_of_a_resumed_run_are_completed_and_explained(cells: Cells) -> None:
    found = complete(cells, "%tos_resume hdfs:///runs/run-7 --")
    assert {"--stall-timeout", "--worker-timeout"} <= found
    assert "--worker-timeout SECONDS" in PARSERS["tos_resume"].help()
    assert "--shuffle [partitions]" in PARSERS["tos_train"].help()


@pytest.mark.parametrize("prefix", ["%tos_train ", "%%tos_train --epochs 3 "])
def test_options_are_completed(cells: Cells, prefix: str) -> None:
    assert {"--epochs", "--repartition-every"} - {*prefix.split()} <= complete(cells, prefix + "--")
    assert complete(cells, f"{prefix}--batch") == {"--batch-size"}


def test_a_given_option_is_not_offered_again(cells: Cells) -> None:
    assert "--epochs" not in complete(cells, "%%tos_train --epochs 3 --e")


@pytest.mark.parametrize("prefix", ["%%tos_train --combiner ", "%tos_combiner "])
def test_combiners_are_completed(cells: Cells, prefix: str) -> None:
    cells("from tos_notebook.combiners import EASGD\neager = EASGD()")
    assert {*COMBINERS, "eager"} <= complete(cells, prefix)
    assert complete(cells, f"{prefix}ea") == {"easgd", "eager"}


def test_words_of_an_option_are_completed(cells: Cells) -> None:
    assert complete(cells, "%tos_train --if-running ") == {"ask", "attach", "replace", "stop"}
    assert complete(cells, "%tos_set l") == {"learning_rate="}
    assert complete(cells, "%%tos_train --sync b") == {"bsp", "bounded:3"}
    assert complete(cells, "%%tos_train --codec s") == {"sign+ef"}
    assert complete(cells, "%tos_config ba") == {"batch_size="}
    assert complete(cells, "%%tos_train --validation-every 5") == {"500", "5min"}
    assert complete(cells, "%tos_chaos ") == {"slow", "pause", "kill", "off"}


def test_values_of_settings_are_completed_and_a_given_setting_is_not_offered_again(
    cells: Cells,
) -> None:
    assert {"asp", "bsp", "1", "ssp:3"} & complete(cells, "%tos_set sync=") >= {"asp", "bsp"}
    assert complete(cells, "%tos_set sync=b") == {"bsp", "bounded:3"}
    assert "easgd" in complete(cells, "%tos_set combiner=")
    assert complete(cells, "%tos_set sync=asp s") == {"sync_interval=", "strategy="}
    assert complete(cells, "%tos_config optimizer_state=") == {"keep", "reset"}


def test_numbers_are_completed_by_their_default_and_masters_by_their_forms(cells: Cells) -> None:
    assert complete(cells, "%%tos_train --epochs ") == {"1"}
    assert complete(cells, "%%tos_train --batch-size ") == {"100"}
    assert complete(cells, "%tos_connect lo") == {"local[2]", "local[*]"}


@pytest.mark.parametrize(
    ("text", "name", "word"),
    [
        ("%%tos_train --ep", "--epochs", "passes over the data"),
        ("%%tos_train --combiner dyns", "dynsgd", "The default for asynchronous training"),
        ("%%tos_train --sync b", "bsp", "all wait for all, at every milestone"),
        ("%tos_set sync=a", "asp", "no worker waits for another"),
        ("%%tos_train --epochs ", "1", "by default"),
        (
            "%%tos_train --feed",
            "--feeds",
            "graph: placeholders in the order of a record's fields, or a…",
        ),
        ("%%tos_train --label", "--label", "DataFrame: the column of the labels"),
        ("%%tos_train --validation-every 2", "2epochs", "at the end of every second epoch"),
        (
            "%%tos_train --combiner ada",
            "adag",
            "Long milestones; slower but steadier than Downpour",
        ),
        ("%%tos_train --sync sy", "sync", "the same as bsp"),
    ],
)
def test_a_word_about_each_is_offered_with_it(
    cells: Cells, text: str, name: str, word: str
) -> None:
    with provisionalcompleter():
        found = cells.shell.Completer.completions(text, len(text))
        assert {c.text: c.type for c in found}[name] == word


def test_what_is_offered_for_a_strategy_differs_from_each_other() -> None:
    """Above all variants of one strategy the same would be said."""
    words = [*offers("strategy").values()]
    assert len({*words}) == len(words)


@pytest.mark.parametrize("name", PARSERS)
def test_a_word_is_said_about_each_word_that_an_option_may_be(name: str) -> None:
    parser = PARSERS[name]
    words = {word: said for flag in parser.flags for word, said in parser.values(flag).items()}
    assert all(words.values())


def test_examples_of_conditions_are_completed_and_understood(cells: Cells) -> None:
    found = complete(cells, "%tos_train --stop-when ")
    assert found
    assert all(as_conditions(text) for text in found)


def test_help_of_training_groups_its_options_with_their_defaults() -> None:
    text = PARSERS["tos_train"].help()
    titles = [line for line in text.splitlines() if line and not line.startswith((" ", "Usage"))]
    assert (titles[0], titles[-1]) == ("Most used", "Others")
    used = text.partition("Most used")[2].partition("\n\n")[0]
    for option in ("--data", "--epochs", "--batch-size", "--validation-data", "-o"):
        assert f"\n  {option}" in used
    words = " ".join(text.split())
    assert "passes over the data; 1 by default" in words
    assert "variable for the run, run by default; any other name also names the run" in words
    assert "() by default" not in words
    assert "rows of one batch of each worker; 100 by default" in words
    assert all(words.count(f" {flag} ") >= 1 for flag in PARSERS["tos_train"].flags)


def test_variables_are_completed_by_kind(cells: Cells, engine: Engine) -> None:
    cells(
        "import keras, tensorflow as tf\n"
        "net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "raw = keras.Sequential()\n"
        "net.compile('sgd', 'mse')\n"
        "with tf.Graph().as_default():\n"
        "    feed = tf.compat.v1.placeholder('float32', [None])\n"
        "    weight = tf.compat.v1.get_variable('w', [1])\n"
        "    cost = tf.reduce_sum(feed * weight)\n"
        "text = 'x'\nconstants = {}"
    )
    assert complete(cells, "%tos_train --data ") == {"train", "x", "y"}
    assert complete(cells, "%tos_train --data x,") == {"train", "x", "y"}
    assert complete(cells, "%tos_train --model ") == {"net"}
    assert complete(cells, "%tos_train --feeds ") == {"feed"}
    assert complete(cells, "%tos_train --params ") == {"weight"}
    assert complete(cells, "%tos_train --loss ") == {"feed", "weight", "cost"}
    assert "constants" in complete(cells, "%tos_train --feed-dict ")
    cells(f"{LINE} -o mine")
    assert complete(cells, "%tos_stop --run ") == {"mine", "1"}


def test_the_body_of_a_cell_is_left_to_others(cells: Cells) -> None:
    assert "--epochs" not in complete(cells, "%%tos_train --data x\n%%tos_train --")
    assert "--epochs" not in complete(cells, "x = --")


@pytest.mark.parametrize(
    "text",
    ["%%tos_train --epochs 3 --e", "%tos_stop ", "%tos_stop a", "%%tos_train --callbacks cl"],
)
def test_names_of_python_are_not_offered_where_they_mean_nothing(cells: Cells, text: str) -> None:
    *_, typed = text.split(" ")
    assert complete(cells, text) <= {typed}


def test_intervals_and_what_may_be_the_best_are_completed(cells: Cells) -> None:
    import keras

    assert "auto" in complete(cells, "%%tos_train --sync-interval ")
    assert complete(cells, "%%tos_train --keep-best ") == {"val_loss"}
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["accuracy", keras.metrics.MeanAbsoluteError("mae")])
    cells.shell.user_ns["model"] = model
    found = complete(cells, "%%tos_train --keep-best ")
    assert found == {"val_loss", "val_accuracy", "val_mae:max"}


def test_folders_are_completed_by_ipython(cells: Cells, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    assert f"{tmp_path}/runs/" in complete(cells, f"%%tos_train --checkpoint-dir {tmp_path}/r")
