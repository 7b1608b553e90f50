"""Ends a run when a condition of the user's is met."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, DataError, InvalidTransition, SessionClosed, WaitTimeout
from ...events import CallbackFailed, Event, Validated, ValidationFailed
from ...steering.conditions import on_validation, text_of
from ...steering.source import STOP_WHEN, commands_from
from ..options.observers import require_met
from .base import Maker, Observer, RunContext

if TYPE_CHECKING:
    from ...steering.status import RunStatus

PERIOD = 0.2
"""Seconds between two looks at the run; every evaluation is looked at besides."""

CONDITION_TIMEOUT = 60.0
"""Seconds that the end of a run waits for a condition under way."""


class EarlyStop(Observer):
    """Asks conditions on a thread of its own, and stops the run when one is met.

    A condition that raises is not asked again. When the validation has failed, conditions on it can
    never be met: they are left out, and if no other is left, the run ends with an error.

    Parameters
    ----------
    context : RunContext
    conditions : sequence of callable
        Each takes a `RunStatus`.
    period : float
        Seconds between two looks.
    timeout : float
        Seconds that the end of a run waits for a condition that computes.
    """

    def __init__(
        self,
        context: RunContext,
        conditions: Sequence[Callable[[RunStatus], Any]],
        period: float = PERIOD,
        timeout: float = CONDITION_TIMEOUT,
    ) -> None:
        self._context = context
        self._active = list(conditions)
        self._period, self._timeout = period, timeout
        self._validated: deque[RunStatus] = deque()
        self._unvalidated: ValidationFailed | None = None
        self._ending = False
        self._began = time.perf_counter()
        self._before = context.run.status.elapsed
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="tos-stop-when", daemon=True)

    @property
    def is_current_thread(self) -> bool:
        """See `Observer.is_current_thread`."""
        return threading.current_thread() is self._thread

    def begin(self) -> None:
        """Begin to look."""
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Have every evaluation looked at: a condition may count them."""
        if not isinstance(event, Validated | ValidationFailed):
            return
        with self._changed:
            if isinstance(event, Validated):
                self._validated.append(self._context.run.status)
            else:
                self._unvalidated = event
            self._changed.notify_all()

    def finish(self, last: bool) -> None:
        """See `Observer.finish`."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread.ident is None:
            return
        self._thread.join(self._timeout)
        if self._thread.is_alive():
            raise WaitTimeout(
                f"A condition of stop_when= still computes after {self._timeout:g} s."
            )

    # -- on the thread ----------------------------------------------------------------

    def _run(self) -> None:
        while self._active:
            with self._changed:
                self._changed.wait_for(self._is_told, self._period)
                if self._ending:
                    return
                if self._context.run.status.state == "queued":
                    self._began = time.perf_counter()
                status = self._validated.popleft() if self._validated else None
                failed = None if status else self._unvalidated
            if failed is not None and self._give_up(failed):
                return
            if self._is_met(self._aged(status or self._context.run.status)):
                return

    def _is_told(self) -> bool:
        return bool(self._ending or self._validated or self._unvalidated)

    def _give_up(self, event: ValidationFailed) -> bool:
        """Leave out what waits for the validation; return whether nothing is left."""
        self._unvalidated = None
        hopeless = [condition for condition in self._active if on_validation(condition)]
        self._active = [condition for condition in self._active if condition not in hopeless]
        if not hopeless:
            return False
        names = " or ".join(text_of(condition) for condition in hopeless)
        why = event.message.partition("\n")[0].rstrip(".")
        text = f"stop_when: {names} can never be met, since the validation failed: {why}"
        self._note(text)
        # The last epoch ends the run anyway.
        if not self._active and event.epoch + 1 < self._context.run.status.epochs:
            self._context.fail(
                DataError(
                    f"{text}. The run ended after epoch {event.epoch + 1}, and keeps its weights. "
                    "Correct the validation data, or add a condition on the training, such as "
                    '"minutes >= 10".'
                )
            )
        return not self._active

    def _aged(self, status: RunStatus) -> RunStatus:
        """Let time pass although nothing happens: a run that is paused or stalled tells nothing."""
        elapsed = self._before + time.perf_counter() - self._began
        return replace(status, elapsed=max(status.elapsed, elapsed))

    def _is_met(self, status: RunStatus) -> bool:
        for condition in tuple(self._active):
            try:
                found = condition(status)
                met = bool(found)
            except Exception as error:
                self._active.remove(condition)
                self._failed(text_of(condition), error)
            else:
                if met:
                    reason = found if isinstance(found, str) else text_of(condition)
                    # The run may have ended by itself.
                    with suppress(InvalidTransition), commands_from(STOP_WHEN):
                        self._context.run.stop(reason=reason)
                    return True
        return False

    def _failed(self, name: str, error: Exception) -> None:
        known = isinstance(error, ConfigError)
        message = str(error) if known else f"{type(error).__name__}: {error}"
        text = f"stop_when: {name} is no longer looked at: {message}"
        self._note(text, None if known else error)
        with suppress(SessionClosed):
            self._context.publish(CallbackFailed(time.time(), name, "stop_when", message))


def stopping(conditions: Any, *, validated: bool) -> Maker:
    """Return what makes a run's `EarlyStop`.

    Parameters
    ----------
    conditions : callable, str, or sequence of them
        See `tos_notebook.conditions`.
    validated : bool
        Whether the run has validation data.

    Raises
    ------
    ConfigError
        They are not conditions, or can never be met.
    """
    found = require_met(conditions, validated)
    return lambda context: EarlyStop(context, found)
