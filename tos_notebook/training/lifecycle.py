"""A run's thread, from its first Spark job to the steps of its end."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from ..cluster.executors import where_to_look
from ..cluster.jobs import cancellation, job_error, kill_task
from ..coordination.standstill import Standstill
from ..coordination.watchdog import Facts, Watchdog, held
from ..data.dealing import release
from ..errors import InvalidTransition, TosError, WaitTimeout
from ..events import Event, RunFinished, WeightsMeasured
from ..readable import summary
from ..steering.machine import Command, RunEvent
from ..steering.status import Progress
from ..strategies.base import Strategy
from ..telemetry.bus import Sink
from .advice import RunAdvisor
from .beginning import beginning, context_of, subject_of
from .epochs import Epochs
from .observers.base import Maker, Observer
from .observers.histograms import WeightHistograms
from .observers.mlflow import MLflowLogger
from .observers.tensorboard import TensorBoardWriter
from .parts import RunParts
from .results.held_model import HeldModel
from .results.parameters import torn
from .results.view import RunView
from .turns import notes_of_jobs

logger = logging.getLogger(__name__)


class Lifecycle:
    """Trains a run on a thread of its own, and ends it.

    Attributes
    ----------
    epochs : Epochs
    model : HeldModel
        The program, with the center of the run.
    advisor : RunAdvisor
    observers : list of Observer
        Empty until the run begins.
    made : float
        The time when this process made the run, in seconds since 1970.
    watchdog : Watchdog
    swapping : Lock
        Held while another strategy is got ready.
    """

    def __init__(self, parts: RunParts) -> None:
        training, bus, plan = parts.training, parts.bus, parts.plan
        self.parts = parts
        self.epochs = Epochs(
            parts.sc, training, parts.task, parts.source, plan, bus.publish, parts.reached
        )
        self.model = HeldModel(parts.program, training.parameters)
        self.advisor = RunAdvisor(parts)
        self.observers: list[Observer] = []
        self.made = time.time()
        self._standstill = Standstill(
            plan.options.worker_timeout,
            training.supersede,
            partial(kill_task, parts.sc, training.run_id),
            training.fail,
            training.continue_without,
            plan.options.stall_timeout,
        )
        self.watchdog = Watchdog(
            self._facts,
            partial(where_to_look, parts.sc),
            bus.publish,
            plan.options.stall_timeout,
            act=self._standstill.check,
            interval=plan.limits.stall_look,
            timeout=plan.limits.watchdog,
        )
        self.swapping = threading.Lock()
        self._given = bus.sinks
        self._told = () if parts.resumed is None else parts.resumed.notes
        self._done = threading.Event()
        # Set once the last Spark job has ended, before the steps of the run's end.
        self._over = threading.Event()
        self._stopper: threading.Thread | None = None

    def begin(
        self,
        run: RunView,
        makers: Iterable[Maker] = (),
        first: Callable[[], object] = lambda: None,
    ) -> None:
        """Begin to train, and return at once.

        Parameters
        ----------
        run : RunView
            What observers see of the run.
        makers : iterable of callable
            Each makes an observer.
        first : callable
            Called before anything is trained.
        """
        # It has the run, too: a run that trains is not collected.
        drive = threading.Thread(
            target=self._drive, args=(run,), name=f"tos-{self.parts.run_id}", daemon=True
        )
        try:
            self._get_ready(run, makers, first)
        except BaseException as error:
            # It is ended here: it has no thread that would end it.
            own = error if isinstance(error, TosError) else TosError(summary(error))
            self.parts.training.fail(own)
            self._over.set()
            self._end()
            raise
        drive.start()
        self.watchdog.start()

    def _get_ready(
        self, run: RunView, makers: Iterable[Maker], first: Callable[[], object]
    ) -> None:
        parts = self.parts
        if parts.resumed is not None:
            self._tell_past(parts.resumed.past)
        for make in makers:
            self.observers.append(make(context_of(parts, run, self.model, self.epochs)))
            parts.bus.add(self.observers[-1])
        parts.bus.publish(beginning(parts, self.epochs.source))
        first()
        if parts.checkpointer is not None:
            # A run may end as soon as it has begun, and its end waits for a checkpoint.
            parts.checkpointer.begin(subject_of(parts, self.epochs))

    def _tell_past(self, past: Iterable[Event]) -> None:
        """Tell what looks at the run what it did before; the user's own sinks know it."""
        watching: list[Sink] = [sink for sink in self.parts.bus.sinks if sink not in self._given]
        for event in past:
            self.parts.history(event)
            for sink in watching:
                sink(event)

    @property
    def strategy(self) -> Strategy:
        """That which trains the run now."""
        swap = self.epochs.swaps.now
        return self.parts.strategy if swap is None else swap.method.strategy

    # -- looking ----------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return not self._done.is_set()

    @property
    def workers(self) -> int:
        """How many workers train now."""
        return len(self._present().members)

    def _present(self) -> Facts:
        return self.parts.training.facts(self.epochs.phase.now, self.parts.plan.slots)

    def _facts(self) -> Facts:
        parts, found = self.parts, self._present()
        if parts.checkpointer is not None:
            found = replace(found, saving=parts.checkpointer.saving)
        if found.members:
            return found
        return replace(found, held=held(parts.others(), parts.plan.slots, parts.master))

    @property
    def validates(self) -> bool:
        """See `Run.validates`."""
        return any(observer.validates for observer in self.observers)

    @property
    def left_out(self) -> int:
        """See `RunStatus.validations_left_out`."""
        return sum(observer.left_out for observer in self.observers)

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Run.status`."""
        parts = self.parts
        observers = [note for observer in self.observers for note in observer.notes]
        own = *notes_of_jobs(parts, self.epochs, self.strategy), *self._standstill.notes
        beside = *parts.training.notes, *observers, *map(str, parts.bus.disabled)
        kept = *parts.unsaved(), *parts.saved_otherwise(), *torn(parts.training.parameters)
        return *parts.source.notes, *own, *beside, *kept, *self._told

    @property
    def progress(self) -> Progress:
        """What is trained so far, by partition."""
        return self.parts.history.progress(self.epochs.source.partitions)

    @property
    def event_folder(self) -> str | None:
        """See `Run.tensorboard`."""
        return next((c.folder for c in self.observers if isinstance(c, TensorBoardWriter)), None)

    @property
    def mlflow_run_id(self) -> str | None:
        """See `Run.mlflow_run_id`."""
        return next((c.run_id for c in self.observers if isinstance(c, MLflowLogger)), None)

    @property
    def weights(self) -> Sequence[WeightsMeasured]:
        """How each weight was distributed, so far; nothing if that is not recorded."""
        return next((c.measured for c in self.observers if isinstance(c, WeightHistograms)), ())

    # -- waiting and stopping ---------------------------------------------------------

    def ended(self, timeout: float | None = None) -> bool:
        """Wait for the end; return whether it came."""
        return self._done.wait(timeout)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end; see `Run.wait`."""
        parts = self.parts
        if not self.ended(timeout):
            raise WaitTimeout(
                f"Run {parts.run_id} is still {parts.state} after {timeout} s and continues. Wait "
                "longer, or stop() it."
            )
        for missing in parts.unsaved():
            # At the line that called the run.
            warnings.warn(f"Run {parts.run_id}: {missing}", RuntimeWarning, stacklevel=3)
        if parts.training.error is not None:
            raise parts.training.error

    def stop(self, timeout: float, reason: str | None) -> None:
        """Stop now, and wait for the end; see `Run.stop`."""
        run_id = self.parts.run_id
        # The end of the run waits for its sinks.
        awaited = self.parts.bus.is_current_thread or any(
            observer.is_current_thread for observer in self.observers
        )
        try:
            self.parts.training.command(Command.STOP, reason or "")
        except InvalidTransition:
            # It is over, or about to be.
            if awaited:
                return
        else:
            if awaited:
                stopper = threading.Thread(target=self._end_job, name=f"tos-stop-{run_id}")
                stopper.start()
                self._stopper = stopper
                return
            self._end_job()
        if not self.ended(timeout):
            raise WaitTimeout(f"Run {run_id} did not end within {timeout} s of stop().")

    def _end_job(self) -> None:
        """End the Spark job once the workers have left, or do not hear."""
        grace = self.parts.limits.stop_grace
        left = self.parts.training.wait_left(grace)
        surplus = self.epochs.source.partitions > self.parts.plan.slots
        # Tasks that have left return by themselves, and leave warm processes behind; but those
        # that wait for a slot would still be started, one after the other.
        if left and not surplus and self._over.wait(grace):
            return
        if not self._over.is_set():
            self.parts.cancel()

    # -- the run's own thread ---------------------------------------------------------

    def _drive(self, run: RunView) -> None:
        try:
            for observer in self.observers:
                observer.begin()
            self.epochs.phase.enter("the executors to import TensorFlow")
            self.parts.look(run)
            self.epochs.train()
        except Exception as error:
            self._explain(error)
        finally:
            self._over.set()
            self._end()

    def _explain(self, error: Exception) -> None:
        """Record why the run failed, unless its own stop ended the job."""
        said = cancellation(error)
        stopping = self.parts.state == "stopping"
        if stopping or (said is not None and self._stop_with_job(said)):
            return
        failures = self.parts.training.failures
        known = error if isinstance(error, TosError) else job_error(error)
        self.parts.training.fail(failures[-1] if failures else known)

    def _stop_with_job(self, said: str) -> bool:
        """Stop because the Spark job was cancelled from outside; return whether that was it."""
        reason = "Spark's job was canceled from outside the run"
        try:
            self.parts.training.command(Command.STOP, reason)
        except InvalidTransition:
            # The run failed before, and has cancelled the job itself.
            return False
        self._told += (
            f'{reason} (Spark says: "{said}"). The run has stopped and keeps its '
            "weights; start another one to continue.",
        )
        logger.warning("Run %s: %s", self.parts.run_id, self._told[-1])
        return True

    def _end(self) -> None:
        steps = (
            self._keep,
            self._release_data,
            self._end_observers,
            self.watchdog.close,
            self.epochs.report_lapsed,
            self._reach_end,
            self._keep_last,
            self._report_end,
            self.parts.on_end,
            self._close_bus,
        )
        for step in steps:
            try:
                step()
            except Exception as error:
                known = error if isinstance(error, TosError) else TosError(str(error))
                self.parts.training.fail(known)
        if self._stopper is not None:
            self._stopper.join(self.parts.limits.stop_grace)
        # Whatever went wrong above, wait() raises it and does not hang.
        self._done.set()

    def _keep(self) -> None:
        self.epochs.phase.enter("an evaluation of the model, so that it can be written")
        self.parts.training.settle()
        self.model.keep(self.parts.limits.evaluation)

    def _release_data(self) -> None:
        self._told += release(self.epochs.source, timeout=self.parts.limits.release)

    def _end_observers(self) -> None:
        if not self.observers:
            return
        self.epochs.phase.enter("the validation after the last epoch, or callbacks")
        # Asked first: a callback that raises may end the run.
        last = self.epochs.onward
        for observer in self.observers:
            # So that the last epoch's end, and what the one before told, has reached it.
            self._patiently(partial(self.parts.bus.flush, self.parts.limits.flush))
            self._patiently(partial(observer.finish, last))

    def _patiently(self, step: Callable[[], object]) -> None:
        """Continue when a step takes too long: the training is over and its weights are kept."""
        try:
            step()
        except WaitTimeout as error:
            logger.warning("Run %s: %s", self.parts.run_id, error)

    def _reach_end(self) -> None:
        if self.parts.training.machine.active:
            self.parts.training.report(RunEvent.ENDED)

    def _keep_last(self) -> None:
        if self.parts.checkpointer is not None:
            # As with any other checkpoint that cannot be written, nothing else is lost.
            self.parts.checkpointer.finish(self.parts.limits.checkpoint)

    def _report_end(self) -> None:
        error = self.parts.training.error
        message = None if error is None else str(error)
        self.parts.bus.publish(
            RunFinished(time.time(), self.parts.state, message, self.parts.training.reason)
        )

    def _close_bus(self) -> None:
        # Only a sink is behind.
        self._patiently(partial(self.parts.bus.close, self.parts.limits.sinks))
