"""`tos.fit` in a real kernel: the view comes by itself, and once in a cell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.front_end import Client, started_kernel

ROOT = Path(__file__).parents[2]
WIDGET = "application/vnd.jupyter.widget-view+json"
SETUP = """
import keras, numpy as np
import tos_notebook as tos
spark = tos.connect("local[2]", warm_up=False)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x, y = np.ones((64, 3), "float32"), np.ones((64, 1), "float32")
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Client]:
    with started_kernel(ROOT) as made:
        made.run(SETUP)
        yield made
        made.run("spark.stop()")


def shown(kernel: Client, code: str) -> list[dict[str, Any]]:
    """Run a cell; return what it displays and returns, by MIME types."""
    request = kernel.run(code)
    kinds = ("display_data", "execute_result")
    return [m["content"]["data"] for kind in kinds for m in kernel.of(request, kind)]


def replaced(kernel: Client, request: Any, line: dict[str, Any]) -> list[str]:
    """Return the texts that took the place of a line, in their order."""
    later = (m["content"] for m in kernel.of(request, "update_display_data"))
    return [e["data"]["text/plain"] for e in later if e["transient"] == line["transient"]]


def test_the_view_comes_once_although_the_cell_ends_with_the_run(kernel: Client) -> None:
    """A line says what happens before."""
    request = kernel.run("run = tos.fit(model, (x, y), 2, batch_size=8); run")
    line, view = (m["content"] for m in kernel.of(request, "display_data"))
    assert line["data"] == {"text/plain": "Preparing the run ..."}
    assert WIDGET in view["data"]
    assert replaced(kernel, request, line)[-1] == "The run has started."


def test_a_run_at_the_end_of_another_cell_shows_itself(kernel: Client) -> None:
    (picture,) = shown(kernel, "run")
    assert "text/html" in picture
    assert WIDGET not in picture
    assert len(shown(kernel, "run.show(); run.show()")) == 2


def test_nothing_is_shown_that_is_not_wanted(kernel: Client) -> None:
    assert shown(kernel, "quiet = tos.fit(model, (x, y), verbose=False)") == []


def said(kernel: Client, code: str) -> str:
    """Run a cell; return what it prints."""
    request = kernel.run(code)
    return "".join(m["content"]["text"] for m in kernel.of(request, "stream"))


QUEUED = """
import threading
while not second.stalls:
    threading.Event().wait(0.02)
"""


def test_a_second_cell_is_queued_says_whom_it_waits_for_and_begins_by_itself(
    kernel: Client,
) -> None:
    """Each prompt is back while the first run holds both slots; what waits can be stopped."""
    line = "%tos_train --model model --data x,y --batch-size 8"
    kernel.run(f"{line} --epochs 100000 -o first")
    kernel.run("first.wait_for(workers=2)")
    for code in (f"{line} -o second", f"{line} --name other -o third"):
        request = kernel.run(code)
        told, view = (m["content"] for m in kernel.of(request, "display_data"))
        assert "Captured a Keras model" in replaced(kernel, request, told)[-1]
        assert WIDGET in view["data"]
    kernel.run(QUEUED)
    status = said(kernel, "%tos_status second")
    assert "is queued" in status
    assert 'Waiting: run "first" holds both slots of local[2].' in status
    assert "is stopped" in said(kernel, "%tos_stop other")
    kernel.run("assert first.active and second.active; first.stop(); second.wait(60)")
    assert "is finished" in said(kernel, "%tos_status second")
