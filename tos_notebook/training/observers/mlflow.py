"""A run in MLflow: settings, curves, and what it leaves, logged while it trains."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...common import temporary
from ...common.checks import one_of
from ...errors import WaitTimeout
from ...events import (
    EpochFinished,
    Event,
    MilestoneCommitted,
    RunResumed,
    RunStarted,
    StrategySwapped,
    Validated,
)
from ...program.export.base import Program
from ...readable import few_digits, free_name
from ...telemetry.mlflow import MLflow, MLflowLog, active_run, require_mlflow
from ...telemetry.window import Window
from ..options.observers import as_mlflow
from ..results.card import versions
from ..results.report import known_rate, own_rate
from ..results.save import ENDINGS
from ..results.view import RunView
from .base import Maker, RunContext
from .best_effort import BestEffort

logger = logging.getLogger(__name__)

PERIOD = 2.0
"""Seconds between two points of a curve, each a request; an epoch's end makes one, too."""

BOUND = 100
"""Points that may wait for a slow tracking server; more are left out."""

_OWN = ("staleness", "samples_per_second", "epoch", "learning_rate")
"""Curves that are not metrics of the program."""

LOGGING_TIMEOUT = 60.0
"""Seconds that the end of a run waits for what is still to be logged."""


class MLflowLogger(BestEffort):
    """Logs on a thread of its own; samples trained are the steps.

    Parameters
    ----------
    context : RunContext
    wanted : MLflow
    log : MLflowLog
    timeout : float
        Seconds that the end of a run waits for what is still to be logged.
    """

    def __init__(
        self,
        context: RunContext,
        wanted: MLflow,
        log: MLflowLog,
        timeout: float = LOGGING_TIMEOUT,
    ) -> None:
        super().__init__("tos-mlflow", BOUND, "MLflow no longer hears of this run")
        self._context = context
        self._wanted = wanted
        self._timeout = timeout
        self._samples = context.samples
        self._epochs_done = context.epochs.start
        self._window = Window(time.time())
        self._lockstep = False
        self._log = log

    @property
    def run_id(self) -> str | None:
        """That of the MLflow run; None until it has begun."""
        return self._log.run_id

    def __call__(self, event: Event) -> None:
        """Have logged what an event says."""
        if isinstance(event, MilestoneCommitted):
            self._samples += event.samples
            means = _means(event, not self._lockstep)
            self._window.add(event.samples, means, ["samples_per_second"])
            if event.time >= self._window.began + PERIOD:
                self._point(event.time)
        elif isinstance(event, RunStarted | RunResumed):
            self._window, self._lockstep = Window(event.time), event.lockstep
            self._offer(partial(self._start, event))
        elif isinstance(event, StrategySwapped):
            self._lockstep = event.lockstep
        elif isinstance(event, EpochFinished):
            self._epochs_done = event.epoch + 1
            self._point(event.time)
        elif isinstance(event, Validated):
            values = {f"val_{name}": value for name, value in event.values.items()}
            self._offer(partial(self._log.metrics, event.time, event.samples, values))

    def finish(self, last: bool) -> None:
        """Log what is left and end the MLflow run; see `Observer.finish`."""
        self._point(time.time())
        if self._left_out:
            logger.warning("MLflow was too slow: %d points were left out.", self._left_out)
        self._executor.put(self._close)
        try:
            self._executor.end(self._timeout)
        except WaitTimeout:
            self._note(f"MLflow has not answered within {self._timeout:g} s of the run's end.")
            raise

    def _point(self, now: float) -> None:
        values = self._window.values(now)
        self._window = Window(now)
        if not values:
            return
        values["epoch"] = float(self._epochs_done)
        rate = self._context.run.settings.learning_rate
        if rate is not None:
            values["learning_rate"] = rate
        self._offer(partial(self._log.metrics, now, self._samples, values))

    # -- on the thread ----------------------------------------------------------------

    def _start(self, event: RunStarted | RunResumed) -> None:
        run, wanted = self._context.run, self._wanted
        self._log.begin(wanted.experiment, wanted.run_name or run.name or run.run_id)
        self._log.tags({"tos.run_id": run.run_id, **wanted.tags})
        try:
            self._log.params(_params(run, event))
        except Exception as error:
            # Another training has logged its own into the same run: values cannot be changed.
            self._note(f"MLflow has not taken the run's parameters: {error}")

    def _close(self) -> None:
        failed = self._context.run.state == "failed"
        self._attempt(partial(self._leave, failed))
        try:
            # Even if later events were not logged: the run is over.
            self._log.end("FAILED" if failed else "FINISHED")
        except Exception as error:
            if not self._failed:
                self._note(f"MLflow was not told of the run's end: {error}", error, code=False)

    def _leave(self, failed: bool) -> None:
        """Log what there is at the end."""
        run = self._context.run
        outcome = "failed" if failed else "stopped" if run.state == "stopping" else "finished"
        reason = run.status.reason
        self._log.tags(
            {"tos.outcome": outcome} | ({} if reason is None else {"tos.reason": reason})
        )
        with temporary.directory("tos-mlflow-") as name:
            folder = Path(name)
            run.model_card(folder / "model_card.md")
            if self._wanted.model is not None:
                endings = {format: ending for ending, format in ENDINGS.items()}
                target = folder / "model" / f"model{endings.get(self._wanted.model, '')}"
                target.parent.mkdir()
                run.save(target, self._wanted.model)
            self._log.artifacts(folder)


def _means(event: MilestoneCommitted, stale: bool) -> dict[str, float]:
    """Return what is averaged over milestones, by the names of curves; `stale`: staleness, too."""
    taken = {*_OWN, *event.metrics}
    metrics = {
        free_name(name, taken) if name in _OWN or name.startswith("val_") else name: value
        for name, value in event.metrics.items()
    }
    known = event.staleness if stale else None
    staleness = {} if known is None else {"staleness": float(known)}
    return {"loss": event.loss, **metrics, **staleness}


def _params(run: RunView, event: RunStarted | RunResumed) -> Mapping[str, object]:
    settings = run.settings.by_name
    del settings["chaos"]
    if settings["learning_rate"] is None:
        rate = known_rate(run)
        settings["learning_rate"] = own_rate(run.settings) if rate is None else few_digits(rate)
    data = {"epochs": event.epochs, "partitions": event.partitions, "rows": event.samples}
    program = {"program": run.program.summary, "master": run.master}
    return settings | data | program | {f"version.{n}": version for n, version in versions()}


def tracking(given: Any, program: Program) -> Maker:
    """Return what makes a run's `MLflowLogger`, in the MLflow run active on this thread.

    Parameters
    ----------
    given : True, str or MLflow
        A text is the experiment's name.
    program : Program

    Raises
    ------
    ConfigError
        The package mlflow is not installed, or something else was given.
    """
    wanted = as_mlflow("mlflow", given)
    if isinstance(wanted, bool):
        wanted = MLflow()
    if wanted.model is not None:
        one_of("MLflow(model)", wanted.model, (*program.formats, "numpy"))
    require_mlflow()
    return partial(MLflowLogger, wanted=wanted, log=MLflowLog(active_run()))
