"""An observer that tells others of a run, and gives up rather than disturb it."""

from __future__ import annotations

from functools import partial

from ...common.threads import Call, SerialExecutor
from .base import Observer


class BestEffort(Observer):
    """Makes calls on a thread for as long as they succeed; the run continues without what fails.

    Parameters
    ----------
    name, bound
        Those of `SerialExecutor`.
    failure : str
        Begins the note on the call that failed.
    """

    def __init__(self, name: str, bound: int, failure: str) -> None:
        self._failure = failure
        self._left_out = 0
        self._failed = False
        self._executor = SerialExecutor(name, bound)

    def _offer(self, call: Call) -> None:
        """Have a call made, unless too many wait."""
        if self._executor.full:
            self._left_out += 1
        else:
            self._executor.put(partial(self._attempt, call))

    def _attempt(self, call: Call) -> None:
        """Make a call, on the thread, unless one has failed before."""
        if self._failed:
            return
        try:
            call()
        except Exception as error:
            self._failed = True
            self._note(f"{self._failure}: {str(error).strip()}", error, code=False)
