"""Keras callbacks that follow a run, on a thread of the driver."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ...common.threads import Call, SerialExecutor
from ...errors import CallbackError, ConfigError, InvalidTransition, SessionClosed
from ...events import CallbackFailed, EpochFinished, Event, MilestoneCommitted
from ...readable import summary
from ...steering.conditions import VALIDATION
from ...steering.source import CALLBACKS, commands_from
from ...telemetry.window import Window
from .base import Observer, RunContext
from .validation import Evaluation

if TYPE_CHECKING:
    from ...program.keras.callbacks import Hooks

logger = logging.getLogger(__name__)

BEGIN_TIMEOUT = 60.0
"""Seconds that the first Spark job waits for `on_train_begin`."""

CALLBACKS_TIMEOUT = 600.0
"""Seconds that the end of a run waits for its callbacks."""

BOUND = 1000
"""Milestones that may wait for slow callbacks; of more, the hooks are left out."""

REFRESH_SHARE = 0.05
"""Of the time, at most, goes into writing the center into the model for hooks of milestones."""


class Callbacks(Observer):
    """Calls the hooks in the order of Keras: an epoch's begin, its milestones, its end.

    A worker may be in the next epoch before the present one is done; the hooks of its milestones
    wait until that has begun.

    Parameters
    ----------
    context : RunContext
    hooks : Hooks
    evaluation : Evaluation or None
        Of the parameters that the model holds, before the end of an epoch is told.
    on_error : {"raise", "skip"}
    bound : int
        Milestones that may wait for slow callbacks.
    begin_timeout, timeout : float
        Seconds that the first Spark job waits for them, and the end of the run.
    """

    def __init__(
        self,
        context: RunContext,
        hooks: Hooks,
        evaluation: Evaluation | None,
        on_error: str,
        bound: int = BOUND,
        begin_timeout: float = BEGIN_TIMEOUT,
        timeout: float = CALLBACKS_TIMEOUT,
    ) -> None:
        self._context = context
        self._hooks = hooks
        self._evaluation = evaluation
        self._on_error = on_error
        self._begin_timeout, self._timeout = begin_timeout, timeout
        # The telemetry thread's.
        self._epoch = context.epochs.start
        self._windows: defaultdict[int, Window] = defaultdict(Window)
        self._early: defaultdict[int, list[Call]] = defaultdict(list)
        self._batchwise = hooks.batchwise
        self._left_out = 0
        # The thread's own, from here on.
        self._active: list[Any] = []
        self._rate: float | None = None
        self._logs: Mapping[str, float] = {}
        self._stopped = False
        self._refresh_at = 0.0
        self._executor = SerialExecutor("tos-callbacks", bound)

    @property
    def validates(self) -> bool:
        """See `Observer.validates`."""
        return self._evaluation is not None

    @property
    def is_current_thread(self) -> bool:
        """See `Observer.is_current_thread`."""
        return self._executor.is_current_thread

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Observer.notes`."""
        failed = () if self._evaluation is None else self._evaluation.notes
        return *failed, *self._notes

    # -- called by the run ------------------------------------------------------------

    def begin(self) -> None:
        """Call the hooks of the beginning: what they set is in force from the first batch on."""
        self._executor.put(self._train_begin)
        if not self._executor.settle(self._begin_timeout):
            logger.warning(
                "on_train_begin of the callbacks takes longer than %g s; training begins.",
                self._begin_timeout,
            )

    def __call__(self, event: Event) -> None:
        """Have the hooks called that an event stands for."""
        if isinstance(event, MilestoneCommitted):
            if self._evaluation is not None:
                self._evaluation.count(event)
            window = self._windows[event.epoch]
            window.add(event.samples, {"loss": event.loss, **event.metrics})
            if self._batchwise:
                self._milestone(event.epoch, window)
        elif isinstance(event, EpochFinished):
            self._epoch_finished(event.epoch)

    def finish(self, last: bool) -> None:
        """See `Observer.finish`."""
        if not last:
            self._executor.clear()
        self._executor.put(self._train_end)
        if self._left_out:
            logger.warning(
                "Callbacks were slower than the training: the hooks of %d milestones were left "
                "out. Their losses are in the epochs' logs all the same.",
                self._left_out,
            )
        self._executor.end(self._timeout)

    def _milestone(self, epoch: int, window: Window) -> None:
        now = epoch == self._epoch
        if self._executor.full if now else len(self._early[epoch]) >= self._executor.bound:
            self._left_out += 1
            return
        take = self._executor.put if now else self._early[epoch].append
        take(partial(self._batch, window.milestones - 1, window.means()))

    def _epoch_finished(self, epoch: int) -> None:
        logs = self._windows.pop(epoch, Window()).means()
        self._executor.put(partial(self._epoch_end, epoch, logs))
        self._epoch = epoch + 1
        if self._epoch in self._context.epochs:
            self._executor.put(partial(self._epoch_begin, self._epoch))
        for call in self._early.pop(self._epoch, ()):
            self._executor.put(call)

    # -- on the thread ----------------------------------------------------------------

    def _train_begin(self) -> None:
        hooks, epochs = self._hooks, self._context.epochs
        with self._context.model.present():
            hooks.stopping = False
            self._active = list(hooks.callbacks)
            self._rate = hooks.learning_rate
            params = {"epochs": epochs.stop, "steps": None, "verbose": 0, "run": self._context.run}
            self._each("set_model", lambda callback: hooks.begin(callback, **params))
            self._call("on_train_begin", {})
            self._call("on_epoch_begin", epochs.start, {})

    def _epoch_begin(self, epoch: int) -> None:
        if not self._stopped:
            with self._context.model.held():
                self._call("on_epoch_begin", epoch, {})

    def _batch(self, number: int, logs: dict[str, float]) -> None:
        if not self._stopped:
            with self._recent():
                self._call("on_train_batch_begin", number, {})
                self._call("on_train_batch_end", number, logs)

    def _epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        if self._stopped:
            return
        # What is evaluated is what the callbacks find in the model.
        with self._context.model.present():
            logs |= {f"val_{name}": value for name, value in self._evaluate(epoch).items()}
            self._logs = logs
            self._call("on_epoch_end", epoch, logs)

    def _evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return loss and metrics of the validation data, if there are any."""
        if self._evaluation is None:
            return {}
        failed = self._evaluation.failed
        values = self._evaluation(epoch)
        if self._evaluation.failed and not failed:
            for callback in self._active:
                monitor = str(getattr(callback, "monitor", ""))
                if monitor.startswith(VALIDATION):
                    self._note(
                        f"{type(callback).__name__} follows {monitor!r}, which no longer "
                        "comes: it can neither stop nor change this run."
                    )
        return values or {}

    def _train_end(self) -> None:
        with self._context.model.adopting():
            self._call("on_train_end", dict(self._logs))

    @contextmanager
    def _recent(self) -> Iterator[None]:
        """Hold the model, its parameters renewed if that is not too much work."""
        began = time.perf_counter()
        if began < self._refresh_at:
            with self._context.model.held():
                yield
            return
        with self._context.model.present():
            now = time.perf_counter()
            self._refresh_at = now + (now - began) / REFRESH_SHARE
            yield

    def _call(self, hook: str, *values: Any) -> None:
        """Call a hook of every callback, and let the run do what they have asked for."""
        self._take_rate()
        self._each(hook, lambda callback: self._hooks.call(callback, hook, *values))
        self._pass_on()

    def _each(self, hook: str, call: Callable[[Any], object]) -> None:
        for callback in tuple(self._active):
            try:
                call(callback)
            except Exception as error:
                self._active.remove(callback)
                self._failed(type(callback).__name__, hook, error)

    def _failed(self, name: str, hook: str, error: Exception) -> None:
        message = summary(error)
        text = f"{name}.{hook} raised {message}"
        self._note(f"{text}. The callback is no longer called.", error)
        with suppress(SessionClosed):
            self._context.publish(CallbackFailed(time.time(), name, hook, message))
        if self._on_error == "raise":
            failure = CallbackError(f"{text}. The run was started with on_callback_error='raise'.")
            failure.__cause__ = error
            self._context.fail(failure)

    def _take_rate(self) -> None:
        """Show callbacks a learning rate that they have not set."""
        given = self._context.run.settings.learning_rate
        if self._rate is not None and given is not None and given != self._rate:
            self._hooks.learning_rate = given
            self._rate = self._hooks.learning_rate

    def _pass_on(self) -> None:
        run, rate = self._context.run, self._hooks.learning_rate
        # The run may have ended by itself.
        with suppress(InvalidTransition), commands_from(CALLBACKS):
            if rate is not None and rate != self._rate:
                self._rate = rate
                try:
                    run.set(learning_rate=rate)
                except ConfigError as error:
                    self._note(f"A callback set a learning rate that cannot be: {error}")
            if self._hooks.stopping and not self._stopped:
                self._stopped = True
                run.stop(reason="a callback set model.stop_training")
