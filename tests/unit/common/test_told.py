"""Who waits in a notebook or a terminal reads what happens; a script writes nothing."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

import tos_notebook as tos
from tos_notebook.common import told as module
from tos_notebook.common.told import told

LIMIT = 10


class Notebook:
    """A shell with a kernel, and what it displays: text, place and whether it replaces."""

    def __init__(self) -> None:
        self.kernel = object()
        self.display_pub = self
        self.shown: list[tuple[str, str, bool]] = []
        self.seen = threading.Event()

    def publish(self, data: Any, *, transient: Any, update: bool = False) -> None:
        self.shown.append((data["text/plain"], transient["display_id"], update))
        self.seen.set()

    def wait(self) -> None:
        assert self.seen.wait(LIMIT)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    made = Notebook()
    monkeypatch.setattr(module, "ipython_shell", lambda: made)
    monkeypatch.setattr(module, "SOON", 0.001)
    monkeypatch.delenv("TOS_NONINTERACTIVE", raising=False)
    return made


def test_a_line_comes_and_is_replaced_by_how_long_it_took(notebook: Notebook) -> None:
    with told("Reading", "read"):
        notebook.wait()
    (first, place, _), last = notebook.shown
    assert first == "Reading ..."
    assert last[0].startswith("read took ")
    assert last[1:] == (place, True)


def test_it_is_replaced_where_the_block_raises(notebook: Notebook) -> None:
    @told("Reading", "read")
    def read() -> None:
        notebook.wait()
        raise KeyError

    with pytest.raises(KeyError):
        read()
    assert notebook.shown[-1][0].startswith("read took ")


def test_the_outermost_call_speaks_for_those_inside(notebook: Notebook) -> None:
    with told("Reading", "read"), told("Turning the page", "turn"):
        notebook.wait()
    assert [text.split()[0] for text, *_ in notebook.shown] == ["Reading", "read"]


def test_what_is_quick_says_nothing(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOON", 100.0)
    with told("Reading", "read"):
        pass
    assert notebook.shown == []


def test_threads_and_batch_jobs_say_nothing(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> None:
        with told("Reading", "read"):
            assert not [t for t in threading.enumerate() if isinstance(t, threading.Timer)]

    thread = threading.Thread(target=read)
    thread.start()
    thread.join(LIMIT)
    monkeypatch.setenv("TOS_NONINTERACTIVE", "1")
    read()
    assert notebook.shown == []


class Terminal:
    """Standard output, and whether a person sits before it."""

    def __init__(self) -> None:
        self.text = ""
        self.seen = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        pass

    def write(self, text: str) -> None:
        self.text += text
        self.seen.set()


def test_a_line_in_a_terminal_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(module, "ipython_shell", lambda: SimpleNamespace())
    monkeypatch.setattr(module, "SOON", 0.001)
    monkeypatch.setattr(sys, "stdout", terminal)
    with told("Reading", "read"):
        assert terminal.seen.wait(LIMIT)
    assert terminal.text == f"Reading ...\r{' ' * 11}\r"


def test_a_script_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(module, "ipython_shell", lambda: None)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.delattr(sys, "ps1", raising=False)
    with told("Reading", "read"):
        assert not [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
    assert terminal.text == ""


def test_evaluate_and_predict_tell(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    program = tos.capture(model)
    for name in ("_evaluate", "serve"):
        own = getattr(program, name)

        def slow(*args: Any, own: Any = own) -> Any:
            notebook.wait()
            return own(*args)

        monkeypatch.setattr(program, name, slow)
    x = np.zeros((8, 4), np.float32)
    program.evaluate((x, x[:, 0]))
    notebook.seen.clear()
    program.predict(x)
    first = [text for text, _, update in notebook.shown if not update]
    assert first == ["Evaluating the rows ...", "Predicting the rows ..."]
