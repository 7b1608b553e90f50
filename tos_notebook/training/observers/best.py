"""Keeps the parameters of the best validation, in memory and beside the run's checkpoints."""

from __future__ import annotations

import math
from dataclasses import replace

from ...errors import ConfigError, TosError
from ...events import Event, Validated
from ...steering.conditions import VALIDATION
from ..checkpoint.folder import BEST
from ..results.best import BestParameters, best_of
from .base import Observer, RunContext


class BestKeeper(Observer):
    """Compares each evaluation with the best before, on the thread that has evaluated.

    Parameters
    ----------
    told : str
        The value, and which is best: ``val_loss:min``.

    Attributes
    ----------
    best : BestParameters or None
        None before the first evaluation.
    """

    _context: RunContext

    def __init__(self, told: str) -> None:
        self._metric, _, which = told.partition(":")
        self._sign = 1 if which == "max" else -1
        self.best: BestParameters | None = None

    def bind(self, context: RunContext) -> BestKeeper:
        """Return itself, as the observer of one run."""
        self._context = context
        context.model.remembers = True
        return self

    def begin(self) -> None:
        """Read what the run has kept before it was resumed."""
        checkpointer = self._context.checkpointer
        if checkpointer is None or BEST not in checkpointer.folder.storage.list():
            return
        uri = f"{checkpointer.folder.storage.uri}/{BEST}"
        try:
            found = best_of(checkpointer.folder.read(BEST), uri, self._context.model)
        except (TypeError, ValueError, LookupError, TosError) as error:
            self._note(f"{uri} cannot be read, and the next evaluation takes its place: {error}")
            return
        if found.metric == self._metric:
            self.best = found

    def __call__(self, event: Event) -> None:
        """See `Observer.__call__`; evaluations call `consider`."""

    def finish(self, last: bool) -> None:
        """See `Observer.finish`; there is no thread."""

    def consider(self, event: Validated) -> None:
        """Keep the parameters that this thread has evaluated, if they are the best."""
        value = event.values.get(self._metric.removeprefix(VALIDATION))
        if value is None:
            known = ", ".join(VALIDATION + name for name in event.values)
            text = f"keep_best: expected one of {known}; got {self._metric!r}."
            self._context.fail(ConfigError(text))
            return
        better = self.best is None or self._sign * value > self._sign * self.best.value
        if not (math.isfinite(value) and better):
            return
        model = self._context.model
        best = BestParameters(
            self._metric,
            value,
            event.epoch + 1,
            event.samples,
            _layout=model.program.layout,
            _buffer=model.presented,
            _model=model,
        )
        self.best = best
        checkpointer = self._context.checkpointer
        if checkpointer is None:
            return
        try:
            uri = checkpointer.write_best(*best.to_parts())
        except Exception as error:
            self._note(f"The best parameters are in run.best, and were not written: {error}", error)
            return
        self.best = replace(best, uri=uri)
