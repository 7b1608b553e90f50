"""The line below a cell that says what happens before a run begins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tos_notebook.cluster.calls import announced
from tos_notebook.magics import text
from tos_notebook.magics.text import counted_line, front_end, told_at_once

LIMIT = 10


class Place:
    """Remembers what was displayed in one place, and lets a test wait for a part of it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._changed = threading.Condition()

    def update(self, data: dict[str, Any], raw: bool) -> None:
        with self._changed:
            self.texts.append(data["text/plain"])
            self._changed.notify_all()

    def says(self, part: str) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: any(part in one for one in self.texts), LIMIT)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place()

    def display(data: dict[str, Any], **_: object) -> Place:
        made.update(data, raw=True)
        return made

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(text, "SECOND", 0.001)
    return made


class Publisher:
    """Takes hooks, and displays nothing."""

    def register_hook(self, hook: Callable[..., object]) -> None: ...

    def unregister_hook(self, hook: Callable[..., object]) -> None: ...


SHELL = SimpleNamespace(display_pub=Publisher())


def test_a_line_counts_the_seconds_of_what_happens_now(place: Place) -> None:
    """So that a person sees that the cell has not come to a standstill."""
    with told_at_once(SHELL, "Running ...", "Nothing.") as tell:
        assert place.says("Running ... 0 s")
        tell.now("Preparing ...")
        assert place.says("Preparing ... 0 s")
        tell("title", "lines")
    assert place.texts[-1] == "lines"


def test_a_line_says_what_a_call_waits_for_instead_of_the_log(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A notebook shows the log in red, and keeps it."""
    with told_at_once(SHELL, "Running ...", "Nothing."), announced("Spark to start", 0):
        assert place.says("it waits for Spark to start. To give up, interrupt it.")
    assert caplog.text == ""


def test_seconds_are_counted_until_spark_has_started(place: Place) -> None:
    with counted_line(SHELL, "Starting Spark ..."):
        assert place.says("Starting Spark ... 0 s")
    assert place.texts[-1] == "Starting Spark ..."


def test_where_nobody_watches_the_line_is_written_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setenv("TOS_NONINTERACTIVE", "1")
    with counted_line(front_end(shell), "Starting Spark ..."):
        pass
    assert capsys.readouterr().out == "Starting Spark ...\n"


def test_an_error_leaves_its_own_words_and_no_thread(place: Place) -> None:
    with pytest.raises(KeyError), told_at_once(SHELL, "Running ...", "Nothing."):
        raise KeyError
    assert place.texts[-1] == "Nothing."
    assert "tos-line" not in {thread.name for thread in threading.enumerate()}
