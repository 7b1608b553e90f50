"""What a call does that takes long, said to who waits for it in a notebook or a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

from ..readable import ipython_shell
from .console import is_noninteractive

SOON = 1.0
"""Seconds after which the line comes."""

_telling = threading.Lock()
"""Held by the outermost call, which speaks for those inside it."""


@contextmanager
def told(doing: str, done: str) -> Iterator[None]:
    """Say what happens, where the block takes longer than a second, and at its end how long.

    Scripts, batch jobs and threads stay quiet.

    Parameters
    ----------
    doing : str
        A sentence without its end, such as ``"Evaluating the rows"``.
    done : str
        What took the time, such as ``"evaluate"``.
    """
    show = _place()
    if show is None or not _telling.acquire(blocking=False):
        yield
        return
    line, begun = _Line(show), monotonic()
    timer = threading.Timer(SOON, line.begin, (f"{doing} ...",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        _telling.release()
        line.end(f"{done} took {monotonic() - begun:.1f} s.")


class _Line:
    """A line that is there or not yet."""

    def __init__(self, show: Callable[[str], Callable[[str], object]]) -> None:
        self._show = show
        self._replace: Callable[[str], object] | None = None

    def begin(self, text: str) -> None:
        self._replace = self._show(text)

    def end(self, text: str) -> None:
        if self._replace is not None:
            self._replace(text)


def _place() -> Callable[[str], Callable[[str], object]] | None:
    """Return what shows a line and returns what replaces it; None in a script or a thread."""
    if is_noninteractive() or threading.current_thread() is not threading.main_thread():
        return None
    shell = ipython_shell()
    if getattr(shell, "kernel", None) is not None:
        return partial(_in_notebook, shell.display_pub)
    if sys.stdout.isatty() and (shell is not None or hasattr(sys, "ps1")):
        return _in_terminal
    return None


def _in_notebook(publisher: Any, text: str) -> Callable[[str], object]:
    place = {"display_id": uuid4().hex}
    publisher.publish({"text/plain": text}, transient=place)
    return lambda later: publisher.publish({"text/plain": later}, transient=place, update=True)


def _in_terminal(text: str) -> Callable[[str], object]:
    sys.stdout.write(text)
    sys.stdout.flush()
    return partial(_erase, len(text))


def _erase(width: int, _: str) -> None:
    sys.stdout.write(f"\r{' ' * width}\r")
    sys.stdout.flush()
