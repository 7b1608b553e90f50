"""What a person in a notebook waits for: the first curve, a control's effect, an error.

A real kernel with a real Spark, and a client in the place of a front end.

    python -m benchmarks.front_end.notebook [--quick]
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

from tests.support.front_end import Client, started_kernel

from ..lib.harness import Row, program

ROOT = Path(__file__).parents[2]

CONNECT = """
%load_ext tos_notebook
%tos_connect local[2]
"""
DATA = """
import numpy as np
from sklearn.datasets import load_digits
images, labels = load_digits(return_X_y=True)
train = images.astype("float32") / 16, labels.astype("int64")
"""
TRAIN = """
%%tos_train --data train --epochs 1000000 --batch-size 32 --sync-interval 10 -o run
import keras
model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(10, "softmax")]
)
model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
"""
WRONG = """
%%tos_train --data spoiled --epochs 5 --batch-size 32 -o failed
model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Embedding(20, 2), keras.layers.Flatten(),
     keras.layers.Dense(10, "softmax")]
)
model.compile("sgd", "sparse_categorical_crossentropy")
"""
SPOIL = """
spoiled = np.array(train[0]), train[1]
spoiled[0][700] = 21
"""
SECONDS = 8
"""How long the main thread is kept busy."""

BUSY = {
    "idle": "",
    "computing": f"import time; end = time.time() + {SECONDS}\nwhile time.time() < end: pass",
    "waiting in py4j": f"sc._jvm.java.lang.Thread.sleep({SECONDS * 1000})",
}
GAP = 0.3
"""Seconds between two commands: those of a person, not of a flood."""

LIMIT = "<= 0.2"


class Steered:
    """A run in view, and its controls.

    Parameters
    ----------
    kernel : Client
    cell : str
        The request that shows it.
    """

    def __init__(self, kernel: Client, cell: str) -> None:
        self._kernel = kernel
        kernel.until(
            lambda m: m["msg_type"] == "display_data" and m in kernel.of(cell, "display_data")
        )
        self._stream, self._control = kernel.view(cell)
        self._shell = kernel.subshell()
        self._number = 0
        kernel.send(self._control, {"type": "hello", "view": "a"}, self._shell)

    def moves(self) -> None:
        """Wait until the curve has moved."""
        for milestones in (1, 20):
            self._kernel.until(lambda m, least=milestones: self._milestones(m) >= least)

    def _milestones(self, message: dict) -> int:
        if message["msg_type"] != "comm_msg" or message["content"]["comm_id"] != self._stream:
            return 0
        content = message["content"]["data"].get("content") or {}
        return int(content.get("state", {}).get("totals", {}).get("milestones", 0))

    def takes(self, command: str) -> float:
        """Give a command; return the seconds until it is answered, having been acted on."""
        self._number += 1
        began = perf_counter()
        content = {"type": "command", "id": self._number, "command": command}
        self._kernel.send(self._control, content, self._shell)
        answer = self._kernel.custom(self._control, "answer", id=self._number)
        if not answer["ok"]:
            raise RuntimeError(f"{command} was refused: {answer['text']}")
        return perf_counter() - began


@contextmanager
def busy(kernel: Client, code: str) -> Iterator[None]:
    """Keep the main thread at something."""
    request = kernel.start(code)
    kernel.until(lambda m: m["parent_header"].get("msg_id") == request)
    yield
    kernel.idle(request)


def controls(kernel: Client, view: Steered, count: int) -> Iterator[Row]:
    """Pause and unpause in turns while the main thread does this and that."""
    for what, code in BUSY.items():
        with busy(kernel, code):
            took = []
            for command in islice(cycle(["pause", "unpause"]), count):
                took.append(view.takes(command))
                sleep(GAP)
        spread = {"median of " + str(count): f"{median(took):.3f} s"}
        name = f"control while the kernel is {what}, worst"
        yield Row(name, max(took), "s", LIMIT, spread, count)


def error(kernel: Client) -> Row:
    """Train what fails on one row."""
    kernel.run(SPOIL)
    began = perf_counter()
    cell = kernel.start(WRONG)
    kernel.until(lambda m: "batch " in str(m["content"]) and m["msg_type"] == "update_display_data")
    took = perf_counter() - began
    kernel.idle(cell)
    return Row("the cell shows a worker's error after", took, "s", "<= 5")


def run(quick: bool) -> list[Row]:
    """Do as a person would, in one notebook."""
    os.environ.pop("TOS_NONINTERACTIVE", None)
    with started_kernel(ROOT) as kernel:
        kernel.run(DATA)
        began = perf_counter()
        kernel.run(CONNECT)
        connected = perf_counter() - began
        began = perf_counter()
        cell = kernel.start(TRAIN)
        view = Steered(kernel, cell)
        shown = perf_counter() - began
        view.moves()
        moving = perf_counter() - began
        kernel.idle(cell)
        parts = {
            "Spark up after": f"{connected:.2f} s",
            "view there after": f"{shown:.2f} s",
            "kernel": f"ipykernel {version('ipykernel')}",
        }
        rows = [Row("first cell to a moving curve, executors cold", moving, "s", "< 10", parts)]
        rows += controls(kernel, view, 6 if quick else 20)
        kernel.run("run.stop()")
        began = perf_counter()
        view = Steered(kernel, kernel.run(TRAIN.replace("import keras\n", "")))
        view.moves()
        rows.append(Row("cell to a moving curve, executors warm", perf_counter() - began, "s"))
        kernel.run("run.stop()")
        return [*rows, error(kernel)]


if __name__ == "__main__":
    program(run, __doc__)
