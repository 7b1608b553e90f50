"""Processes that stand beside ours: each sets something up once and then runs it on call."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any

END = 600.0
"""Seconds after which a call that does not end is given up."""


class Peer:
    """A process of its own; a context manager that ends it.

    Parameters
    ----------
    setup : callable
        Runs there, returns the function that `start` calls.
    *arguments
        Of `setup`.
    """

    def __init__(self, setup: Callable[..., Callable[..., Any]], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, setup, arguments))
        self._process.start()
        theirs.close()

    def start(self, *arguments: Any) -> None:
        """Let the function run; `result` waits for its end."""
        self._pipe.send(arguments)

    def result(self) -> Any:
        """Return what the function returned.

        Raises
        ------
        RuntimeError
            It raised, or did not end in time.
        """
        if not self._pipe.poll(END):
            raise RuntimeError(f"Expected {self._process.name} to end its call within {END} s.")
        value, error = self._pipe.recv()
        if error is not None:
            raise RuntimeError(f"{self._process.name} failed:\n{error}")
        return value

    def call(self, *arguments: Any) -> Any:
        """Run the function and return its result."""
        self.start(*arguments)
        return self.result()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._pipe.close()
        if error is not None:
            self._process.terminate()
        self._process.join(END)


def _serve(pipe: Pipe, setup: Callable[..., Callable[..., Any]], arguments: Any) -> None:
    function: Callable[..., Any] | None = None
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        try:
            function = function or setup(*arguments)
            pipe.send((function(*asked), None))
        except Exception:
            pipe.send((None, traceback.format_exc()))
