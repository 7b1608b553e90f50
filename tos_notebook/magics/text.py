"""Words for people."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from ..combiners.registry import describe
from ..readable import readable
from ..steering.sync import interval_text

if TYPE_CHECKING:
    from ..training.results.settings import RunSettings


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


@contextmanager
def told_at_once(shell: Any, first: str, failed: str) -> Iterator[Callable[..., None]]:
    """Display a line below the cell before something long, and yield what folds others there.

    Parameters
    ----------
    shell : InteractiveShell or None
        That of a front end, which can replace what it shows. Where there is none, only the fold
        is displayed.
    first : str
        What happens now.
    failed : str
        What stands there after an error.
    """
    if shell is None:
        yield fold
        return
    from IPython.display import display

    with _clearing(shell.display_pub) as cleared:
        place = display({"text/plain": first}, raw=True, display_id=True)

        def tell(*text: str) -> None:
            if cleared():
                fold(*text)
            else:
                place.update(_folded(*text), raw=True)

        try:
            yield tell
        except BaseException:
            place.update({"text/plain": failed}, raw=True)
            raise


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
