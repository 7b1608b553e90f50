"""One run on the driver: its commands. Workers' requests and copies of the run are beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from ..blocks.source import DataSource
from ..chaos.rules import Rule
from ..errors import ConfigError, TosError, WorkerError
from ..events import CommandLapsed, Event
from ..steering.machine import ONWARD, Command, Machine, RunEvent
from ..steering.shards import ShardLoad
from .cohort import Cohort
from .exchange import Trainer, WorkerExchange
from .job_span import DataLayout, JobSpan
from .jobs import Jobs
from .membership import Member
from .present import PresentParameters
from .recovery import RecoverableTrainer, Recovery, lost_of
from .reports import Reports
from .requests import WorkerRequests
from .settings import Settings
from .snapshots import Snapshotter
from .state import ControlState, log
from .task_workers import StepMaker, TaskWorkers
from .timeouts import TIMEOUTS, Timeouts
from .watchdog import Facts


class Coordinator(Jobs):
    """One run: who trains, under which settings, and what the driver commands.

    Parameters
    ----------
    run_id : str
    trainer : Trainer
        The strategy's side: has the parameters.
    settings : Settings
        Those that the run begins with.
    publish, locate, on_failure, timeouts
        See `ControlState`.

    Attributes
    ----------
    parameters : PresentParameters
        What is trained.
    requests : WorkerRequests
    reports : Reports
    snapshot, restore : callable
        Copy what is done; continue from it, before any worker joins. See `Snapshotter`.
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
        self.parameters = PresentParameters(trainer.parameters)
        self.requests = WorkerRequests(self.state)
        self.reports = Reports(self.state)
        self._snapshotter = Snapshotter(self.state, trainer)
        self.snapshot, self.restore = self._snapshotter.snapshot, self._snapshotter.restore
        self._recovery = Recovery(self.state, self._snapshotter)
        self._begin(trainer)

    def begin_span(
        self,
        source: DataSource,
        first_epoch: int,
        last_epoch: int,
        layout: DataLayout | None = None,
    ) -> JobSpan:
        """See `Jobs.begin_span`; where parameters are elsewhere, they are there.

        Raises
        ------
        ClusterUnreachable
            They cannot be, or were lost since `bring_back`.
        """
        span = super().begin_span(source, first_epoch, last_epoch, layout)
        self._recovery.begin(self.trainer)
        return span

    @property
    def lost(self) -> str | None:
        """Why parameters are gone that workers have trained; None while they are not."""
        return lost_of(self.trainer)

    @property
    def shards(self) -> Sequence[ShardLoad]:
        """What shards of the parameters are busy with; none where the driver has them."""
        trainer = self.trainer
        return trainer.loads() if isinstance(trainer, RecoverableTrainer) else ()

    def recover(self, span: JobSpan, keep: bool) -> str | None:
        """Return to the last copy in memory; see `Recovery.recover`."""
        return self._recovery.recover(self.trainer, span, keep)

    def bring_back(self) -> str | None:
        """Return to the last copy in memory between two jobs; see `Recovery.bring_back`."""
        return self._recovery.bring_back(self.trainer)

    def _begin(self, trainer: Trainer) -> None:
        self._cohort = Cohort(self.state, self.reports)
        trainer.begin(self.reports, self.requests, self._cohort)

    def task_workers(self) -> TaskWorkers:
        """Return the workers of the next Spark jobs, where each epoch is one; see `TaskWorkers`."""
        return TaskWorkers(self.state, self.requests, self._cohort, cast(StepMaker, self.trainer))

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.state.run_id

    @property
    def machine(self) -> Machine:
        """Where the run stands."""
        return self.state.machine

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.state.settings

    @property
    def gone_by(self) -> Settings:
        """See `ControlState.gone_by`."""
        return self.state.gone_by

    @property
    def error(self) -> TosError | None:
        """What ended the run."""
        return self.state.error

    @property
    def reason(self) -> str | None:
        """Why it was stopped, if it was and there is a reason."""
        return self.state.reason

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

    @property
    def algorithm(self) -> str:
        """By which workers have chosen to exchange with each other; empty if they have not."""
        with self.state.lock:
            links = self.state.membership.links
        return links.algorithm if links else ""

    def command(self, command: Command, detail: str = "") -> None:
        """Apply a command; see `ControlState.command`."""
        self.state.command(command, detail)

    def report(self, event: RunEvent) -> None:
        """Move the state machine by something that happened."""
        self.state.report(event)

    def fail(self, error: TosError) -> None:
        """End the run with an error; the first one counts, even one that comes after the end."""
        self.state.fail(error)

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

    def settle(self) -> None:
        """Merge no further push, and wait for those under way: the center is final."""
        returned = self._recovery.end(self.trainer)
        with self.state.changed:
            self.state.settled = True
            self.state.changed.notify_all()
            idle = self.state.gate.wait_idle(self.state.timeouts.settle)
        if not idle:
            log.warning(
                "A push of %s is still being merged after its end. The model does not hold it.",
                self.state.run_id,
            )
            if not isinstance(self.trainer, RecoverableTrainer):
                return
        if returned is not None:
            self.state.fail(returned)
        found = self.trainer.final()
        found = self._recovery.conclude(self.trainer) or found
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

    def continue_without(self, partitions: Sequence[int]) -> None:
        """Let workers make their steps without partitions that have no worker, until they have."""
        self._cohort.continue_without(partitions)

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
            self.state.command(command, detail, named if command is Command.SET else None)

            def change() -> None:
                with self.state.changed:
                    self.state.change_settings(command, detail, **changes)
                    self.state.changed.notify_all()

            # As one: a snapshot has both or neither, and no push that was made for it comes before.
            try:
                self.trainer.change(settings, changes.keys(), change)
            except ConfigError:
                # What only the strategy knows, such as rows that a combiner cannot merge.
                self.state.publish(CommandLapsed(time.time(), command, detail))
                raise

    def swap_trainer(
        self, make: Callable[[], Trainer], changed: Callable[[], object], **changes: Any
    ) -> bool:
        """Let another strategy train from the next Spark job on, when no worker trains.

        Parameters
        ----------
        make : callable
            Returns its side, with the present parameters.
        changed : callable
            Called when no snapshot can come between it and the change.
        **changes
            See `Settings.changed`.

        Returns
        -------
        bool
            Whether the optimizer's state continues.

        Raises
        ------
        ConfigError
            The settings do not go together; nothing was changed.
        """
        with self.state.steering, self._snapshotter.between():
            self.state.settings.changed(**changes)
            trainer = make()
            carried = trainer.take_over(self.trainer.hand_over())
            self._begin(trainer)
            with self.state.changed:
                self.state.membership.reset_clocks()
                needed = self.state.membership.settings_versions()
                self.state.settings_log.change(needed, **changes)
                self.trainer, self.state.membership.links = trainer, None
                self._snapshotter.swap(trainer)
                self.parameters.change_hands(trainer.parameters)
                changed()
            return carried

    @property
    def proven(self) -> bool:
        """Whether a resumed run is known to have as many rows as before; a new one is."""
        with self.state.lock:
            return not self.state.rows.unproven

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
                self.missing(),
                self.state.membership.changed,
                self.state.membership.left_tasks(),
                lockstep=self.state.settings.strategy.lockstep,
                continues=self.state.settings.strategy.continues,
            )
