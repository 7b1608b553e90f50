"""`Run`: one training, from the caller's side."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..blocks.partitioners import AnyPartitioner
from ..blocks.skips import Skipped
from ..blocks.source import DataSource
from ..chaos.fit import Place
from ..chaos.rules import Rule, describe
from ..cluster.executors import task_attempts, where_to_look
from ..cluster.jobs import cancel, cancellation, job_error, kill_task
from ..codecs import Codec
from ..codecs.pair import CodecPair, as_codecs
from ..combiners import as_combiner
from ..common.checks import at_least_one, positive
from ..coordination.coordinator import Coordinator
from ..coordination.snapshots import BEGINNING, RunPosition
from ..coordination.standstill import Standstill
from ..coordination.watchdog import Facts, Watchdog, held
from ..data.dealing import release
from ..errors import InvalidTransition, TosError, WaitTimeout
from ..events import Event, RunFinished, RunResumed, RunStarted, Stalled
from ..steering.machine import Command, RunEvent
from ..steering.status import Goal, Progress, RunStatus
from ..steering.sync import SyncMode, as_sync
from ..strategies.ps.settings import settings_in
from ..telemetry.bus import EventBus, Sink
from ..telemetry.history import History
from .checkpoint.contents import Checkpoint, require_known, require_saveable
from .checkpoint.writer import CheckpointWriter, Subject
from .epochs import Legs, RunPlan
from .observers.base import Maker, Observer, RunContext
from .outputs import Outputs
from .results.held_model import HeldModel

if TYPE_CHECKING:
    import pandas as pd

    from ..program.export.base import Program
    from ..worker.task import Task

logger = logging.getLogger(__name__)

Sinks = Sequence[Sink]

EVALUATION = 600.0
"""Seconds that the end of a run waits for an evaluation of its model under way."""

FLUSH = 10.0
"""Seconds for the sinks to take what was published."""

SINKS = 10.0
"""Seconds that the end of a run waits for the users' sinks."""

STOP_GRACE = 1.0
"""Seconds in which workers may end their milestone before the Spark job is cancelled."""

