"""A run's epochs: its Spark jobs, one after the other, and the layouts of the data between them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..blocks.labels import check_partitioner
from ..blocks.partitioners import AnyPartitioner, RandomPartitioner
from ..blocks.skips import Skipped
from ..blocks.source import DataSource
from ..cluster.jobs import cancellation, in_pool, job_error, run_job
from ..common.checks import at_least_one
from ..common.threads import in_thread
from ..coordination.coordinator import Coordinator
from ..coordination.job_span import DataLayout, JobSpan
from ..coordination.jobs import Gain
from ..coordination.settings import Settings
from ..coordination.snapshots import BEGINNING, Asked, RunPosition
from ..coordination.watchdog import JOB, Phase
from ..data.dealing import keep, release
from ..errors import (
    ClusterUnreachable,
    InvalidTransition,
    LocalProtocolError,
    SessionClosed,
    TosError,
    TransportError,
)
from ..events import CommandApplied, CommandLapsed, Event, JobRestarted, Repartitioned, RowsSkipped
from ..readable import counted
from ..steering.machine import ONWARD, Command
from ..steering.restarts import LIMIT, Restarts
from .fitting import require_slots
from .iterations import Iterations
from .recovered import Recovered
from .run_plan import RunPlan
from .swaps import Swaps

if TYPE_CHECKING:
    from ..worker.task import Task

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

LOST = (ClusterUnreachable, TransportError, SessionClosed, LocalProtocolError)
"""What ends a job whose workers died, lost their connection or were superseded."""

UNFINISHED = (
    "Spark took the job for done although partitions have not been trained to the end. See the "
    "executors' logs for tasks that ended early."
)


class Epochs:
    """Trains all epochs of a run, in as few Spark jobs as its layouts allow.

    Parameters
    ----------
    sc : SparkContext
    training : Coordinator
    task : Task
    source : DataSource
        Closed in the end.
    plan : RunPlan
    publish : callable
        Takes an event.
    start : RunPosition
        Where to begin: where a run that is resumed was.
    rest : callable, optional
        Takes the seconds before a job starts again; by default it waits, or until the run ends.

    Attributes
    ----------
    phase : Phase
        What the run is busy with.
    swaps : Swaps
        Of the strategy.
    recovered : Recovered
    notes : tuple of str
        That Spark computes the rows again in each job; that jobs were lost and restarted.
    """

    def __init__(
        self,
        sc: Any,
        training: Coordinator,
        task: Task,
        source: DataSource,
        plan: RunPlan,
        publish: Callable[[Event], None],
        start: RunPosition = BEGINNING,
        rest: Callable[[float], object] | None = None,
    ) -> None:
        self.source = source
        self.phase = Phase()
        self.notes: tuple[str, ...] = ()
        self.swaps = Swaps(training, publish)
        self.recovered = Recovered(training, self.phase, publish)
        self._lasting: tuple[str, ...] = ()
        self._sc = sc
        self._training = training
        self._task = task
        self._plan = plan
        self._options = plan.options
        self._publish = publish
        self._start = start
        self._layout = start.layout
        # Until then workers may have trained under the present layout.
        self._floor = training.latest_epoch
        self._asked = plan.asked
        self._doing: Asked | None = None
        self._restarts = Restarts()
        self._restarted = 0
        self._kept = False
        self._rest = rest or training.wait_ending
        self._skipped: set[Skipped] = set()

    @property
    def first_epoch(self) -> int:
        """The epoch to begin with."""
        return self._start.epoch

    @property
    def onward(self) -> bool:
        """Whether another epoch may begin."""
        return self._training.machine.state in ONWARD

    @property
    def asked(self) -> Asked | None:
        """A repartition that is still to be done."""
        return self._asked or self._doing

    def repartition(self, partitions: int, partitioner: AnyPartitioner | None) -> None:
        """Lay the data out again when the present epoch is done; see `Run.repartition`."""
        at_least_one("partitions", partitions)
        require_slots(self.swaps.settings, partitions, self._plan.slots)
        chosen = partitioner or RandomPartitioner(partitions, self._options.seed)
        check_partitioner(chosen, partitions, self.source.columns)

        replaced: list[Asked | None] = []

        def accept() -> None:
            replaced.append(self._asked)
            self._asked = (partitions, chosen)

        self._training.end_span_early(Command.REPARTITION, counted(partitions, "partition"), accept)
        self._lapse(replaced[0], "a later repartition has taken its place")

    def require_room(self, settings: Settings) -> None:
        """Refuse settings under which the partitions of the next epoch would wait for others.

        Raises
        ------
        ConfigError
            See `require_slots`.
        """
        asked = self.asked
        partitions = self.source.partitions if asked is None else asked[0]
        require_slots(settings, partitions, self._plan.slots)

    def require_next(self) -> None:
        """Refuse what takes effect when an epoch ends, if it is the last one.

        Raises
        ------
        InvalidTransition
            No epoch follows.
        """
        # Between two epochs that with the number of the start is the next one.
        begun = self._start.epoch - self._start.between
        if max(begun, self._training.started) >= self._options.epochs - 1:
            raise InvalidTransition(
                self._training.machine.state,
                "swap strategy",
                "it trains its last epoch, and a swap takes effect when an epoch ends. Start "
                "another run with the strategy.",
            )

    def train(self) -> None:
        """Run the jobs; return when the epochs are done, or the run is told to end."""
        epochs, run_id = self._options.epochs, self._training.run_id
        epoch = self._start.epoch
        if self._last_epoch(epoch) < epochs - 1:
            self._keep()
        if self._start.between and epoch < epochs:
            self._turn(epoch)
        while epoch < epochs and self.onward:
            if self._jobs:
                self._keep()
            last = self._last_epoch(epoch)
            self.recovered.between_jobs()
            span = self._training.begin_span(self.source, epoch, last, self._layout)
            self._doing = None
            try:
                self._run(span, f"{run_id}: epochs from {epoch + 1} of {epochs}")
            finally:
                self._report_skipped()
            self.source.check_skipped()
            epoch = span.last_epoch + 1
            if self._floor < epoch < epochs and self.onward:
                self._turn(epoch)

    @property
    def _jobs(self) -> bool:
        """Whether each epoch is a Spark job of its own."""
        return self._training.settings.strategy.tree_depth is not None

    def _keep(self) -> None:
        """Let Spark keep the rows for several jobs."""
        if not self._kept:
            self._kept = True
            self.phase.enter("Spark to say how it stores the rows between its jobs")
            kept = self._asked_of_spark(partial(keep, self._sc, self.source))
            self._lasting = self.notes = self.notes + (kept or ())

    def _run(self, span: JobSpan, description: str) -> None:
        """Run one job to its end; again if it has lost its workers, but got on before.

        Spark gives a job up once a task has failed four times, or at once in ``local[N]``. A
        worker that dies now and then in a long night is not a reason to end the run: the next job
        continues behind the last batch that was committed. `Restarts` says when it is enough.
        """
        while self.onward:
            before, raised_before = self._training.parameters.version, self._training.raised
            mark = self._training.mark()
            error = self._try(description)
            followed = span.last_epoch < self._options.epochs - 1
            if self.onward and (
                self.recovered.in_job(span, keep=followed) or self.swaps.detour(span)
            ):
                continue
            if error is None and (self._training.has_trained(span) or not self.onward):
                return
            error = error or ClusterUnreachable(UNFINISHED)
            # Else it may be what the user's own code raised that ended the job.
            lost = isinstance(error, LOST) and self._training.raised == raised_before
            if not lost:
                raise error
            gain = self._training.since(mark, self._plan.slots)
            self._restart(error, self._training.parameters.version - before, gain)

    def _try(self, description: str) -> TosError | None:
        """Run a job; return what ended it, None if it says that it is done."""
        self.phase.enter(JOB)
        self._restarts.begin()
        make = partial(self.source.tasks, self._sc)
        run_id = self._training.run_id
        swap = self.swaps.now
        task = self._task if swap is None else swap.method.task
        own = Iterations(self._training, self.source, self.phase)
        run = own.run if self._jobs else run_job
        call = partial(run, self._sc, make, task, run_id, description)
        job = in_thread(f"tos-job-{run_id}", partial(in_pool, self._sc, self._plan.pool, call))
        unended = ClusterUnreachable(
            f"Spark has not ended the job within {self._plan.limits.give_up:g} s of the run's end; "
            "its tasks may still run. See whether Spark's own process (the JVM) and its master "
            "answer."
        )
        if not self._ends(job, str(unended)):
            return unended
        try:
            job.result()
        except Exception as raised:
            if cancellation(raised) is not None:
                raise
            return raised if isinstance(raised, TosError) else job_error(raised)
        return None

    def _asked_of_spark(self, call: Callable[[], Result]) -> Result | None:
        """Return what a call into Spark returns; None if the run ends and it does not."""
        pooled = partial(in_pool, self._sc, self._plan.pool, call)
        answer = in_thread(f"tos-data-{self._training.run_id}", pooled)
        unanswered = (
            f"Spark has not answered within {self._plan.limits.give_up:g} s of the run's end, and "
            "may still store data of the run. See whether Spark's own process (the JVM) answers; "
            "if not, restart the kernel."
        )
        return answer.result() if self._ends(answer, unanswered) else None

    def _ends(self, job: Future[Any], otherwise: str) -> bool:
        """Wait for a job; return whether it ended, before or soon after the run was to end."""
        while self.onward:
            if wait({job}, self._plan.limits.job_look).done:
                return True
        if wait({job}, self._plan.limits.give_up).done:
            return True
        self.notes += (otherwise,)
        logger.warning("Run %s: %s", self._training.run_id, otherwise)
        return False

    def _restart(self, error: TosError, commits: int, gain: Gain) -> None:
        """Wait before a job starts again.

        Raises
        ------
        TosError
            It got nowhere, or was lost too often.
        """
        if not self.onward:
            return
        delay = self._restarts.delay(commits, *gain)
        if delay is None and not commits:
            raise error
        reason = str(error).partition("\n")[0]
        if delay is None:
            raise ClusterUnreachable(
                f"The Spark job lost its workers {LIMIT + 1} times in a row, each time soon after "
                f"it had started. See the executors' logs: do they run out of memory? The last "
                f"time: {reason}"
            ) from error
        self._note_restart(reason, delay, self._restarts.count, LIMIT)
        if delay:
            self.phase.enter("the next attempt of the Spark job, which has lost its workers")
            self._rest(delay)

    def _note_restart(self, reason: str, delay: float, count: int, limit: int) -> None:
        self._restarted += 1
        times = "once" if self._restarted == 1 else f"{self._restarted} times"
        note = f"The Spark job lost its workers and restarted {times}; last: {reason}"
        self.notes = (*self._lasting, note)
        logger.warning("Run %s: %s", self._training.run_id, note)
        self._publish(JobRestarted(time.time(), count, limit, delay, reason))

    def _last_epoch(self, first: int) -> int:
        """Return the last epoch that one Spark job can train from `first` on."""
        in_turns = self.source.partitions > self._plan.slots and not self._jobs
        if in_turns or self._options.participation is not None:
            # Spark runs them in turns: one job for all epochs would train one partition to
            # the end before it begins with the next.
            return first
        every = self._options.repartition_every
        last = self._options.epochs - 1
        if self._asked is not None or self.swaps.due:
            last = max(first, self._floor)
        return last if every is None else min(last, (first // every + 1) * every - 1)

    def _turn(self, epoch: int) -> None:
        """Do what is to be done between two epochs."""
        self._lay_out(epoch)
        if self.onward:
            self.recovered.between_jobs()
            self.swaps.make(epoch)

    def _lay_out(self, epoch: int) -> None:
        """Repartition before an epoch, if that was asked for."""
        self._doing = self._asked
        asked, self._asked = self._asked, None
        every = self._options.repartition_every
        if asked is None and every is not None and epoch % every == 0:
            count = self.source.partitions
            asked = count, RandomPartitioner(count, self._options.seed)
        if asked is None:
            return
        self.phase.enter("the new layout of the data")
        began = time.perf_counter()
        layout = DataLayout(*asked, epoch)
        source = self._asked_of_spark(partial(self.source.repartition, *layout))
        if source is None:
            return
        earlier, self._layout, self.source = self.source, layout, source
        unreleased = release(earlier, "rows of an earlier layout", self._plan.limits.release)
        self._lasting += unreleased
        self.notes += unreleased
        self._publish(Repartitioned(time.time(), epoch, asked[0], time.perf_counter() - began))
        self._publish(
            CommandApplied(time.time(), Command.REPARTITION, counted(asked[0], "partition"))
        )

    def _report_skipped(self) -> None:
        for skipped in [each for each in self.source.skipped if each not in self._skipped]:
            self._skipped.add(skipped)
            self._publish(RowsSkipped(time.time(), **asdict(skipped)))

    def report_lapsed(self) -> None:
        """Say so if a repartition or a swap was asked for, and no epoch followed."""
        self.swaps.report_lapsed()
        self._lapse(self._asked, "no epoch followed")

    def _lapse(self, asked: Asked | None, why: str) -> None:
        if asked is not None:
            detail = f"{counted(asked[0], 'partition')}: {why}"
            self._publish(CommandLapsed(time.time(), Command.REPARTITION, detail))
