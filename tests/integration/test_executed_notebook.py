"""What a notebook holds that a program has executed: no front end, no person who looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
WIDGET = "application/vnd.jupyter.widget-view+json"
PLOTLY = "application/vnd.plotly.v1+json"
PICTURE = '<img src="data:image/svg+xml;base64,'

SETUP = """
%load_ext tos_notebook
import keras, numpy as np
import tos_notebook as tos
spark = tos.connect("local[2]", warm_up=False)
x, y = np.ones((640, 3), "float32"), np.ones((640, 1), "float32")
def make():
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.001), "mse")
    return made
"""
TRAIN = """%%tos_train --data x,y --epochs 20 --batch-size 8 -o first
model = make()
"""
FIT = "fitted = tos.fit(make(), (x, y), 3, batch_size=8, name='wide', histograms=True); fitted"
FIGURES = (
    *("first.figure()", "tos.compare(first, fitted)"),
    *("first.figure().show()", "fitted.weights_figure()"),
)
UNSEEN = "import os\nos.environ['TOS_NONINTERACTIVE'] = '1'\n" + FIT.replace("wide", "unseen")
CELLS = (SETUP, TRAIN, "first.wait()\nNone", FIT, *FIGURES, UNSEEN)


@pytest.fixture(scope="module")
def plain() -> list[list[Any]]:
    """The outputs of each cell, run in a kernel of its own."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in (*CELLS, "spark.stop()")]
    )
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TOS_NONINTERACTIVE", raising=False)
        client.execute()
    return [cell.outputs for cell in notebook.cells]


def shown(outputs: list[Any]) -> list[dict[str, Any]]:
    return [dict(output.data) for output in outputs if "data" in output]


def pictures(outputs: list[Any]) -> list[dict[str, Any]]:
    return [data for data in shown(outputs) if PICTURE in data.get("text/html", "")]


@pytest.mark.parametrize(("cell", "name"), [(1, "first"), (3, "wide")])
def test_each_training_cell_is_saved_with_its_result(
    plain: list[list[Any]], cell: int, name: str
) -> None:
    (picture,) = pictures(plain[cell])
    assert f"({name}): finished" in picture["text/plain"]
    assert "No loss yet" not in picture["text/html"]
    assert WIDGET not in picture


@pytest.mark.parametrize("cell", [4, 5, 6, 7])
def test_a_figure_is_saved_with_a_picture_that_needs_no_script(
    plain: list[list[Any]], cell: int
) -> None:
    (figure,) = [data for data in shown(plain[cell]) if PLOTLY in data]
    assert PICTURE in figure["text/html"]
    assert 'alt="' in figure["text/html"]
    assert len(figure["text/html"]) < 50_000


def test_where_nobody_looks_a_fit_is_saved_with_one_picture(plain: list[list[Any]]) -> None:
    outputs = plain[CELLS.index(UNSEEN)]
    (picture,) = pictures(outputs)
    assert "(unseen): finished" in picture["text/plain"]
    said = "".join(output.text for output in outputs if output.get("name") == "stdout")
    assert "finished" in said
