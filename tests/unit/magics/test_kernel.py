"""The magics in a real kernel: interrupts, questions, completion, tracebacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

ROOT = Path(__file__).parents[3]

SETUP = """
import sys
import tos_notebook, tos_notebook.training.factory, tos_notebook.training.session
from tests.unit.magics import conftest
engine = conftest.Engine()
sys.modules["tos_notebook.widgets"] = tos_notebook.widgets = engine.widgets()
tos_notebook.training.session.TrainingSession = engine.session
tos_notebook.training.factory.runs = lambda: engine.runs
program, train, spark = conftest.FakeProgram(), 1, conftest.fake_spark()
%load_ext tos_notebook
from tos_notebook.magics.connect import Connection
Connection.ensure = lambda *_: spark
Connection.starts = lambda *_: False
"""

LINE = "%tos_train --model program --data train"

TIMEOUT = 30


class Kernel:
    """A kernel, and what it writes."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager, self._client = manager, client

    def run(self, code: str, answer: str | None = None, until: str = "") -> tuple[str, str]:
        """Execute code; interrupt it once it has written `until`; return its status and output."""
        written: list[str] = []

        def take(message: dict[str, Any]) -> None:
            content = message["content"]
            written.append(content.get("text") or "\n".join(content.get("traceback", ())))
            if until and until in "".join(written[-1:]):
                self._manager.interrupt_kernel()

        reply = self._client.execute_interactive(
            code,
            allow_stdin=answer is not None,
            stdin_hook=lambda message: self._client.input(answer),
            output_hook=take,
            timeout=TIMEOUT,
        )
        return reply["content"]["status"], "".join(written)

    def displayed(self, code: str, kind: str = "text/plain") -> list[tuple[str, str, str]]:
        """Execute code; return what was displayed or updated: kind, place and text."""
        found: list[tuple[str, str, str]] = []

        def take(message: dict[str, Any]) -> None:
            if message["msg_type"] in ("display_data", "update_display_data"):
                content = message["content"]
                place = content["transient"].get("display_id", "")
                found.append((message["msg_type"], place, content["data"].get(kind, "")))

        self._client.execute_interactive(code, output_hook=take, timeout=TIMEOUT)
        return found

    def complete(self, code: str) -> list[str]:
        reply = self._client.complete(code, reply=True, timeout=TIMEOUT)
        matches: list[str] = reply["content"]["matches"]
        return matches


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    environment.pop("TOS_NONINTERACTIVE", None)
    manager, client = start_new_kernel(env=environment, startup_timeout=TIMEOUT)
    made = Kernel(manager, client)
    status, output = made.run(SETUP)
    assert status == "ok", output
    yield made
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def on_start(kernel: Kernel) -> Callable[[str], None]:
    """Say what a run does when the main thread waits for it."""

    def say(waiting: str) -> None:
        kernel.run(f"engine.on_start = lambda run: setattr(run, 'waiting', lambda: {waiting})")

    say("None")
    return say


@pytest.mark.parametrize(
    ("option", "text"),
    [("leave", "continues. %tos_stop stops it"), ("stop", "is stopped; its weights are kept")],
)
def test_an_interrupt_ends_the_waiting(
    kernel: Kernel, on_start: Callable[[str], None], option: str, text: str
) -> None:
    on_start("print('now waiting')")
    line = f"{LINE} --wait --on-interrupt {option}"
    status, output = kernel.run(line, until="now waiting")
    assert (status, text in output) == ("ok", True), output
    kernel.run("for run in engine.runs: run.end()")


def test_the_front_end_is_asked_what_to_do(kernel: Kernel, on_start: Callable[[str], None]) -> None:
    line = f"{LINE} --seed 1"
    kernel.run(line)
    status, output = kernel.run(line)
    assert status == "error"
    assert "--if-running attach" in output
    status, output = kernel.run(line, answer="stop")
    assert (status, "is stopped" in output) == ("ok", True), output


def test_a_training_cell_says_at_once_that_it_runs(
    kernel: Kernel, on_start: Callable[[str], None]
) -> None:
    """What is said first is replaced where it stands; where the cell raises, by what that means."""
    begun, *_, told = kernel.displayed(f"%{LINE} --seed 2\n1 + 1")
    assert begun[0] == "display_data"
    assert begun[2].startswith("Running the cell's code")
    assert told[:2] == ("update_display_data", begun[1])
    assert " on train" in told[2]
    begun, *_, gone = kernel.displayed("%%tos_train --data train\nx / 0")
    assert gone == ("update_display_data", begun[1], "No run was started.")
    kernel.run("for run in engine.runs: run.end()")


def test_a_line_speaks_of_no_cell(kernel: Kernel, on_start: Callable[[str], None]) -> None:
    begun, *_ = kernel.displayed(f"{LINE} --seed 3")
    assert begun[2].startswith("Capturing what is to be trained")
    kernel.run("for run in engine.runs: run.end()")


@pytest.mark.parametrize("wait", [True, False])
def test_what_was_captured_is_shown_where_the_cell_has_cleared_its_output(
    kernel: Kernel, on_start: Callable[[str], None], wait: bool
) -> None:
    clear = f"from IPython.display import clear_output\nclear_output(wait={wait})"
    *_, told = kernel.displayed(f"%{LINE} --seed {4 + wait}\n{clear}")
    assert told[0] == "display_data"
    assert "on train" in told[2]
    kernel.run("for run in engine.runs: run.end()")


def test_a_model_of_an_earlier_cell_is_named_where_it_is_seen(
    kernel: Kernel, on_start: Callable[[str], None]
) -> None:
    """Above the fold, which hides the rest."""
    kernel.run(
        "import keras\nmodel = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')"
    )
    told = kernel.displayed("%%tos_train --data train\n1 + 1", "text/html")[-1]
    assert "<summary>You train `model` from an earlier cell. Keras model, " in told[2]
    kernel.run("for run in engine.runs: run.end()")


def test_arguments_are_completed(kernel: Kernel) -> None:
    assert kernel.complete("%%tos_train --sync") == ["--sync", "--sync-interval"]
    assert "easgd" in kernel.complete("%tos_combiner ")


def test_an_error_of_the_cell_is_its_own(kernel: Kernel) -> None:
    status, output = kernel.run("%%tos_train --data train\nx = 1\nx / 0")
    assert status == "error"
    assert "line 3" in output
    assert "ZeroDivisionError" in output
    assert "tos_notebook" not in output
