"""The numbers of a run that header, panel, status bar and cells show: all of them the same."""

from __future__ import annotations

import math

from ..events import MilestoneCommitted
from ..telemetry.tally import Tally
from .concerns import concern
from .curves import Curves
from .news import Concern, Links, Totals
from .numbers import short
from .rate import Pace
from .workers import Workers

FORESEEN = ("running", "paused")
"""States of a run whose end can be foreseen; of a paused one, when it will have been resumed."""


class Figures:
    """Sums and rates of one run. Not thread-safe.

    Parameters
    ----------
    tally : Tally
        Has counted each milestone before this hears of it, as have the next two.
    curves : Curves
    workers : Workers
    """

    def __init__(self, tally: Tally, curves: Curves, workers: Workers) -> None:
        self._tally, self._curves, self._workers = tally, curves, workers
        self._bytes = 0
        self._pace = Pace()
        self._lowest, self._at_best = math.inf, math.nan
        self._shown: tuple[tuple[int, str], float | None] = (0, ""), None

    def milestone(self, event: MilestoneCommitted) -> None:
        """Count one milestone."""
        self._bytes += event.bytes_up + event.bytes_down
        if not self._pace.begun:
            spent = event.compute + event.wait + event.exchange
            before = self._tally.totals().samples - event.samples
            self._pace.begin(self._tally.clock.at(event.time) - spent, before)

    def validated(self) -> None:
        """Take note of the training loss, if the curves' latest evaluation is the best."""
        best = self._curves.best.get("loss")
        if best is not None and best.later == 0:
            self._at_best = self._tally.totals().loss

    def resumed(self) -> None:
        """Take note that another process has trained what came before."""
        self._pace.forget()

    def totals(self, now: float, state: str, ended: bool, epochs: int) -> Totals:
        """Return what a run has trained so far.

        Parameters
        ----------
        now : float
            Seconds since the epoch.
        state : str
            The run's.
        ended : bool
        epochs : int
            Of the whole run.
        """
        totals, curves = self._tally.totals(), self._curves
        goal = curves.size * epochs if curves.size else None
        at = self._tally.clock.at(now)
        rate = totals.samples_per_second if ended else self._pace.of_late(at, totals.samples)
        left = self._pace.left(at, totals.samples, goal) if state in FORESEEN else None
        return {
            "milestones": totals.milestones,
            "samples": totals.samples,
            "samples_total": goal,
            "samples_per_second": short(rate),
            "validation": curves.latest_validation(),
            "best": {
                name: {"value": short(best.value, 3), "epoch": best.epoch}
                for name, best in curves.best.items()
            },
            "warning": self._concern(totals.loss),
            "loss": self._loss(now, state, totals.loss),
            "metrics": dict.fromkeys(curves.metrics)
            | {name: short(value, 3) for name, value in totals.metrics.items()},
            "staleness_mean": short(totals.staleness_mean, 3),
            "recent_staleness": short(totals.recent_staleness, 4),
            "recent_workers": short(totals.recent_workers, 4),
            "bytes": self._bytes,
            "costs": self._workers.costs() if self._tally.lockstep else None,
            "links": self._links(),
            "eta": short(left, 3),
        }

    def _links(self) -> Links | None:
        found = self._tally.links.rates()
        rates = [(source, target, short(rate, 3)) for source, target, rate in found.busiest]
        return {"rates": rates, "more": found.more} if rates else None

    def _concern(self, loss: float) -> Concern | None:
        if math.isfinite(loss):
            self._lowest = min(self._lowest, loss)
        latest = self._curves.latest_validation()
        return concern(loss, self._lowest, self._at_best, self._curves.best, latest)

    def _loss(self, now: float, state: str, loss: float) -> float | None:
        """Return the loss that every reader shows: it changes once a second, for all at once."""
        moment = int(now), state
        if moment != self._shown[0] or self._shown[1] is None:
            self._shown = moment, short(loss, 3)
        return self._shown[1]
