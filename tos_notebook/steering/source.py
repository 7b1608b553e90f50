"""Who commands: a magic, a view, or what watches the run. The code that calls the run names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PYTHON = "Python"
"""A call of the run's method in the user's own code."""

VIEW = "view"
"""The live view, or JupyterLab's panel, palette and menu."""

CALLBACKS, SCHEDULE, STOP_WHEN = "callbacks=", "learning_rate=", "stop_when="
INTERVAL = "sync_interval="
"""What the user has beside the run."""

_source: ContextVar[str] = ContextVar("tos_command_source", default=PYTHON)


def source() -> str:
    """Return who commands here."""
    return _source.get()


@contextmanager
def commands_from(name: str) -> Iterator[None]:
    """Let the commands of a block be known as somebody's.

    Parameters
    ----------
    name : str
        One of the words of this module, or a magic such as ``%tos_set``.
    """
    token = _source.set(name)
    try:
        yield
    finally:
        _source.reset(token)
