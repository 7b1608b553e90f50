"""`Run`: one training, from the caller's side."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .cluster.jobs import cancel, job_error, run_job
from .combiners import as_combiner
from .config import at_least_one, positive
from .control import Command, RunEvent, RunState
from .data.blocks import Columns
from .data.partitioners import Partitioner, RandomPartitioner
from .data.source import DataSource
from .errors import InvalidTransition, TosError, WaitTimeout
from .events import CommandApplied, CommandLapsed, Repartitioned, RunFinished, RunStarted
from .telemetry.bus import EventBus, Sink
from .telemetry.history import History
from .training import Training
from .validation import Validator

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from .program.base import Program
    from .worker.task import Task

logger = logging.getLogger(__name__)

Sinks = Sequence[Sink]

ONWARD = (RunState.STARTING, RunState.RUNNING, RunState.PAUSED)
"""States in which another epoch may begin."""

EVALUATION = 600.0
"""Seconds that the end of a run waits for an evaluation of its model under way."""

FLUSH = 10.0
"""Seconds for the sinks to take what was published."""

STOP_GRACE = 1.0
"""Seconds in which workers may end their milestone before the Spark job is cancelled."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run was asked to do.

    Parameters
    ----------
    epochs : int
    repartition_every : int or None
        Epochs between two random repartitions of the data; None for never.
    seed : int
    slots : int
        Tasks that Spark runs at once.
    """

    epochs: int
    repartition_every: int | None
    seed: int
    slots: int


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run at one moment. `epoch` counts from 1; before any push the loss is NaN, a rate 0."""

    run: str
    state: str
    epoch: int
    epochs: int
    milestones: int
    samples: int
    samples_per_second: float
    loss: float
    staleness: float
    elapsed: float


