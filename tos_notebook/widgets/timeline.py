"""What is worth telling of a run besides numbers: commands, marks in the lanes, the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from .. import events
from ..common.repeats import Repeats
from ..steering.actions import ACTIONS, When
from ..steering.machine import Command
from ..steering.status import waits_for_epoch
from ..telemetry.progress import AGAIN, waited_for
from ..telemetry.steered import OFTEN
from .journal import Journal
from .news import CommandEntry, Plain
from .numbers import seconds
from .workers import Row

NONE: Mapping[str, str] = MappingProxyType({})

TEXT = 500
"""Characters of one entry's text that are kept."""

QUIET = 1.0
"""Seconds between two entries about skipped updates, which may come by the hundred."""


class Timeline:
    """Bounded, in plain values; times are seconds since the run's start.

    Attributes
    ----------
    commands, log : Journal
        As a front end gets them.
    marks : Journal
        Of a row and what happened there.
    learning_rate : float or None
        The one that was set last and is in force.
    handlers : dict
        What takes an event that is for the timeline alone, and its time.
    """

    def __init__(self) -> None:
        self.commands: Journal[CommandEntry] = Journal(50)
        self.marks: Journal[tuple[Row, Plain]] = Journal(200)
        self.log: Journal[Plain] = Journal(200)
        self.learning_rate: float | None = None
        self._skipped = 0
        self._told = -QUIET
        self._not_finite = False
        self._repeats = Repeats(AGAIN)
        # Causes of waits that the log tells of, and not yet that they are over.
        self._waits: set[str] = set()
        self.handlers: dict[type[events.Event], Callable[[Any, float], None]] = {
            events.CommandAccepted: self._asked,
            events.CommandApplied: self._applied,
            events.CommandLapsed: self._lapsed,
            events.UpdateSkipped: self._update_skipped,
            events.LabelsSkewed: self._warn,
            events.JobRestarted: self._warn,
            events.RowsSkipped: self._warn,
            events.ValidationFailed: self._not_validated,
            events.CallbackFailed: self._not_called,
            events.CheckpointFailed: self._not_saved,
        }

    # -- commands ---------------------------------------------------------------------

    def _asked(self, event: events.CommandAccepted, time: float) -> None:
        if event.command == "unpause":
            self.settle("pause", "refused", time, "unpaused before every worker waited")
        last = next(reversed(self.commands.since()), None)
        series = event.source if event.source in OFTEN and event.command == Command.SET else None
        if series and last and last["series"] == series:
            fresh: CommandEntry = {**last, "stage": "asked", "detail": event.detail[:TEXT]}
            self.commands.replace(last, {**fresh, "changes": dict(event.changes)})
        else:
            self._command(time, event.command, event.detail, "asked", event.changes, series)
        if event.command == "chaos":
            level = "info" if event.detail.startswith("off") else "warning"
            self.say(time, level, f"chaos on purpose: {event.detail}")

    def _applied(self, event: events.CommandApplied, time: float) -> None:
        if not self.settle(event.command, "in force", time, event.detail):
            self._command(time, event.command, event.detail, "in force")

    def _lapsed(self, event: events.CommandLapsed, time: float) -> None:
        self.settle(event.command, "refused", time, event.detail)
        self.say(time, "warning", f"{event.command} had no effect: {event.detail}")

    def refused(self, time: float, command: str, text: str) -> None:
        """Note a command that was not legal."""
        self._command(time, command, text, "refused")

    def settle(self, command: str, stage: str, time: float, detail: str | None = None) -> bool:
        """Move the oldest open command of a kind on at a time; return whether there was one."""
        for entry in self.commands.since():
            if entry["command"] == command and entry["stage"] == "asked":
                text = entry["detail"] if detail is None else detail[:TEXT]
                settled: CommandEntry = {**entry, "stage": stage, "detail": text}
                # Of a series, its first.
                settled["since"] = seconds(time) if entry["since"] is None else entry["since"]
                if stage == "in force" and "learning_rate" in entry["changes"]:
                    self.learning_rate = float(entry["changes"]["learning_rate"])
                self.commands.replace(entry, settled)
                return True
        return False

    def pending(self) -> list[str]:
        """Return what was asked for, and waits for the end of the epoch."""
        return [
            waits_for_epoch(entry["command"], entry["detail"])
            for entry in self.commands.since()
            if entry["stage"] == "asked" and entry["when"] == When.EPOCH
        ]

    def end(self, time: float) -> None:
        """Settle what is open: a stop took effect by the end, others cannot any more."""
        for entry in self.commands.since():
            if entry["stage"] == "asked" and entry["command"] != "stop":
                self.settle(entry["command"], "refused", time, "the run ended before")
        self.settle("stop", "in force", time)

    def _command(
        self,
        time: float,
        command: str,
        detail: str,
        stage: str,
        changes: Mapping[str, str] = NONE,
        series: str | None = None,
    ) -> None:
        known = self.commands.since()
        # Time and command name an entry.
        time = max(seconds(time), seconds(known[-1]["time"] + 0.001) if known else 0.0)
        entry: CommandEntry = {
            "time": time,
            "command": str(command),
            "changes": {name: value[:TEXT] for name, value in changes.items()},
            "detail": detail[:TEXT],
            "stage": stage,
            "since": None if stage == "asked" else time,
            "series": series,
            "when": str(ACTIONS[command].when if command in ACTIONS else When.MILESTONE),
        }
        self.commands.add(entry)

    # -- workers ----------------------------------------------------------------------

    def joined(self, time: float, row: Row, event: events.WorkerJoined) -> None:
        """Mark an attempt that is not a partition's first."""
        if event.attempt or event.resumed_at:
            text = f"attempt {event.attempt}, continues at batch {event.resumed_at}"
            self._mark(time, row, "retry", text)
            self.say(time, "info", f"{_who(event)} joined: {text}.")

    def lost(self, time: float, row: Row, event: events.WorkerLost) -> None:
        """Mark the loss of a worker."""
        self._mark(time, row, "lost", event.reason)
        self.say(time, "warning", f"{_who(event)} was lost: {event.reason}")

    def failed(self, time: float, row: Row, event: events.WorkerFailed) -> None:
        """Mark what a worker raised."""
        self._mark(time, row, "failed", event.message)
        self.say(time, "error", f"{_who(event)} raised {event.message}")

    def _mark(self, time: float, row: Row, kind: str, text: str) -> None:
        self.marks.add((row, {"time": seconds(time), "kind": kind, "text": text[:TEXT]}))

    # -- the log ----------------------------------------------------------------------

    def _update_skipped(self, event: events.UpdateSkipped, time: float) -> None:
        self._skipped += 1
        if time - self._told >= QUIET:
            self._told = time
            text = f"{self._skipped} updates left out so far; partition {event.partition}: "
            self.say(time, "warning", text + event.reason)

    def stalled(self, time: float, event: events.Stalled) -> None:
        """Say what the run waits for, ever more rarely where that is the same."""
        if self._repeats.due(waited_for(event), event.time):
            self._waits.add(event.cause)
            self.say(time, "warning", f"{event.message} {event.look}")

    def moves_again(self, time: float, event: events.StallEnded) -> None:
        """Say that a wait of which the log tells is over."""
        if event.cause in self._waits:
            self._waits.remove(event.cause)
            self.say(time, "info", "The run has what it waited for, or has given it up.")

    def _warn(self, event: events.Event, time: float) -> None:
        self.say(time, "warning", str(event))

    def repartitioned(self, time: float, event: events.Repartitioned) -> None:
        """Say that the data was laid out again."""
        text = f"{event.partitions} partitions from epoch {event.epoch + 1} on"
        self.say(time, "info", f"{text}, partitioned in {event.seconds:.2f} s.")

    def validated(self, time: float, event: events.Validated) -> None:
        """Say that an evaluation is not finite, once for several in a row."""
        if event.warning and not self._not_finite:
            self.say(time, "warning", event.warning)
        self._not_finite = bool(event.warning)

    def _not_validated(self, event: events.ValidationFailed, time: float) -> None:
        text = f"Validation after epoch {event.epoch + 1} failed, and ends: {event.message}"
        self.say(time, "warning", text)

    def _not_called(self, event: events.CallbackFailed, time: float) -> None:
        text = f"The run no longer calls callback {event.callback}: {event.hook} raised "
        self.say(time, "warning", text + event.message)

    def _not_saved(self, event: events.CheckpointFailed, time: float) -> None:
        self.say(time, "warning", f"The run has no new checkpoint: {event.message}")

    def say(self, time: float, level: str, text: str) -> None:
        """Append to the log."""
        self.log.add({"time": seconds(time), "level": level, "text": text[:TEXT]})


def _who(event: events.WorkerJoined | events.WorkerLost | events.WorkerFailed) -> str:
    return f"Executor {event.executor} ({event.host}), partition {event.partition}"
