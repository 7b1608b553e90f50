"""A thread that tells others of a run, and gives up rather than disturb it."""

from __future__ import annotations

import logging
from functools import partial

from ...common.threads import Call, SerialExecutor

logger = logging.getLogger(__name__)


class BestEffortExecutor(SerialExecutor):
    """Makes calls for as long as they succeed; the run goes on without what fails.

    Parameters
    ----------
    name, bound
        Those of `SerialExecutor`.
    failure : str
        Begins the note on the call that failed.

    Attributes
    ----------
    notes : tuple of str
        What has gone wrong, for `Observer.notes`.
    left_out : int
        Calls that were not taken, because too many waited.
    failed : bool
        Whether a call has raised; none is made after it.
    """

    def __init__(self, name: str, bound: int, failure: str) -> None:
        self._failure = failure
        self.notes: tuple[str, ...] = ()
        self.left_out = 0
        self.failed = False
        super().__init__(name, bound)

    def offer(self, call: Call) -> None:
        """Have a call made, unless too many wait."""
        if self.full:
            self.left_out += 1
        else:
            self.put(partial(self.attempt, call))

    def attempt(self, call: Call) -> None:
        """Make a call, on the thread, unless one has failed before."""
        if self.failed:
            return
        try:
            call()
        except Exception as error:
            self.failed = True
            self.note(f"{self._failure}: {error}", error)

    def note(self, text: str, error: Exception | None = None) -> None:
        """Say what has gone wrong, here and in the log."""
        self.notes += (text,)
        logger.warning("%s", text, exc_info=error)
