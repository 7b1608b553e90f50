"""What is found in a cell, with the real capture and an engine that only remembers."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.unit.magics.conftest import Cells, Engine
from tos_notebook.magics.graphs import is_graph_code

GRAPH = """
import tensorflow.compat.v1 as tf
x_ = tf.placeholder(tf.float32, [None, 4], name="first")
y_ = tf.placeholder(tf.float32, [None], name="second")
w = tf.Variable(tf.zeros([4, 1]))
v = tf.Variable(tf.zeros([1]))
loss = tf.reduce_mean((tf.squeeze(x_ @ w + v, 1) - y_) ** 2)
tf.train.AdamOptimizer(0.1).minimize(loss)
sess = tf.Session()
sess.run(tf.global_variables_initializer())
"""

KERAS = """
import keras
{0} = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
{0}.compile("sgd", "mse")
"""

TRAIN = "%%tos_train --data train"


def program(engine: Engine) -> Any:
    return engine.sessions[-1].program


def feeds(engine: Engine) -> list[str]:
    return [feed.name for feed in program(engine).feeds]


def params(engine: Engine) -> list[str]:
    return [spec.name for spec in program(engine).layout.specs]


def test_graph_with_the_names_left_to_us(cells: Cells, engine: Engine) -> None:
    output = cells(TRAIN + GRAPH)
    assert feeds(engine) == ["first:0", "second:0"]
    assert params(engine) == ["Variable", "Variable_1"]
    assert "optimizer  Adam (4 tensors of state, kept by each worker)\n" in output
    assert "loss       Mean:0" in output
    assert cells.space["sess"].graph is cells.space["w"].graph


def test_what_becomes_of_the_optimizer_state_is_said(cells: Cells, engine: Engine) -> None:
    output = cells(f"{TRAIN} --optimizer-state reset{GRAPH}")
    assert "(4 tensors of state, reset after each exchange)" in output
    assert engine.sessions[0].options["optimizer_state"] == "reset"


def test_graph_with_names_given(cells: Cells, engine: Engine) -> None:
    more = "step = tf.get_collection('train_op')[0]\nhit = loss * 2\npair = [x_, y_]\n"
    cells(f"{TRAIN} --fetch step --feeds pair --params w --metrics hit --loss hit{GRAPH}{more}")
    assert feeds(engine) == ["first:0", "second:0"]
    assert params(engine) == ["Variable"]


def test_the_named_train_operation_wins_over_several_optimizers(
    cells: Cells, engine: Engine
) -> None:
    again = "{}tf.train.GradientDescentOptimizer(0.1).minimize(loss)\n" + (
        "sess.run(tf.global_variables_initializer())"
    )
    assert "several optimizers" in cells.fails(TRAIN + GRAPH + again.format(""))
    assert "GradientDescent" in cells(TRAIN + GRAPH + again.format("train_op = "))


def test_constants_and_the_learning_rate_of_a_graph(cells: Cells, engine: Engine) -> None:
    cell = GRAPH.replace("AdamOptimizer(0.1)", "GradientDescentOptimizer(rate)").replace(
        "loss =",
        "keep = tf.placeholder(tf.float32, [])\nrate = tf.Variable(0.1, trainable=False)\n"
        "constants = {keep: 0.5}\nloss = keep *",
    )
    cells(f"{TRAIN} --feed-dict constants --learning-rate rate{cell}")
    assert feeds(engine) == ["first:0", "second:0"]
    assert program(engine).has_learning_rate


def test_lists_of_an_older_graph_are_not_taken(cells: Cells, engine: Engine) -> None:
    cells(TRAIN + GRAPH + "feed_name_list = [y_.name, x_.name]\nparam_list = [v]")
    assert feeds(engine) == ["second:0", "first:0"]
    assert params(engine) == ["Variable_1"]
    # The names are those of the new graph too, the variables are not.
    cells("feed_name_list = ['other:0']")
    cells(TRAIN + GRAPH)
    assert feeds(engine) == ["first:0", "second:0"]
    assert params(engine) == ["Variable", "Variable_1"]


def test_a_reset_of_the_default_graph_does_no_harm(cells: Cells, engine: Engine) -> None:
    cells(TRAIN + GRAPH.replace("x_ =", "tf.reset_default_graph()\nx_ =", 1))
    assert feeds(engine) == ["first:0", "second:0"]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("sess = tf.Session()\nsess.run(tf.global_variables_initializer())", "", "no session"),
        ("sess.run", "other = tf.Session()\nsess.run", "found other, sess"),
        ("sess.run", "with sess: sess.run", "sess is closed"),
        ("tf.train.AdamOptimizer(0.1).minimize(loss)", "", "no optimizer"),
    ],
)
def test_what_a_graph_lacks_is_said(
    cells: Cells, engine: Engine, old: str, new: str, text: str
) -> None:
    output = cells.fails(TRAIN + GRAPH.replace(old, new) + "pass")
    assert text in output
    assert output.startswith("CaptureError")
    assert not engine.sessions


def test_keras_model_of_the_cell(cells: Cells, engine: Engine) -> None:
    cells(KERAS.format("older"))
    output = cells(TRAIN + KERAS.format("newer"))
    assert "Captured a Keras model" in output
    assert "optimizer  SGD, learning rate 0.01\n" in output
    assert program(engine).model is cells.space["newer"]


def test_keras_model_that_the_cell_only_names(cells: Cells, engine: Engine) -> None:
    cells(KERAS.format("older") + KERAS.format("model"))
    cells(f"{TRAIN}\nolder.compile('adam', 'mae')")
    assert program(engine).model is cells.space["older"]
    output = cells(f"{TRAIN}\n1 + 1")
    assert "You train `model` from an earlier cell.\nCaptured a Keras model\n" in output
    assert program(engine).model is cells.space["model"]
    assert "earlier cell" not in cells(f"{TRAIN} --model older\n1 + 1")
    assert "earlier cell" not in cells(f"{TRAIN}\nmodel.summary()")


def test_keras_model_among_several(cells: Cells, engine: Engine) -> None:
    two = KERAS.format("a") + KERAS.format("b")
    assert "found a, b. Name it, such as --model a" in cells.fails(TRAIN + two)
    cells(f"{TRAIN} --model b{two}")
    assert program(engine).model is cells.space["b"]
    cells(TRAIN + two + KERAS.format("model"))
    assert program(engine).model is cells.space["model"]


def test_keras_model_without_compile(cells: Cells, engine: Engine) -> None:
    # An older session is not what this cell is about.
    cells("import tensorflow as tf\nsess = tf.compat.v1.Session(graph=tf.Graph())")
    output = cells.fails(TRAIN + KERAS.format("net").replace("net.compile", "#"))
    assert "The Keras model 'net' is not compiled. Call its compile(optimizer, loss)" in output


def test_names_of_the_cell_are_in_the_notebook_and_its_last_value_is_shown(
    cells: Cells, engine: Engine
) -> None:
    output = cells("%%tos_train --model program --data train\nnumber = 6\n%who_ls int\nnumber * 7")
    assert cells.space["number"] == 6
    assert "42" in output


def test_an_error_of_the_cell_looks_as_without_the_magic(cells: Cells, engine: Engine) -> None:
    body = "def f():\n    return 1 / 0\n\nf()"
    plain = cells.fails(f"# a comment\n{body}")
    magic = cells.fails(f"{TRAIN}\n{body}")
    assert "----> 5 f()" in magic
    assert "tos_notebook" not in magic
    assert "run_cell_magic" not in magic
    assert _frames(magic) == _frames(plain)
    assert not engine.sessions


def _frames(traceback: str) -> list[str]:
    """Return a traceback's lines of code, without the names of cells."""
    return [line for line in traceback.splitlines() if "Cell In" not in line and "#" not in line]


