"""One run from the server's side: the driver's commands; `answers` has the workers' side."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..blocks.source import DataSource
from ..chaos.rules import Rule
from ..events import CommandAccepted
from ..steering.machine import ONWARD, Command
from .membership import LaidOut, Leg, Member
from .snapshots import Snapshots
from .state import log
from .watchdog import Facts

SETTLE = 5.0
"""Seconds that the end of a run waits for pushes that are being merged."""


class Training(Snapshots):
    """One run, from the server's side; its parameters are those of `TrainingState`."""

    @property
    def chaos(self) -> tuple[Rule, ...]:
        """The rules that may still strike; none once the run is over."""
        return self._roster.chaos if self.machine.active else ()

    def executors(self) -> set[str]:
        """Return the executors that train now."""
        with self._lock:
            return self._roster.executors()

    def begin_leg(
        self,
        source: DataSource,
        first_epoch: int,
        last_epoch: int,
        layout: LaidOut | None = None,
    ) -> Leg:
        """Let the workers of the next Spark job in."""
        with self._lock:
            if layout != self._layout:
                if self._ledger.contents.turn(self._ledger.partitions):
                    self._earlier = self._layout
                self._layout = layout
                self._rows.clear()
                self._labels.clear()
                self._skew = ()
            self._leg = Leg(source, first_epoch, last_epoch, layout)
            # Of a run that was resumed, some partitions may be in a later one already.
            self._leg.started = max(first_epoch, self._ledger.latest_epoch())
            self._ledger.partitions = self._roster.partitions = source.partitions
            self._roster.clear()
            return self._leg

    def command(
        self, command: Command, detail: str = "", changes: Mapping[str, str] | None = None
    ) -> None:
        """Apply a command to the state machine; `detail` and `changes` are the event's.

        Raises
        ------
        InvalidTransition
            The state does not allow it; nothing was changed.
        """
        with self._changed:
            before = self.machine.state
            self.machine.command(command)
            self._publish(CommandAccepted(time.time(), command, detail, changes or {}))
            self._report_state(before)
            if command not in PASSIVE:
                self._roster.watch_pause(command is Command.PAUSE)
            self._changed.notify_all()

    @property
    def latest_epoch(self) -> int:
        """The latest epoch of which anything is done; -1 if nothing is."""
        with self._lock:
            return self._ledger.latest_epoch()

    def settle(self) -> None:
        """Merge no further push, and wait for those under way: the center is final."""
        with self._changed:
            self._settled = True
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._merging == 0, SETTLE):
                log.warning(
                    "A push of %s is still being merged after its end. The model does not hold it.",
                    self.run_id,
                )
                return
        found = self.store.check(self.store.center)
        if found is not None:
            self.fail(found)

    def supersede(self, member: Member, reason: str) -> bool:
        """Take a partition from a worker that stands still; return whether that was done.

        Parameters
        ----------
        member : Member
            A copy of it: one that has spoken since keeps its place.
        reason : str
        """
        with self._changed:
            present = self._roster.present(member.partition)
            same = present is not None and present.task == member.task
            if present is None or not same or present.heard != member.heard:
                return False
            if not self.machine.active:
                return False
            self._ledger.supersede(member.partition, member.task)
            self.lost(present, reason)
            self._roster.dismiss(present)
            return True

    def wait_ending(self, timeout: float) -> None:
        """Wait, at most until the run is stopped or fails.

        Parameters
        ----------
        timeout : float
            Seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.machine.state not in ONWARD, timeout)

    def wait_left(self, timeout: float) -> bool:
        """Wait until no worker trains any more; return whether that came in time.

        Parameters
        ----------
        timeout : float
            Seconds.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._roster.active(), timeout)

    def change_settings(self, command: Command, detail: str, **changes: Any) -> None:
        """Change what `Settings` has, from each worker's next milestone on.

        Raises
        ------
        ConfigError
            The settings do not go together; nothing was changed.
        InvalidTransition
            The run is over.
        """
        with self._steering:
            replace(self._roster.settings, **changes)
            named = {name: str(value) for name, value in changes.items()}
            self.command(command, detail, named if command is Command.SET else None)

            def change() -> None:
                with self._changed:
                    self._roster.change(command, detail, **changes)
                    self._changed.notify_all()

            if "combiner" in changes:
                # As one: a snapshot has both or neither. No push for it is merged before.
                self.store.swap(changes["combiner"], change)
            else:
                change()

    def has_trained(self, leg: Leg) -> bool:
        """Return whether every partition was used up in a leg's last epoch."""
        with self._lock:
            return self._ledger.epoch_done(leg.last_epoch, leg.source.partitions)

    def facts(self, phase: tuple[str, float], slots: int) -> Facts:
        """Return what a watchdog has to know.

        Parameters
        ----------
        phase : tuple of str and float
            What the run's own thread is busy with, and since when.
        slots : int
            Tasks that Spark runs at once.
        """
        with self._lock:
            return Facts(
                str(self.machine.state),
                *phase,
                str(self.settings.sync),
                slots,
                [replace(member) for member in self._roster.active()],
                self._missing(),
                self._roster.changed,
                self._roster.left(),
            )

    def _missing(self) -> list[int]:
        """Return the partitions that are not used up and that nobody trains."""
        if self._leg is None:
            return []
        last = self._leg.last_epoch
        return [
            partition
            for partition in range(self._leg.source.partitions)
            if self._roster.present(partition) is None
            and not self._ledger.is_finished(last, partition)
        ]

    def end_leg_early(self, detail: str) -> None:
        """Let the workers leave when the latest epoch that any of them has begun is done."""
        with self._lock:
            self.command(Command.REPARTITION, detail)
            if self._leg is not None:
                self._leg.last_epoch = min(self._leg.last_epoch, self._leg.started)


PASSIVE = (Command.SET, Command.SWAP_COMBINER, Command.REPARTITION, Command.CHAOS)
"""Commands that do not end a pause."""