LOOK = 0.02
"""Seconds between two looks at what a caller waits for."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """From where a run goes on.

    Parameters
    ----------
    number : int
        The checkpoint's.
    checkpoint : Checkpoint
    past : sequence of Event
        What happened until then.
    notes : tuple of str
        What the user is to know of the checkpoint.
    """

    number: int
    checkpoint: Checkpoint
    past: Sequence[Event]
    notes: tuple[str, ...] = ()


class Run(Outputs):
    """One training. Made by `TrainingSession.start`; every method may be called at any time.

    Attributes
    ----------
    run_id : str
    number : int
        Counts the runs of this process from 1.
    chaos_log : tuple of Rule
        All that `chaos` ever put into force: what the run did was not its own doing alone.
    """

    def __init__(
        self,
        number: int,
        sc: Any,
        program: Program,
        training: Coordinator,
        task: Task,
        source: DataSource,
        plan: RunPlan,
        bus: EventBus,
        history: History,
        on_end: Callable[[], None],
        reached: RunPosition = BEGINNING,
        keeper: CheckpointWriter | None = None,
        resumed: Resumed | None = None,
        others: Callable[[], Sequence[Run]] = tuple,
    ) -> None:
        self.number = number
        self.run_id = training.run_id if resumed is None else resumed.checkpoint.origin.run_id
        self.chaos_log: tuple[Rule, ...] = ()
        self._sc = sc
        self._program = program
        self._training = training
        self._task = task
        self._options, self._slots = plan.options, plan.slots
        asked = None if resumed is None else resumed.checkpoint.asked
        self._legs = Legs(sc, training, task, source, plan, bus.publish, reached, asked)
        self._keeper = keeper
        self._resumed = resumed
        self._standstill = Standstill(
            plan.options.stall_timeout, training.supersede, partial(kill_task, sc), training.fail
        )
        self._watchdog = Watchdog(
            self._facts,
            partial(where_to_look, sc),
            bus.publish,
            plan.options.patience,
            act=self._standstill.check,
        )
        self._bus = bus
        self._history = history
        self._on_end = on_end
        self._others = others
        self._given = bus.sinks
        self._model = HeldModel(program, training.parameters)
        self._observers: list[Observer] = []
        self._reason: str | None = None
        self._told: tuple[str, ...] = () if resumed is None else resumed.notes
        self._done = threading.Event()
        self._made = time.time()
        self._thread = threading.Thread(target=self._drive, name=f"tos-{self.run_id}", daemon=True)

    def _begin(self, makers: Iterable[Maker] = ()) -> Run:
        if self._resumed is not None:
            self._tell_past(self._resumed.past)
        for make in makers:
            self._observers.append(make(self._context()))
            self._bus.add(self._observers[-1])
        epochs, source = self._options.epochs, self._legs.source
        size = epochs, source.partitions, source.samples
        if self._resumed is None:
            self._bus.publish(RunStarted(time.time(), self.run_id, *size))
        else:
            self._bus.publish(RunResumed(time.time(), self._resumed.number, *size))
        self._thread.start()
        self._watchdog.start()
        if self._keeper is not None:
            self._keeper.begin(self._subject())
        return self

    def _context(self) -> RunContext:
        totals = self._history.totals()
        return RunContext(
            self,
            self._model,
            self._training.parameters,
            self._bus.publish,
            self._training.fail,
            range(self._legs.first_epoch, self._options.epochs),
            totals.samples,
            totals.steps,
        )

    @property
    def slots(self) -> int:
        """Tasks that Spark runs at once, as of the run's start."""
        return self._slots

    @property
    def workers_now(self) -> int:
        """Return how many workers train."""
        return len(self._training.facts(self._legs.phase.now, self._slots).members)

    def _facts(self) -> Facts:
        found = self._training.facts(self._legs.phase.now, self._slots)
        if self._keeper is not None:
            found = replace(found, saving=self._keeper.saving)
        if found.members:
            return found
        others = [(run.number, run.workers_now) for run in self._others() if run is not self]
        return replace(found, held=held(dict(others), self._slots, self.master))

    def trains_on(self, sc: Any) -> bool:
        """Whether `sc` is the Spark context that runs its jobs."""
        return self._sc is sc

    def _tell_past(self, past: Iterable[Event]) -> None:
        """Let whoever looks at the run know what it did before; the user's own sinks do."""
        watching: list[Sink] = [sink for sink in self.sinks if sink not in self._given]
        for event in past:
            self._history(event)
            for sink in watching:
                sink(event)

    def _totals(self) -> dict[str, Any]:
        totals = self._history.totals()
        return {
            "epoch": min(totals.epoch + 1, self._options.epochs),
            "epochs": self._options.epochs,
            "samples": totals.samples,
            "loss": totals.loss,
            "elapsed": totals.elapsed,
        }

    def _subject(self) -> Subject:
        return Subject(
            self._training.snapshot,
            lambda: self._legs.asked,
            self._totals,
            self._bus.publish,
            self._bus.flush,
            lambda: self._training.proven,
        )

    # -- looking ----------------------------------------------------------------------

    @property
    def uri(self) -> str | None:
        """Where its checkpoints are, for `tos_notebook.resume`; None if it has none."""
        return None if self._keeper is None else self._keeper.folder.storage.uri

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Who hears of its events."""
        return self._bus.sinks

    def add_sink(self, sink: Sink) -> None:
        """Let one more hear of its events, from the next one on; see ``sinks`` of `start`."""
        self._bus.add(sink, apart=True)

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
        totals, validated = self._history.totals(), self._history.validated
        # A run that is paused or stalled tells nothing. What a resumed run has of its past ended
        # before this process began it.
        quiet = max(0.0, time.time() - max(totals.latest, self._made)) if self.active else 0.0
        return RunStatus(
            self.run_id,
            self.state,
            min(totals.epoch + 1, self._options.epochs),
            self._options.epochs,
            totals.milestones,
            totals.samples,
            totals.samples_per_second,
            totals.loss,
            totals.staleness_mean,
            totals.elapsed + quiet,
            tuple(f"{stall.message} {stall.look}" for stall in self.stalls),
            self._notes(),
            sum(skipped.rows for skipped in self.skipped),
            totals.steps,
            totals.metrics,
            validated[-1].values if validated else {},
            len(validated),
            self._reason,
            None if self._keeper is None else self._keeper.status,
        )

    def _notes(self) -> tuple[str, ...]:
        observers = [note for observer in self._observers for note in observer.notes]
        disabled = map(str, self._bus.disabled)
        training = *self._legs.notes, *self._standstill.notes, *self._training.notes
        torn = self._torn()
        return *training, *observers, *disabled, *self._unsaved(), *torn, *self._told

    def _unsaved(self) -> tuple[str, ...]:
        """Say what is missing of its checkpoints."""
        saved = None if self._keeper is None else self._keeper.status
        missing = str(saved) if saved is not None and saved.error else ""
        return (missing,) if missing else ()

    @property
    def stalls(self) -> tuple[Stalled, ...]:
        """What it waits for now, for longer than its patience; see `status`."""
        return self._watchdog.stalls

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What ``on_bad="skip"`` has left out of the data, by partition and column."""
        return self._legs.source.skipped

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
        settings = self._training.settings
        server = settings_in(settings)
        return {
            "sync": str(settings.sync),
            "sync_interval": settings.sync_interval,
            "codec": str(server.codec),
            "learning_rate": settings.learning_rate,
            "combiner": server.combiner,
            "batch_size": self._task.plan.batch_size,
            "chaos": self._training.chaos,
        }

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

    @property
    def theory(self) -> pd.DataFrame:
        """Predictions beside measurements; see `tos_notebook.telemetry.history.History.theory`.

        For the stable curvature the learning rate must have been set while training: what the
        program itself has is not known here.
        """
        return self._history.theory(self.settings["learning_rate"])

    def report(self, path: str | Path) -> Path:
        """Write figure, settings and workers as one HTML page that needs no network.

        Parameters
        ----------
        path : str or Path
            The file to write.
        """
        from ..telemetry.report import write_report

        status, settings = self.status, self.settings
        facts = {
            "State": status.state,
            "Epochs": f"{status.epoch} of {status.epochs}",
            "Combiner": repr(settings["combiner"]),
            "Exchange every": f"{settings['sync_interval']} batches",
            "Sync mode": settings["sync"],
            "Codec": settings["codec"],
            "Batch size": str(self._task.plan.batch_size),
            "Optimizer state": self._task.plan.optimizer_state,
            "Program": self._program.summary,
            "Master": self.master,
        }
        if self.chaos_log:
            facts["Chaos"] = describe(self.chaos_log)
        return write_report(path, self._history, f"Run {self.run_id}", facts)

    def model_card(self, path: str | os.PathLike[str]) -> str:
        """Write what somebody who gets the model should know, as Markdown.

        Data, parameters, settings, versions, and the loss of each epoch.

        Parameters
        ----------
        path : str or path-like
            The file to write: a local path or a Hadoop URI.

        Returns
        -------
        str
            The URI, or the absolute path.
        """
        from .results.card import write_card

        return write_card(self._sc, self, self._legs.source, path)

    def wait(self, timeout: float | None = None) -> Run:
        """Wait for the end.

        It warns (`RuntimeWarning`) if the run's last checkpoint could not be written.

        Parameters
        ----------
        timeout : float, optional
            Seconds; for ever by default.

        Raises
        ------
        WaitTimeout
            The run is still active; it goes on.
        TosError
            What ended the run, if it failed: a `WorkerError` where the program raised, a
            `DataError` where rows cannot be trained on.
        """
        if not self._done.wait(timeout):
            raise WaitTimeout(
                f"Run {self.run_id} is still {self.state} after {timeout} s and continues. Wait "
                "longer, or stop() it."
            )
        for missing in self._unsaved():
            warnings.warn(f"Run {self.run_id}: {missing}", RuntimeWarning, stacklevel=2)
        if self._training.error is not None:
            raise self._training.error
        return self

    def wait_for(
        self,
        *,
        milestones: int | None = None,
        epochs: int | None = None,
        workers: int | None = None,
        each: bool = False,
        timeout: float = 60.0,
    ) -> None:
        """Wait until so much more is trained or so many workers have come, or the run has ended.

        Parameters
        ----------
        milestones, epochs, workers : int, optional
            One of the three, at least 1. Milestones and epochs count from now on, and an epoch
            once any worker is in the next one; workers are those that have begun their partition.
        each : bool
            Whether each partition is to have so many milestones, and not all together.
        timeout : float
            Seconds.

        Raises
        ------
        ConfigError
            Not one of the three was given, or a number out of range.
        WaitTimeout
            It has not come by then; the run goes on.
        TosError
            What ended the run, if it failed.
        """
        wanted = {"milestones": milestones, "epochs": epochs, "workers": workers}
        goal = Goal(wanted, each, self._progress())
        end = time.monotonic() + positive("timeout", timeout)
        while not goal.reached(self._progress()):
            if self._done.wait(LOOK):
                self.wait()
                return
            if time.monotonic() > end:
                raise WaitTimeout(
                    f"Run {self.run_id} is {self.state}, and {goal} did not come within "
                    f"{timeout:g} s. It continues: resume() it if it is paused, wait longer, or "
                    "stop() it."
                )

    def _progress(self) -> Progress:
        return self._history.progress(self._legs.source.partitions)

    # -- steering ---------------------------------------------------------------------

    def pause(self) -> None:
        """Let every worker wait at its next milestone."""
        self._training.command(Command.PAUSE)

    def resume(self) -> None:
        """Go on after a pause."""
        self._training.command(Command.RESUME)

    def stop(self, timeout: float = 30.0, *, reason: str | None = None) -> Run:
        """Stop now and keep the weights; return when the run has ended.

        A sink may call it, to stop early: it returns at once there, and the run ends soon. A run
        that has ended stays as it is; one that is stopping already is waited for.

        Parameters
        ----------
        timeout : float
            Seconds.
        reason : str, optional
            Why, for `Run.status`, the view and the event `RunFinished`.

        Raises
        ------
        WaitTimeout
            Spark did not end the job in time.
        """
        # The end of the run waits for its sinks.
        awaited = self._bus.is_current_thread or any(c.is_current_thread for c in self._observers)
        try:
            self._training.command(Command.STOP, reason or "")
        except InvalidTransition:
            # It is over, or about to be.
            if awaited:
                return self
        else:
            self._reason = reason
            if awaited:
                threading.Thread(target=self._end_job, name=f"tos-stop-{self.run_id}").start()
                return self
            self._end_job()
        if not self._done.wait(timeout):
            raise WaitTimeout(f"Run {self.run_id} did not end within {timeout} s of stop().")
        return self

    def _end_job(self) -> None:
        """End the Spark job once the workers have left, or do not hear."""
        left = self._training.wait_left(STOP_GRACE)
        surplus = self._legs.source.partitions > self._slots
        # Tasks that have left return by themselves, and leave warm processes behind; but those
        # that wait for a slot would still be started, one after the other.
        if left and not surplus and self._done.wait(STOP_GRACE):
            return
        if not self._done.is_set():
            cancel(self._sc, self._training.run_id)

    def repartition(self, partitions: int, partitioner: AnyPartitioner | None = None) -> None:
        """Lay the data out anew when the present epoch is done.

        Parameters
        ----------
        partitions : int
            At least 1.
        partitioner : Partitioner or LabelPartitioner, optional
            Such as one of `tos_notebook.partitioners`; random by default.

        Raises
        ------
        ConfigError
            A number out of range, or a partitioner for another number of partitions.
        DataError
            It goes by labels, and the data have none.
        InvalidTransition
            The run is over.
        """
        if self._keeper is not None and partitioner is not None:
            require_known(partitioner)
        self._legs.repartition(partitions, partitioner)

    def swap_combiner(self, combiner: Any) -> None:
        """Merge by another rule, from each worker's next milestone on.

        A new combiner begins with empty state (momentum, buffers), even one that was in use
        before; what the old one had not merged yet is dropped.

        Parameters
        ----------
        combiner : str, Combiner, class, or function

        Raises
        ------
        CombinerError
            It is no combiner.
        CheckpointError
            The run has checkpoints, and what the combiner keeps cannot be saved.
        ConfigError
            It needs another `sync_interval`.
        InvalidTransition
            The run is over.
        """
        chosen = as_combiner(combiner)
        if self._keeper is not None:
            require_saveable(chosen)
        self._training.change_settings(Command.SWAP_COMBINER, repr(chosen), combiner=chosen)

    def set(
        self,
        *,
        learning_rate: float | None = None,
        sync_interval: int | None = None,
        sync: str | SyncMode | None = None,
        codec: str | Codec | CodecPair | None = None,
    ) -> None:
        """Change settings, from each worker's next milestone on.

        Parameters
        ----------
        learning_rate : float, optional
            Where the program has it as a variable.
        sync_interval : int, optional
            Batches between two exchanges.
        sync : str or SyncMode, optional
            ``"asp"``, ``"ssp:3"`` or ``"bsp"``. Milestones are counted anew from here; who waits
            for others need not wait for its next milestone to hear of it.
        codec : str, Codec or CodecPair, optional
            How updates and replies travel. What an earlier one has left out goes along with the
            next update.
        """
        changes: dict[str, Any] = {}
        if learning_rate is not None:
            changes["learning_rate"] = self._checked_rate(learning_rate)
        if sync_interval is not None:
            changes["sync_interval"] = at_least_one("sync_interval", sync_interval)
        if sync is not None:
            changes["sync"] = as_sync(sync)
        if codec is not None:
            changes["codec"] = as_codecs(codec)
        if changes:
            detail = ", ".join(f"{name}={value}" for name, value in changes.items())
            self._training.change_settings(Command.SET, detail, **changes)

    def chaos(self, *rules: Rule) -> None:
        """Let something go wrong on purpose, from each worker's next milestone on.

        It ends with the run at the latest. `tos_notebook.chaos.on` ends it with a block of code.

        Parameters
        ----------
        *rules : Rule
            Such as ``tos.chaos.Slow(5, worker=1)``, instead of all that were in force before; none
            to end it.

        Raises
        ------
        ConfigError
            There is no such worker or executor, or Spark would not try a killed task again.
        InvalidTransition
            The run is over.
        """
        if not rules and not self._training.chaos:
            return
        executors, attempts = self._training.executors(), task_attempts(self._sc)
        Place(self._legs.source.partitions, executors, self.master, attempts).check(rules)
        self._training.change_settings(Command.CHAOS, describe(rules), chaos=rules)
        self.chaos_log += rules

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
            for observer in self._observers:
                observer.begin()
            self._legs.train()
        except Exception as error:
            self._explain(error)
        finally:
            self._end()

    def _explain(self, error: Exception) -> None:
        """Record why the run failed, unless its own stop ended the job."""
        said = cancellation(error)
        if self.state == "stopping" or (said is not None and self._stop_with_job(said)):
            return
        failures = self._training.failures
        known = error if isinstance(error, TosError) else job_error(error)
        self._training.fail(failures[-1] if failures else known)

    def _stop_with_job(self, said: str) -> bool:
        """Stop because somebody else has cancelled the Spark job; return whether that was it."""
        reason = "Spark's job was cancelled from outside the run"
        try:
            self._training.command(Command.STOP, reason)
        except InvalidTransition:
            # The run failed before, and has cancelled the job itself.
            return False
        self._reason = reason
        self._told += (
            f'{reason} (Spark says: "{said}"). The run has stopped and keeps its '
            "weights; start another one to continue.",
        )
        logger.warning("Run %s: %s", self.run_id, self._told[-1])
        return True

    def _end(self) -> None:
        steps = (
            self._keep,
            self._release_data,
            self._end_observers,
            self._watchdog.close,
            self._legs.report_lapsed,
            self._reach_end,
            self._keep_last,
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
        self._legs.phase.enter("an evaluation of the model, so that it can be written")
        self._training.settle()
        self._model.keep(EVALUATION)

    def _release_data(self) -> None:
        self._told += release(self._legs.source)

    def _end_observers(self) -> None:
        if not self._observers:
            return
        self._legs.phase.enter("the validation after the last epoch, or callbacks")
        # Asked first: a callback that raises may end the run.
        last = self._legs.onward
        for observer in self._observers:
            # So that the last epoch's end, and what the one before told, has reached it.
            self._patiently(partial(self._bus.flush, FLUSH))
            self._patiently(partial(observer.finish, last))

    def _patiently(self, step: Callable[[], object]) -> None:
        """Go on when a step takes too long: the training is over and its weights are kept."""
        try:
            step()
        except WaitTimeout as error:
            logger.warning("Run %s: %s", self.run_id, error)

    def _reach_end(self) -> None:
        if self._training.machine.active:
            self._training.report(RunEvent.ENDED)

    def _keep_last(self) -> None:
        if self._keeper is not None:
            # As with any other checkpoint that cannot be written, nothing else is lost.
            self._keeper.finish()

    def _report_end(self) -> None:
        training = self._training
        message = None if training.error is None else str(training.error)
        self._bus.publish(RunFinished(time.time(), self.state, message, self._reason))

    def _close_bus(self) -> None:
        # Only a sink is behind.
        self._patiently(partial(self._bus.close, SINKS))

    def __repr__(self) -> str:
        return f"<Run {self.run_id}: {self.state}>"