@pytest.mark.parametrize("header", [TRAIN, "%%tos_cluster --workers 1"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x = 1\ny = = 2", "SyntaxError: invalid syntax"),
        ("x = 1\n  y = 2", "IndentationError: unexpected indent"),
        ("x = 1\nreturn x", "SyntaxError: 'return' outside function"),
    ],
)
def test_a_syntax_error_of_the_cell_looks_as_without_the_magic(
    cells: Cells, engine: Engine, header: str, body: str, said: str
) -> None:
    plain = cells.fails(f"# a comment\n{body}")
    magic = cells.fails(f"{header}\n{body}")
    assert said in magic
    assert f"In[{cells.shell.execution_count}], line 3" in magic
    assert _frames(magic) == _frames(plain)
    result = cells.shell.run_cell(f"{header}\n{body}")
    assert type(result.error_in_exec).__name__ == said.partition(":")[0]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import tensorflow.compat.v1 as tf\nx = tf.placeholder(tf.float32)", True),
        ("import tensorflow as tf\nx = tf.compat.v1.placeholder(tf.float32)", True),
        ("from tensorflow.compat import v1\ns = v1.Session()", True),
        ("from tensorflow.compat.v1 import placeholder\nx = placeholder('float')", True),
        ("import tensorflow.compat.v1 as tf\nw = tf.get_variable('w', [1])", True),
        ("import tensorflow as tf\nx = tf.Variable(1.0)", False),
        ("import requests\ns = requests.Session()", False),
        ("import tensorflow as tf, keras\ntf.compat.v1.logging.set_verbosity(0)", False),
        ("import tensorflow as tf\ntf.compat.v1.disable_eager_execution", True),
        ("model.placeholder = 3", False),
        ("x = v1.placeholder('float')", True),
        ("x = make()", True),
        ("x = harmless()", False),
    ],
)
def test_graph_code_is_recognised(code: str, expected: bool) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1

    def make() -> Any:
        return [v1.placeholder("float") for _ in range(2)]

    namespace = {"v1": v1, "make": make, "harmless": lambda: 1}
    assert is_graph_code(ast.parse(code), namespace) is expected


def test_an_error_cites_the_cell_by_its_prompt(
    cells: Cells, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shell counts cells on while one is executed."""
    result = cells.shell.run_cell(f"{TRAIN}\n1 / 0", store_history=True)
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert f"Cell In[{result.execution_count}], line 2" in capsys.readouterr().out
