"""One run on the driver: its commands. Workers' requests and copies of the run are beside it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..blocks.source import DataSource
from ..chaos.rules import Rule
from ..errors import TosError, WorkerError
from ..events import CommandAccepted, Event
from ..steering.machine import ONWARD, Command, Machine, RunEvent
from .cohort import Cohort
from .exchange import Parameters, Trainer, WorkerExchange
from .job_span import DataLayout, JobSpan
from .membership import Member
from .reports import Reports
from .requests import WorkerRequests
from .settings import Settings
from .snapshots import Asked, Progress, Snapshot, Snapshotter
from .state import ControlState, log
from .timeouts import TIMEOUTS, Timeouts
from .watchdog import Facts


class Mark(NamedTuple):
    """How far a run was when a Spark job began."""

    committed: Counter[int]
    """Milestones of each partition."""
    joins: Counter[int]
    finished: set[int]
    """Partitions that were done."""


class Gain(NamedTuple):
    """What a Spark job has brought."""

    least: int
    """Milestones of the slowest of the partitions that were tried and are not done."""
    finished: int
    """Partitions that got done."""


class Coordinator:
    """One run: who trains, under which settings, and what the driver commands.

    Parameters
    ----------
    run_id : str
    trainer : Trainer
        The strategy's side: has the parameters.
    settings : Settings
        Those that the run begins with.
    publish : callable
        Takes an event.
    locate : callable
        Takes a Spark task attempt id, returns (executor id, host).
    on_failure : callable
        Called once, from a connection's thread, when the run cannot continue.
    timeouts : Timeouts

    Attributes
    ----------
    requests : WorkerRequests
    reports : Reports
    """

    def __init__(
        self,
        run_id: str,
        trainer: Trainer,
        settings: Settings,
        publish: Callable[[Event], None],
        locate: Callable[[int], tuple[str, str]],
        on_failure: Callable[[], None],
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self.state = ControlState(run_id, settings, publish, locate, on_failure, timeouts)
        self.trainer = trainer
        self.requests = WorkerRequests(self.state)
        self.reports = Reports(self.state)
        self._snapshotter = Snapshotter(self.state, trainer)
        cohort = Cohort(self.state, self.reports)
        trainer.begin(self.reports, self.requests, cohort)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.state.run_id

    @property
    def parameters(self) -> Parameters:
        """What is trained."""
        return self.trainer.parameters

    @property
    def machine(self) -> Machine:
        """Where the run stands."""
        return self.state.machine

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.state.settings

    @property
    def error(self) -> TosError | None:
        """What ended the run."""
        return self.state.error

    @property
    def failures(self) -> Sequence[WorkerError]:
        """What workers have raised, the latest last."""
        return self.state.failures

    @property
    def raised(self) -> int:
        """How many failures there were, with those that are not kept any more."""
        return self.state.raised

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of the data."""
        return self.state.notes

    def report(self, event: RunEvent) -> None:
        """Move the state machine by something that happened."""
        self.state.report(event)

    def fail(self, error: TosError) -> None:
        """End the run with an error; the first one counts, even one that comes after the end."""
        self.state.fail(error)

    def snapshot(
        self, asked: Callable[[], Asked | None] = lambda: None, last: bool = False
    ) -> Snapshot | None:
        """Copy what is done; see `Snapshotter.snapshot`."""
        return self._snapshotter.snapshot(asked, last)

    def restore(self, progress: Progress) -> None:
        """Continue from what was done, before any worker joins; see `Snapshotter.restore`."""
        self._snapshotter.restore(progress)

    def exchange(self, segment: str) -> WorkerExchange:
        """Return what serves a worker that is about to join; see `Trainer.exchange`."""
        return self.trainer.exchange(segment)

    @property
    def chaos(self) -> tuple[Rule, ...]:
        """The rules that may still strike; none once the run is over."""
        return self.state.chaos_rules if self.state.machine.active else ()

    def executors(self) -> set[str]:
        """Return the executors that train now."""
        with self.state.lock:
            return self.state.membership.executors()

    def begin_span(
        self,
        source: DataSource,
        first_epoch: int,
        last_epoch: int,
        layout: DataLayout | None = None,
    ) -> JobSpan:
        """Begin the next Spark job, whose workers may join."""
        with self.state.lock:
            if layout != self.state.layout:
                if self.state.ledger.contents.turn(self.state.ledger.partitions):
                    self.state.earlier = self.state.layout
                self.state.layout = layout
                self.state.rows.counts.clear()
                # The rows of another layout say nothing of how many these are to be.
                self.state.rows.unproven.clear()
                self.state.labels.clear()
                self.state.skew = ()
            self.state.span = JobSpan(source, first_epoch, last_epoch, layout)
            # Of a run that was resumed, some partitions may be in a later one already.
            self.state.span.started = max(first_epoch, self.state.ledger.latest_epoch())
            self.state.ledger.partitions = self.state.membership.partitions = source.partitions
            self.state.membership.clear()
            # No epoch will show it of those that are done.
            self.state.rows.unproven -= self._finished()
            return self.state.span

    def command(
        self, command: Command, detail: str = "", changes: Mapping[str, str] | None = None
    ) -> None:
        """Apply a command to the state machine; `detail` and `changes` are the event's.

        Raises
        ------
        InvalidTransition
            The state does not allow it; nothing was changed.
        """
        with self.state.changed:
            before = self.state.machine.state
            self.state.machine.command(command)
            self.state.publish(CommandAccepted(time.time(), command, detail, changes or {}))
            self.state.report_state(before)
            if command in ENDS_PAUSE:
                self.state.acknowledgements.expect_pause(command is Command.PAUSE)
            self.state.changed.notify_all()

    @property
    def latest_epoch(self) -> int:
        """The latest epoch of which anything is done; -1 if nothing is."""
        with self.state.lock:
            return self.state.ledger.latest_epoch()

    def settle(self) -> None:
        """Merge no further push, and wait for those under way: the center is final."""
        with self.state.changed:
            self.state.settled = True
            self.state.changed.notify_all()
            if not self.state.gate.wait_idle(self.state.timeouts.settle):
                log.warning(
                    "A push of %s is still being merged after its end. The model does not hold it.",
                    self.state.run_id,
                )
                return
        found = self.trainer.final()
        if found is not None:
            self.state.fail(found)

    def supersede(self, member: Member, reason: str) -> bool:
        """Take a partition from a worker that stands still; return whether that was done.

        Parameters
        ----------
        member : Member
            A copy of it: one that has spoken since keeps its place.
        reason : str
        """
        with self.state.changed:
            present = self.state.membership.present(member.partition)
            same = present is not None and present.task == member.task
            if present is None or not same or present.heard != member.heard:
                return False
            if not self.state.machine.active:
                return False
            self.state.ledger.supersede(member.partition, member.task)
            self.state.lost(present, reason)
            self.state.membership.dismiss(present)
            return True

    def wait_ending(self, timeout: float) -> None:
        """Wait, at most until the run is stopped or fails.

        Parameters
        ----------
        timeout : float
            Seconds.
        """
        with self.state.changed:
            self.state.changed.wait_for(lambda: self.state.machine.state not in ONWARD, timeout)

    def wait_left(self, timeout: float) -> bool:
        """Wait until no worker trains any more; return whether that came in time.

        Parameters
        ----------
        timeout : float
            Seconds.
        """
        with self.state.changed:
            return self.state.changed.wait_for(lambda: not self.state.membership.active(), timeout)

    def change_settings(self, command: Command, detail: str, **changes: Any) -> None:
        """Change what `Settings` has, from each worker's next milestone on.

        Raises
        ------
        ConfigError
            The settings do not go together; nothing was changed.
        InvalidTransition
            The run is over.
        """
        with self.state.steering:
            settings = self.state.settings.changed(**changes)
            named = {name: str(value) for name, value in changes.items()}
            self.command(command, detail, named if command is Command.SET else None)

            def change() -> None:
                with self.state.changed:
                    self.state.change_settings(command, detail, **changes)
                    self.state.changed.notify_all()

            # As one: a snapshot has both or neither, and no push that was made for it comes before.
            self.trainer.change(settings, changes.keys(), change)

    def has_trained(self, span: JobSpan) -> bool:
        """Return whether every partition was used up in a span's last epoch."""
        with self.state.lock:
            return self.state.ledger.epoch_done(span.last_epoch, span.source.partitions)

    @property
    def proven(self) -> bool:
        """Whether a resumed run is known to have as many rows as before; a new one is."""
        with self.state.lock:
            return not self.state.rows.unproven

    def mark(self) -> Mark:
        """Return how far each partition is, to be compared with later on."""
        with self.state.lock:
            state = self.state
            return Mark(state.committed.copy(), state.membership.joins.copy(), self._finished())

    def since(self, mark: Mark, slots: int) -> Gain:
        """Return what a Spark job has brought.

        Partitions that wait for a slot do not count.

        Parameters
        ----------
        mark : Mark
            Of when the job began.
        slots : int
            Tasks that Spark runs at once.
        """
        with self.state.lock:
            state, finished = self.state, self._finished()
            count = 0 if state.span is None else state.span.source.partitions
            tried = (
                partition
                for partition in set(range(count)) - finished
                if count <= slots or state.membership.joins[partition] > mark.joins[partition]
            )
            least = min((state.committed[p] - mark.committed[p] for p in tried), default=0)
            return Gain(least, len(finished - mark.finished))

    def _finished(self) -> set[int]:
        """Return the partitions that are used up in the last epoch of the present job."""
        span, ledger = self.state.span, self.state.ledger
        if span is None:
            return set()
        partitions = range(span.source.partitions)
        return {p for p in partitions if ledger.is_finished(span.last_epoch, p)}

    @property
    def spoiled(self) -> bool:
        """Whether a resumed run has trained rows that are not those from before."""
        with self.state.lock:
            rows = self.state.rows
            return rows.spoiled and bool(rows.unproven)

    def facts(self, phase: tuple[str, float], slots: int) -> Facts:
        """Return what a watchdog has to know.

        Parameters
        ----------
        phase : tuple of str and float
            What the run's own thread is busy with, and since when.
        slots : int
            Tasks that Spark runs at once.
        """
        with self.state.lock:
            return Facts(
                str(self.state.machine.state),
                *phase,
                str(self.state.settings.sync),
                slots,
                [replace(member) for member in self.state.membership.active()],
                self._missing(),
                self.state.membership.changed,
                self.state.membership.left_tasks(),
            )

    def _missing(self) -> list[int]:
        """Return the partitions that are not used up and that no worker trains."""
        if self.state.span is None:
            return []
        last = self.state.span.last_epoch
        return [
            partition
            for partition in range(self.state.span.source.partitions)
            if self.state.membership.present(partition) is None
            and not self.state.ledger.is_finished(last, partition)
        ]

    def end_span_early(self, detail: str) -> None:
        """End the job once the latest epoch that any worker has begun is done."""
        with self.state.lock:
            self.command(Command.REPARTITION, detail)
            if self.state.span is not None:
                self.state.span.last_epoch = min(
                    self.state.span.last_epoch, self.state.span.started
                )


ENDS_PAUSE = (Command.PAUSE, Command.RESUME, Command.STOP)
"""Commands after which an earlier pause is not acknowledged any more."""
