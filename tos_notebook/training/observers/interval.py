"""Chooses the sync interval by what batches and exchanges take; see ``sync_interval="auto"``."""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from statistics import fmean

from ...common.threads import SerialExecutor
from ...errors import InvalidTransition
from ...events import (
    CommandAccepted,
    Event,
    MilestoneCommitted,
    RunResumed,
    RunStarted,
    StrategySwapped,
)
from ...steering.source import INTERVAL, commands_from
from ...theory.interval import SHARE, shortest_interval
from .base import Observer, RunContext

logger = logging.getLogger(__name__)

LEAST = 20
"""Milestones that are measured before each choice."""

LEAST_EACH = 3
"""And of each worker."""

CHOICES = 3
"""How often it chooses: where workers share a link, another interval changes an exchange, too."""

ALIKE = 1.5
"""After an interval that is so many times as long as the present one, or less, it ends."""

MOST = 1000
"""Batches between two exchanges, at most."""

FINISH_TIMEOUT = 10.0
"""Seconds that the end of a run waits for a choice under way."""


class IntervalChooser(Observer):
    """Sets the sync interval on a thread of its own, a few times.

    It ends once the user sets an interval, or another strategy trains.

    Parameters
    ----------
    context : RunContext
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._seen = self._chosen = 0
        self._left = CHOICES
        self._interval: str | None = None
        self._most = MOST
        self._executor = SerialExecutor("tos-interval", 1)

    def __call__(self, event: Event) -> None:
        """Count milestones; have an interval chosen after enough of them."""
        if isinstance(event, RunStarted | RunResumed) and event.samples is not None:
            rows = event.samples / event.partitions
            batches = math.ceil(rows / self._context.run.settings.batch_size)
            self._most = max(1, min(MOST, batches))
        elif isinstance(event, StrategySwapped):
            self._left = 0
        elif isinstance(event, CommandAccepted) and "sync_interval" in event.changes:
            self._seen = 0
            if str(event.changes["sync_interval"]) != self._interval:
                self._left = 0
        elif isinstance(event, MilestoneCommitted) and self._left:
            self._seen += 1
            if self._seen >= LEAST:
                self._seen = 0
                self._executor.clear()
                self._executor.put(self._choose)

    def finish(self, last: bool) -> None:
        """See `Observer.finish`."""
        self._executor.clear()
        self._executor.end(FINISH_TIMEOUT)

    def _choose(self) -> None:
        workers = self._context.paces().workers
        known = [w for w in workers if w.milestones >= LEAST_EACH and w.steps and w.busy > 0]
        if not self._left or not known or len(known) < len(workers):
            return
        present = self._context.run.settings.sync_interval
        assert present is not None
        batch = fmean(worker.busy / worker.steps for worker in known)
        # A milestone may be of several exchanges.
        exchange = fmean(w.exchange / max(1.0, w.steps / present) for w in known)
        chosen = min(self._most, shortest_interval(batch, exchange))
        self._left -= 1
        if max(chosen, present) <= ALIKE * min(chosen, present):
            # Of two that are alike it is the longer one, by which exchanges take no more.
            chosen, self._left = max(chosen, present), 0
        share = exchange / (chosen * batch + exchange)
        text = (
            f"sync_interval='auto' has chosen {chosen}: a batch takes {1e3 * batch:.3g} ms and an "
            f"exchange {1e3 * exchange:.3g} ms, so that exchanges take {100 * share:.0f} % of the "
            f"time, where at most {100 * SHARE:.0f} % are wanted"
        )
        if share > SHARE and chosen >= self._most:
            text += f". It chooses at most {self._most}: no more than a worker's epoch, or {MOST}"
        self._interval = str(chosen)
        if chosen != present:
            # The run may have ended.
            with suppress(InvalidTransition), commands_from(INTERVAL):
                self._context.run.set(sync_interval=chosen)
        self._notes = (f"{text}.",)
        logger.info("%s", self._notes[0])