class Run:
    """One training. Made by `TrainingSession.start`; every method may be called at any time.

    Attributes
    ----------
    run_id : str
    number : int
        Counts the runs of this process from 1.
    """

    def __init__(
        self,
        number: int,
        sc: Any,
        program: Program,
        training: Training,
        task: Task,
        source: DataSource,
        plan: RunPlan,
        bus: EventBus,
        history: History,
        on_end: Callable[[], None],
    ) -> None:
        self.number = number
        self.run_id = training.run_id
        self._sc = sc
        self._program = program
        self._training = training
        self._task = task
        self._source = source
        self._plan = plan
        self._bus = bus
        self._history = history
        self._on_end = on_end
        self._relayout: tuple[int, Partitioner] | None = None
        self._validator: Validator | None = None
        # The user's model or session holds one set of parameters at a time.
        self._model = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._drive, name=f"tos-{self.run_id}", daemon=True)

    def _begin(self, validation: Callable[[], Columns] | None = None) -> Run:
        if validation is not None:
            self._validator = Validator(
                validation, lambda rows: self.evaluate(*rows), self._bus.publish
            )
            self._bus.add(self._validator)
        self._bus.publish(
            RunStarted(
                time.time(),
                self.run_id,
                self._plan.epochs,
                self._source.partitions,
                self._source.samples,
            )
        )
        self._thread.start()
        return self

    # -- looking ----------------------------------------------------------------------

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Who hears of its events."""
        return self._bus.sinks

    @property
    def state(self) -> str:
        """One of starting, running, paused, stopping, finished, stopped, failed."""
        return str(self._training.machine.state)

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return not self._done.is_set()

    @property
    def status(self) -> RunStatus:
        """State and totals, now."""
        totals = self._history.totals()
        return RunStatus(
            self.run_id,
            self.state,
            min(totals.epoch + 1, self._plan.epochs),
            self._plan.epochs,
            totals.milestones,
            totals.samples,
            totals.samples_per_second,
            totals.loss,
            totals.staleness_mean,
            totals.elapsed,
        )

    @property
    def history(self) -> pd.DataFrame:
        """Every milestone so far; see `tos_notebook.telemetry.history.History.frame`."""
        return self._history.frame()

    @property
    def validation(self) -> pd.DataFrame:
        """Every evaluation so far; see `tos_notebook.telemetry.history.History.validation`."""
        return self._history.validation()

    @property
    def settings(self) -> dict[str, Any]:
        """What is in force; a learning rate of None is that of the captured program."""
        names = ("sync_interval", "learning_rate", "combiner")
        settings = self._training.settings
        return {name: settings[name] for name in names} | {"batch_size": self._task.plan.batch_size}

    @property
    def program(self) -> Program:
        """What is trained."""
        return self._program

    @property
    def master(self) -> str:
        """Spark's master."""
        return str(self._sc.master)

    @property
    def has_learning_rate(self) -> bool:
        """Whether the learning rate can be set while training."""
        return self._program.has_learning_rate

    @property
    def workers(self) -> pd.DataFrame:
        """Every worker so far; see `tos_notebook.telemetry.history.History.workers`."""
        return self._history.workers()

    def figure(self) -> go.Figure:
        """Return loss and staleness over samples as a plotly figure."""
        from .telemetry.figure import figure

        return figure(self._history)

    def report(self, path: str | Path) -> Path:
        """Write figure, settings and workers as one HTML page that needs no network.

        Parameters
        ----------
        path : str or Path
            The file to write.
        """
        from .telemetry.report import write_report

        status = self.status
        facts = {
            "State": status.state,
            "Epochs": f"{status.epoch} of {status.epochs}",
            "Combiner": repr(self._training.settings["combiner"]),
            "Exchange every": f"{self._training.settings['sync_interval']} batches",
            "Batch size": str(self._task.plan.batch_size),
            "Program": self._program.summary,
            "Master": self.master,
        }
        return write_report(path, self._history, f"Run {self.run_id}", facts)

    def parameters(self) -> dict[str, npt.NDArray[Any]]:
        """Return a copy of the center parameters, by name."""
        buffer, _ = self._training.store.read()
        return self._program.layout.tensors(buffer)

    def evaluate(self, *columns: npt.ArrayLike, batch_size: int = 1000) -> Mapping[str, float]:
        """Return loss and metrics over other rows, with the present parameters.

        They are written into the user's model or session first.

        Parameters
        ----------
        *columns : array_like, one for each feed, shape (rows, ...)
        batch_size : int
        """
        at_least_one("batch_size", batch_size)
        with self._model:
            self._program.write(self._training.store.read()[0])
            return self._program.evaluate([np.asarray(c) for c in columns], batch_size)

    def wait(self, timeout: float | None = None) -> Run:
        """Wait for the end.

        Parameters
        ----------
        timeout : float, optional
            Seconds; for ever by default.

        Raises
        ------
        WaitTimeout
            The run is still active; it goes on.
        TosError
            What ended the run, if it failed: a `WorkerError` where the program or the data
            raised.
        """
        if not self._done.wait(timeout):
            raise WaitTimeout(
                f"Run {self.run_id} is still {self.state} after {timeout} s and goes on. Wait "
                "longer, or stop() it."
            )
        if self._training.error is not None:
            raise self._training.error
        return self

    # -- steering ---------------------------------------------------------------------

    def pause(self) -> None:
        """Let every worker wait at its next milestone."""
        self._training.command(Command.PAUSE, "at each worker's next milestone")

    def resume(self) -> None:
        """Go on after a pause."""
        self._training.command(Command.RESUME, "at once")

    def stop(self, timeout: float = 30.0) -> Run:
        """Stop now and keep the weights; return when the run has ended.

        Parameters
        ----------
        timeout : float
            Seconds.

        Raises
        ------
        InvalidTransition
            The run has ended before.
        WaitTimeout
            Spark did not end the job in time.
        """
        self._training.command(Command.STOP, "at each worker's next milestone")
        if not self._done.wait(STOP_GRACE):
            cancel(self._sc, self.run_id)
        if not self._done.wait(timeout):
            raise WaitTimeout(f"Run {self.run_id} did not end within {timeout} s of stop().")
        return self

    def repartition(self, partitions: int, partitioner: Partitioner | None = None) -> None:
        """Lay the data out anew when the present epoch is done.

        Parameters
        ----------
        partitions : int
            At least 1.
        partitioner : Partitioner, optional
            Random by default.
        """
        at_least_one("partitions", partitions)
        chosen = partitioner or RandomPartitioner(partitions, self._plan.seed)
        before = self._relayout
        # Set first: the epoch may end as soon as the workers know.
        self._relayout = (partitions, chosen)
        try:
            self._training.end_leg_early(f"{partitions} partitions, at the end of the epoch")
        except InvalidTransition:
            self._relayout = before
            raise

    def swap_combiner(self, combiner: Any) -> None:
        """Merge by another rule, from each worker's next milestone on.

        Parameters
        ----------
        combiner : str, Combiner, class, or function
        """
        chosen = as_combiner(combiner)
        self._training.change_settings(Command.SWAP_COMBINER, repr(chosen), combiner=chosen)

    def set(self, *, learning_rate: float | None = None, sync_interval: int | None = None) -> None:
        """Change settings, from each worker's next milestone on.

        Parameters
        ----------
        learning_rate : float, optional
            Where the program has it as a variable.
        sync_interval : int, optional
            Batches between two exchanges.
        """
        changes: dict[str, Any] = {}
        if learning_rate is not None:
            changes["learning_rate"] = self._checked_rate(learning_rate)
        if sync_interval is not None:
            changes["sync_interval"] = at_least_one("sync_interval", sync_interval)
        if changes:
            detail = ", ".join(f"{name}={value}" for name, value in changes.items())
            self._training.change_settings(Command.SET, detail, **changes)

    def _checked_rate(self, value: float) -> float:
        if not self._program.has_learning_rate:
            raise InvalidTransition(
                self.state,
                "set learning_rate",
                "the program's learning rate is no variable. Compile a Keras model with a number "
                "instead of a schedule; for a graph, make it a tf.Variable and capture it with "
                "learning_rate=.",
            )
        return positive("learning_rate", value)

    # -- the run's own thread ---------------------------------------------------------

    def _drive(self) -> None:
        try:
            self._train()
        except Exception as error:
            self._explain(error)
        finally:
            self._end()

    def _train(self) -> None:
        epoch = 0
        while epoch < self._plan.epochs and self.state in ONWARD:
            leg = self._training.begin_leg(self._source, epoch, self._last_epoch(epoch))
            description = f"{self.run_id}: epochs from {epoch + 1} of {self._plan.epochs}"
            run_job(self._sc, self._source.tasks(self._sc), self._task, self.run_id, description)
            epoch = leg.last_epoch + 1
            if epoch < self._plan.epochs and self.state in ONWARD:
                self._lay_out(epoch)

    def _last_epoch(self, first: int) -> int:
        """Return the last epoch that one Spark job can train from `first` on."""
        if self._source.partitions > self._plan.slots:
            # Spark runs them in turns: one job for all epochs would train one partition to
            # the end before it begins with the next.
            return first
        every = self._plan.repartition_every
        last = self._plan.epochs - 1
        return last if every is None else min(last, (first // every + 1) * every - 1)

    def _lay_out(self, epoch: int) -> None:
        """Repartition before an epoch, if that was asked for."""
        asked, self._relayout = self._relayout, None
        every = self._plan.repartition_every
        if asked is None and every is not None and epoch % every == 0:
            count = self._source.partitions
            asked = count, RandomPartitioner(count, self._plan.seed)
        if asked is None:
            return
        began = time.perf_counter()
        old, self._source = self._source, self._source.repartition(*asked, epoch)
        old.close()
        took = time.perf_counter() - began
        self._bus.publish(Repartitioned(time.time(), epoch, asked[0], took))
        self._bus.publish(
            CommandApplied(time.time(), Command.REPARTITION, f"{asked[0]} partitions")
        )

    def _explain(self, error: Exception) -> None:
        """Record why the run failed, unless its own stop ended the job."""
        if self.state == "stopping":
            return
        failures = self._training.failures
        known = error if isinstance(error, TosError) else job_error(error)
        self._training.fail(failures[-1] if failures else known)

    def _end(self) -> None:
        steps = (
            self._keep,
            self._end_validation,
            self._report_lapsed,
            self._report_end,
            self._on_end,
            self._close_bus,
        )
        for step in steps:
            try:
                step()
            except Exception as error:
                self._training.fail(error if isinstance(error, TosError) else TosError(str(error)))
        # Whatever went wrong above, wait() raises it and does not hang.
        self._done.set()

    def _keep(self) -> None:
        self._training.settle()
        self._source.close()
        if not self._model.acquire(timeout=EVALUATION):
            raise WaitTimeout(
                f"The model was still being evaluated {EVALUATION:g} s after the run's end, so it "
                "does not hold the trained weights. run.parameters() returns them."
            )
        try:
            # Nobody pushes any more, so the center needs no copy.
            self._program.write(self._training.store.center)
        finally:
            self._model.release()

    def _end_validation(self) -> None:
        if self._validator is None:
            return
        # So that the last epoch's end has reached the validator.
        try:
            self._bus.flush(FLUSH)
            self._validator.finish(last=self.state in ONWARD)
        except WaitTimeout as error:
            # The training itself is over and its weights are kept.
            logger.warning("Run %s: %s", self.run_id, error)

    def _report_lapsed(self) -> None:
        if self._relayout is not None:
            detail = f"{self._relayout[0]} partitions: no epoch followed"
            self._bus.publish(CommandLapsed(time.time(), Command.REPARTITION, detail))

    def _report_end(self) -> None:
        training = self._training
        if training.machine.active:
            training.report(RunEvent.ENDED)
        message = None if training.error is None else str(training.error)
        self._bus.publish(RunFinished(time.time(), self.state, message))

    def _close_bus(self) -> None:
        try:
            self._bus.close()
        except WaitTimeout as error:
            # The training is over and its weights are kept; only a sink is behind.
            logger.warning("Run %s: %s", self.run_id, error)

    def __repr__(self) -> str:
        return f"<Run {self.run_id}: {self.state}>"
