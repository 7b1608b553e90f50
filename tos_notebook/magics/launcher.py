"""Start what a cell asks for, one at a time for each cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from IPython.core.error import StdinNotImplementedError, UsageError

from ..common.console import quiet_stderr
from ..errors import InvalidTransition, TosError
from . import find
from .cell import refuse_empty
from .text import say

CLOSE_TIMEOUT = 10.0
"""Seconds for the last picture."""


class Launcher(ABC):
    """Starts what cells ask for, and knows which cell started what.

    Parameters
    ----------
    shell : InteractiveShell
    connection : Connection

    Attributes
    ----------
    header : str
        The magic, as it stands in a cell.
    what : str
        What it starts, in one word.
    variable : str
        Where it goes, if the line names no variable.
    kept : str
        What a message adds about one that was stopped.
    """

    header: str
    what: str
    variable: str
    kept = ""

    def __init__(self, shell: Any, connection: Any) -> None:
        self._shell = shell
        self._connection = connection
        self._by_cell: dict[object, Any] = {}

    def launch(self, options: Namespace, line: str, cell: str | None) -> None:
        """Run the cell, start what it asks for, and show it.

        Parameters
        ----------
        options : Namespace
            With no default left out.
        line : str
            The magic's line.
        cell : str or None
            The cell's body; None for a line.

        Raises
        ------
        UsageError
            The body is empty, or an option does not fit.
        TosError
            It cannot be started.
        """
        self._connection.raise_once()
        if cell is not None:
            refuse_empty(cell, line, self.header)
        self._check(options)
        self._require_free(options)
        key = cell_key(self._shell, line, cell)
        before = self._by_cell.get(key)
        if before is not None and before.active and not self._settle(before, options):
            return
        # Often it is here that TensorFlow is imported first.
        with quiet_stderr():
            run = self._start(options, line, cell)
        self._by_cell = {k: v for k, v in self._by_cell.items() if v.active}
        self._by_cell[key] = run
        self._bind(run, options)
        self._show(run, options)

    def _bind(self, run: Any, options: Namespace) -> None:
        self._shell.user_ns[options.output or self.variable] = run

    def _require_free(self, options: Namespace, header: str = "") -> None:
        """Refuse to replace what is the user's own in a variable that the line does not name."""
        name, space = self.variable, self._shell.user_ns
        if options.output or name not in space or find.is_started(space[name]):
            return
        raise UsageError(
            f"{header or self.header}: expected no variable {name}, or a {self.what} in it; got "
            f"one of type {type(space[name]).__name__}. To keep it, name another variable, such "
            f"as -o my_{name}. To replace it, write -o {name}."
        )

    @abstractmethod
    def _check(self, options: Namespace) -> None:
        """Refuse what does not fit, before the cell runs."""

    @abstractmethod
    def _start(self, options: Namespace, line: str, cell: str | None) -> Any:
        """Start what the cell asks for, and return it."""

    @abstractmethod
    def _show(self, run: Any, options: Namespace) -> None:
        """Show it, and wait if the cell asks for that; in batch jobs, say what became of it."""

    def _settle(self, run: Any, options: Namespace) -> bool:
        """Decide about what the same cell has started; return whether to start another."""
        text = f"{self.what.capitalize()} {run.number} of this cell is {run.state}."
        choice = ask(text, self.what) if options.if_running == "ask" else options.if_running
        if choice == "attach":
            self._bind(run, options)
            self._show(run, options)
            return False
        _stop(run)
        say(f"{self.what.capitalize()} {run.number} is {run.state}{self.kept}.")
        return bool(choice == "replace")

    def _wait(
        self, run: Any, options: Namespace, later: str, wait: Callable[[], object] | None = None
    ) -> bool:
        """Wait for the end; return whether it was reached.

        Parameters
        ----------
        run : Run or ClusterRun
        options : Namespace
        later : str
            What to do about one that continues.
        wait : callable, optional
            Waits; by default the run's own.

        Raises
        ------
        TosError
            What ended the run.
        """
        try:
            (wait or run.wait)()
        except KeyboardInterrupt:
            if options.on_interrupt == "stop":
                _stop(run)
                say(f"Interrupted: {self.what} {run.number} is {run.state}{self.kept}.")
            else:
                say(
                    f"Interrupted: no longer waiting, but {self.what} {run.number} continues. "
                    f"{later}"
                )
            return False
        return True


def _stop(run: Any) -> None:
    try:
        run.stop()
    except InvalidTransition:
        # It was ending by itself.
        with suppress(TosError):
            run.wait()


def cell_key(shell: Any, line: str, cell: str | None) -> object:
    """Return what tells a cell from others: its id where the front end sends one.

    A cell may hold several lines, but only one body.

    Parameters
    ----------
    shell : InteractiveShell
    line : str
        The magic's line.
    cell : str or None
        The cell's body; None for a line.
    """
    from ..lab.targets import cell_id

    named = cell_id(shell)
    return named if named and cell is not None else (named, line, cell)


def ask(state: str, what: str) -> str:
    """Ask what to do with what a cell has started before.

    Parameters
    ----------
    state : str
        A sentence that says how it stands.
    what : str
        What it is, in one word.

    Raises
    ------
    UsageError
        The front end cannot ask, or the question was interrupted.
    """
    words = ("attach", "replace", "stop")
    while True:
        try:
            answer = input(f"{state} attach, replace or stop? [attach] ").strip().lower()
        except (EOFError, KeyboardInterrupt, OSError, StdinNotImplementedError):
            raise UsageError(
                f"{state} Say what to do with the {what}: --if-running attach (look at it), "
                "replace (stop it and start again) or stop."
            ) from None
        chosen = [word for word in words if word.startswith(answer or "attach")]
        if chosen:
            return chosen[0]
