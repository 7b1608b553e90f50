"""Cells that really train, on real Spark, as papermill or nbval would run them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook
from tests.unit.magics.conftest import Cells, Engine
from tos_notebook.errors import InvalidTransition
from tos_notebook.widgets import RunModel

MISSION = Path(__file__).parents[1] / "tensorspark" / "mission_program.py"
"""The original's MNIST program."""


@pytest.fixture
def real(
    cells: Cells, spark_context: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """A notebook with Spark and small data; only the widgets are not real."""
    widgets = Engine().widgets()
    monkeypatch.setitem(sys.modules, "tos_notebook.widgets", widgets)
    monkeypatch.setattr(tos_notebook, "widgets", widgets, raising=False)
    monkeypatch.setenv("TOS_NONINTERACTIVE", "1")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 784)).astype(np.float32)
    y = (x @ rng.normal(size=(784, 10))).argmax(1)
    cells.space.update(sc=spark_context, x=x, y=y, train=(x, np.eye(10, dtype=np.float32)[y]))
    yield cells.space
    assert not [t for t in threading.enumerate() if t.name.startswith(("tos-close", "tos-tele"))]


def mission_lines() -> str:
    """Return its lines from the placeholder to the initialisation."""
    lines = MISSION.read_text(encoding="utf-8").splitlines()
    begin = lines.index("x = tf.placeholder(tf.float32, [None, 784])")
    return "\n".join(lines[begin : lines.index("param_list = [W, b]") + 1])


def test_keras_cell(cells: Cells, real: dict[str, Any]) -> None:
    output = cells(
        "%%tos_train --data x,y --epochs 6 --batch-size 20 --validation-data x,y -o mine\n"
        "import keras\n"
        "model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(10, 'softmax')])\n"
        "model.compile(keras.optimizers.SGD(0.1), 'sparse_categorical_crossentropy',\n"
        "              metrics=['accuracy'])"
    )
    assert "Captured a Keras model" in output
    assert "loss       sparse_categorical_crossentropy" in output
    assert "optimizer  SGD, learning rate 0.1" in output
    assert "7,850 in 2 tensors, 31.4 kB" in output
    assert "epoch 6/6" in output
    assert f"result of run {real['mine'].number}" in output
    run, model = real["mine"], real["model"]
    assert run.state == "finished"
    assert any(isinstance(sink, RunModel) for sink in run.sinks)
    assert model.evaluate(real["x"], real["y"], verbose=0)[1] > 0.8
    assert run.evaluate(real["x"], real["y"])["accuracy"] > 0.8
    with pytest.raises(InvalidTransition):
        run.pause()


def test_a_cell_says_that_mllibs_rule_makes_the_steps(cells: Cells, real: dict[str, Any]) -> None:
    output = cells(
        "%%tos_train --data x,y --strategy treeaggregate\n"
        "import keras\n"
        "model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(10, 'softmax')])\n"
        "model.compile(keras.optimizers.Adam(0.1), 'sparse_categorical_crossentropy')"
    )
    assert "optimizer  MLlib's step rule, 1 / sqrt(iteration), in place of Adam\n" in output


def test_the_lines_of_the_original_as_they_stand(cells: Cells, real: dict[str, Any]) -> None:
    cells("import tensorflow.compat.v1 as tf")
    cell = f"%%tos_train --data train --epochs 3 --batch-size 20\n{mission_lines()}"
    for _ in range(2):  # in a fresh graph each time
        output = cells(cell)
        assert "Captured a TF1-style graph" in output
        assert "Placeholder:0 float32 (?, 784), Placeholder_1:0 float32 (?, 10)" in output
        assert "7,850 in 2 tensors, 31.4 kB" in output
        assert "loss       Mean:0" in output
        assert "optimizer  GradientDescent" in output
        assert real["run"].state == "finished"
        weights = real["sess"].run(real["W"])
        np.testing.assert_array_equal(weights, real["run"].parameters()["Variable"])
        assert np.abs(weights).max() > 0


def test_line_form_trains_what_earlier_cells_made(cells: Cells, real: dict[str, Any]) -> None:
    cells("import tensorflow.compat.v1 as tf\ngraph = tf.Graph()")
    lines = mission_lines().replace("\n", "\n    ")
    cells(f"with graph.as_default():\n    {lines}\ndel feed_name_list, param_list")
    real["rdd"] = _rdd(real)
    output = cells(
        "%tos_train --fetch train_step --feeds x,y_ --loss cross_entropy --params b --data rdd"
    )
    assert "10 in 1 tensor, 40 B" in output
    run = real["run"]
    assert run.state == "finished"
    np.testing.assert_array_equal(real["sess"].run(real["b"]), run.parameters()["Variable_1"])


def _rdd(real: dict[str, Any]) -> Any:
    records = list(zip(*real["train"], strict=True))
    return real["sc"].parallelize(records, 2)


def test_an_error_in_a_layer_that_a_cell_defines_names_that_cell(
    cells: Cells, real: dict[str, Any]
) -> None:
    cells.shell.execution_count = 13
    cells(
        "import keras, tensorflow as tf\n"
        "class Checked(keras.layers.Layer):\n"
        "    def call(self, x):\n"
        "        tf.debugging.assert_less(x, 100.0)\n"
        "        return x\n"
    )
    cells.shell.execution_count = 14
    real["x"][7] = 1000
    output = cells.fails(
        "%%tos_train --data x,y\n"
        "model = keras.Sequential([keras.Input((784,)), Checked(), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')"
    )
    assert "Cell In[13], line 4, in call" in output
    assert "<ipython-input" not in output
    assert "  Cell In[13], line 4, in call" in cells("%tos_status")


def test_a_worker_error_is_the_cells_error(cells: Cells, real: dict[str, Any]) -> None:
    real["bad"] = real["sc"].parallelize(range(20), 2).map(lambda i: (np.zeros(784), 1 // (i - 3)))
    output = cells.fails(
        "%%tos_train --data bad\n"
        "import keras\n"
        "model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')"
    )
    assert "ZeroDivisionError" in output
    assert "Py4J" not in output
