"""One line that says how far a run is."""

from __future__ import annotations

import math
import shutil
import sys
from datetime import UTC, datetime
from typing import TextIO

from ..common.repeats import Repeats
from ..events import (
    CheckpointFailed,
    EpochFinished,
    Event,
    JobRestarted,
    LabelsSkewed,
    MilestoneCommitted,
    RowsSkipped,
    RunFinished,
    RunResumed,
    RunStarted,
    Stalled,
)
from ..readable import ipython_shell, one_line
from .tally import Tally, Totals

AGAIN = 30.0
"""Seconds until the same wait is told for the second time; see `Repeats`."""

BEFORE = "workers start, and import TensorFlow, which takes seconds"
"""What is done before the first milestone."""

VALIDATED = 3
"""Values of the latest validation that a line has; the loss is the first."""

LABEL = 24
"""Characters of a value's name."""

PLAIN_INTERVAL = 5.0
"""Seconds between lines where they cannot be rewritten in place (a file, a notebook's cell)."""

LOG_INTERVAL = 1.0
"""Seconds between lines of a log, however short its epochs are."""


class ProgressLine:
    """A sink that draws one moving line, or on anything but a terminal, a line now and then.

    The clock is the events' own time: without events nothing has changed and nothing is drawn.

    Parameters
    ----------
    stream : text file
        Where to write; its ``isatty()`` decides the kind of line.
    interval : float
        Seconds between two drawings on a terminal.
    stamped : bool
        Whether lines that do not move begin with the time, in UTC: those of a log.
    """

    def __init__(self, stream: TextIO, interval: float = 0.2, stamped: bool = False) -> None:
        self._stream = stream
        self._moving = stream.isatty()
        self._stamped = stamped and not self._moving
        self._interval = interval if self._moving else max(interval, PLAIN_INTERVAL)
        self._tally = Tally()
        self._drawn_at: float | None = None
        self._width = 0
        self._now = 0.0
        self._repeats = Repeats(AGAIN)
        # Until the first milestone of this process.
        self._waits = False

    def __call__(self, event: Event) -> None:
        """Count the event; draw if it is time to."""
        self._tally(event)
        self._now = event.time
        if isinstance(event, MilestoneCommitted):
            self._waits = False
        if isinstance(event, RunFinished):
            self._finish(event)
        elif isinstance(event, RunStarted | RunResumed):
            self._waits = True
            self._show(event.time)
        elif isinstance(event, Stalled):
            if self._repeats.due(waited_for(event), event.time):
                self._tell(f"{event.message} {event.look}")
        elif isinstance(event, RowsSkipped | JobRestarted | LabelsSkewed | CheckpointFailed):
            self._tell(str(event))
        elif self._is_due(event):
            self._show(event.time)

    def close(self) -> None:
        """Leave the cursor on a fresh line although the run did not say it finished."""
        if self._width:
            self._end_line()

    def _show(self, now: float) -> None:
        self._drawn_at = now
        line = describe(self._tally.totals())
        self._draw(f"{line}  {BEFORE}" if self._waits else line)

    def _is_due(self, event: Event) -> bool:
        if self._drawn_at is None:
            # Its beginning was told before this was here.
            self._drawn_at = event.time
            return self._moving
        passed = event.time - self._drawn_at
        if isinstance(event, EpochFinished) and not self._moving:
            return not self._stamped or passed >= LOG_INTERVAL
        return passed >= self._interval

    def _finish(self, event: RunFinished) -> None:
        # The whole error is raised where the run is waited for; here its first line will do.
        why = event.error or event.reason
        reason = f": {why.splitlines()[0]}" if why else ""
        self._draw(f"{describe(self._tally.totals())}  {event.outcome}{reason}", whole=True)
        if self._moving:
            self._end_line()

    def _tell(self, text: str) -> None:
        """Say something on a line of its own, above a moving one."""
        line = "\r" + text.ljust(self._width) if self._moving else self._stamp() + text
        self._stream.write(line + "\n")
        self._stream.flush()
        self._width = 0

    def _draw(self, line: str, whole: bool = False) -> None:
        if not self._moving:
            self._stream.write(self._stamp() + line + "\n")
        else:
            # A line longer than the terminal would wrap, and then "\r" does not reach its start.
            shown = line if whole else line[: shutil.get_terminal_size().columns - 1]
            self._stream.write("\r" + shown.ljust(self._width))
            self._width = len(shown)
        self._stream.flush()

    def _stamp(self) -> str:
        if not self._stamped:
            return ""
        return f"{datetime.fromtimestamp(self._now, UTC).isoformat(timespec='seconds')}  "

    def _end_line(self) -> None:
        self._stream.write("\n")
        self._stream.flush()
        self._width = 0


def progress_line() -> ProgressLine:
    """Return a line for standard output, with the time if that is the log of a script."""
    return ProgressLine(sys.stdout, stamped=ipython_shell() is None)


def waited_for(event: Stalled) -> str:
    """Return what a run waits for, without the time since when: that changes each time."""
    return event.message.partition(": ")[2] or event.message


def describe(totals: Totals) -> str:
    """Return a run's sums as one line of text; what is unknown yet is left out.

    Returns
    -------
    str
        Such as ``epoch 2/5  milestones 340  215,000 samples/s  loss 0.213  val_loss 0.25
        val_accuracy 0.94  staleness 1.0``, with epochs counted from 1, the latest validation where
        there is one, and the staleness where there can be any.
    """
    parts = [
        f"epoch {min(totals.epoch + 1, totals.epochs)}/{totals.epochs}",
        f"milestones {totals.milestones}",
    ]
    if totals.samples_per_second:
        parts.append(f"{totals.samples_per_second:,.0f} samples/s")
    if totals.milestones:
        parts.append(f"loss {totals.loss:.3g}")
        validated = list(totals.validation.items())[:VALIDATED]
        parts += [f"{one_line(f'val_{name}', LABEL)} {value:.3g}" for name, value in validated]
        if not math.isnan(totals.staleness_mean):
            parts.append(f"staleness {totals.staleness_mean:.1f}")
    return "  ".join(parts)
