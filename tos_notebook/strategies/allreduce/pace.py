"""How often workers exchange between two reports to the driver."""

from __future__ import annotations

import numpy as np

from ...worker.exchange import next_rounds
from .averaging import Averager

MILESTONE, MOST = 0.15, 2.0
"""Seconds that a milestone takes, for which a pause or stop waits, and the most of them."""

SHARE = 20
"""By how much longer a milestone takes than its report, as long as it may."""


class Pace:
    """Chooses the number of rounds by what they have taken, the same for all workers.

    Attributes
    ----------
    rounds : int
        Of the next milestone.
    """

    def __init__(self) -> None:
        self.rounds = 1
        self._report = 0.0

    def reported(self, seconds: float) -> None:
        """Note how long a report has taken."""
        self._report = seconds

    def agree(self, made: int, seconds: float, nbytes: int, averager: Averager) -> None:
        """Choose, by the means of all workers: those are the same bits on each.

        Parameters
        ----------
        made : int
            Rounds of the present milestone.
        seconds : float
            That they have taken.
        nbytes : int
            Of this worker's rows in them.
        averager : Averager
        """
        taken = np.array([seconds, self._report, float(nbytes)])
        averager.agree(taken)
        # A peer may send something that is not a number.
        np.nan_to_num(taken, copy=False)
        due = min(max(MILESTONE, SHARE * float(taken[1])), MOST)
        share = due / max(float(taken[0]), 1e-6)
        self.rounds = next_rounds(self.rounds, made, share, float(taken[2]))
