"""Words for people."""

from __future__ import annotations

import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from html import escape
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..cluster.calls import heard_by
from ..combiners.registry import describe
from ..common.console import is_noninteractive
from ..readable import readable
from ..steering.sync import interval_text

if TYPE_CHECKING:
    from ..training.results.settings import RunSettings

SECOND = 1.0
"""Between two numbers of a line that counts."""


def say(*lines: str) -> None:
    """Write lines below the cell."""
    sys.stdout.write(readable("\n".join(lines)) + "\n")


def fold(title: str, *lines: str) -> None:
    """Display lines below the cell, folded to a title where the front end can fold."""
    from IPython.display import display

    display(_folded(title, *lines), raw=True)


def _folded(title: str, *texts: str) -> dict[str, str]:
    text = readable("\n".join(texts))
    summary = f"<summary>{escape(readable(title))}</summary>"
    # JupyterLab gives what is preformatted in an output the letters of its text.
    lines = f'<pre style="font-family:monospace">{escape(text)}</pre>'
    html = f"<details>{summary}{lines}</details>"
    return {"text/html": html, "text/plain": text}


class Told:
    """Folds lines below the cell."""

    def __call__(self, *texts: str) -> None:
        """Display a title, and fold the rest to it."""
        fold(*texts)

    def now(self, text: str) -> None:
        """Take note of what happens now: it is not shown before its end."""

    def end(self, text: str | None = None) -> None:
        """Take note of the end, which is not shown either."""


class CountingLine(Told):
    """A line below the cell that says what happens, and for how many seconds.

    Parameters
    ----------
    text : str
        What happens first.
    cleared : callable
        Whether the cell has cleared its output since.
    """

    def __init__(self, text: str, cleared: Callable[[], bool]) -> None:
        from IPython.display import display

        self._cleared = cleared
        self._text, self._began = text, monotonic()
        self._waits: str | None = None
        self._ended = threading.Event()
        self._place = display({"text/plain": text}, raw=True, display_id=True)
        # In a copy: what is displayed belongs to the cell that the context names.
        count = partial(copy_context().run, self._count)
        self._thread = threading.Thread(target=count, name="tos-line", daemon=True)
        self._thread.start()

    def __call__(self, *texts: str) -> None:
        """Fold lines where the line stands."""
        self.end()
        if self._cleared():
            fold(*texts)
        else:
            self._place.update(_folded(*texts), raw=True)

    def now(self, text: str) -> None:
        """Say what happens from now on."""
        self._text, self._began = text, monotonic()
        self._show(text)

    def waits(self, what: str | None) -> None:
        """Say what is waited for, from the next second on; None once it has come."""
        self._waits = what

    def end(self, text: str | None = None) -> None:
        """Count no further, and leave a text in the place, if there is one."""
        self._ended.set()
        self._thread.join()
        if text is not None:
            self._show(text)

    def _count(self) -> None:
        while not self._ended.wait(SECOND):
            waits = self._waits
            why = f": it waits for {waits}. To give up, interrupt it." if waits else ""
            self._show(f"{self._text} {monotonic() - self._began:.0f} s{why}")

    def _show(self, text: str) -> None:
        if not self._cleared():
            self._place.update({"text/plain": text}, raw=True)


@contextmanager
def told_at_once(shell: Any, first: str, failed: str) -> Iterator[Told]:
    """Display a line below the cell before something long, and yield what folds others there.

    Parameters
    ----------
    shell : InteractiveShell or None
        That of a front end, which can replace what it shows. Where there is none, only the fold
        is displayed.
    first : str
        What happens now. The seconds that it takes are counted behind it.
    failed : str
        What stands there after an error.
    """
    if shell is None:
        yield Told()
        return
    with _clearing(shell.display_pub) as cleared:
        line = CountingLine(first, cleared)
        try:
            with heard_by(line.waits):
                yield line
        except BaseException:
            line.end(failed)
            raise
        finally:
            line.end()


@contextmanager
def counted_line(shell: Any, text: str) -> Iterator[None]:
    """Write a line below the cell, and count the seconds of the block behind it.

    Parameters
    ----------
    shell : InteractiveShell or None
        As for `told_at_once`; where there is none, nothing is counted.
    text : str
        What happens in the block, and what stands there after it.
    """
    if shell is None:
        say(text)
        yield
        return
    with _clearing(shell.display_pub) as cleared:
        line = CountingLine(text, cleared)
        try:
            with heard_by(line.waits):
                yield
        finally:
            line.end(text)


def front_end(shell: Any) -> Any:
    """Return a shell whose front end somebody watches; None for another one."""
    return None if getattr(shell, "kernel", None) is None or is_noninteractive() else shell


@contextmanager
def _clearing(publisher: Any) -> Iterator[Callable[[], bool]]:
    """Yield what says whether the cell's code has cleared its output since."""
    found = []

    def notice(message: dict[str, Any]) -> dict[str, Any]:
        found.append(message["header"]["msg_type"] == "clear_output")
        return message

    publisher.register_hook(notice)
    try:
        yield lambda: any(found)
    finally:
        publisher.unregister_hook(notice)


def training(settings: RunSettings) -> str:
    """Return how a run is trained, without what does not apply to its strategy."""
    interval = settings.sync_interval
    return (
        f"strategy {settings.strategy_text}, batch size {settings.batch_size}"
        + ("" if interval is None else f", sync interval {interval_text(interval)}")
        + ("" if settings.lockstep else f", sync {settings.sync}")
    )


def combiners() -> str:
    """Return what there is to choose from: when, the rule, its state and its source."""
    lines = [
        "Combiners",
        "---------",
        "c: the server's parameters, w: the worker's, b: what it adopted last, Δ = w - b, τ: its",
        "staleness, H: its steps, n: workers. A new combiner begins with empty state.",
        "",
    ]
    for row in describe():
        given = ", ".join(f"{name}={value!r}" for name, value in row["defaults"].items())
        lines.append(f"{row['name']}({given})")
        text = f"{row['when']} {row['rule']}. State: {row['state']}. {row['source']}."
        lines += textwrap.wrap(text, 96, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)
