"""Whether a Spark job that lost its workers starts again, and after how long a wait.

Pure but for the clock, which is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import ClusterUnreachable

LIMIT = 10
"""Restarts in a row, of jobs that ended soon after they had started."""

STEADY_SECONDS = 600.0
"""A job that has run for so long was well; what ends it is a new misfortune."""

STEADY_COMMITS = 50
"""The same of a job in which every partition has committed so many milestones."""

LONGEST = 60.0
"""Seconds of the longest wait. The first restart comes at once, the next after 1, 2, 4, ... s."""


class Restarts:
    """Counts the restarts in a row, and says how long to wait before the next.

    Parameters
    ----------
    clock : callable
        Seconds.

    Attributes
    ----------
    count : int
        In a row: a job that ran well begins another row.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        self._clock = clock
        self._began = 0.0

    def begin(self) -> None:
        """Note that a job starts."""
        self._began = self._clock()

    def delay(self, commits: int, least: int, finished: int = 0) -> float | None:
        """Return the seconds to wait before the job starts again; None to give it up.

        Parameters
        ----------
        commits : int
            Milestones that were committed since `begin`.
        least : int
            Of these, those of the partition that got least far: the others may train well while
            one partition ends each job.
        finished : int
            Partitions that got done, which is as good: there are only so many of them.
        """
        if finished or least >= STEADY_COMMITS or self._clock() - self._began >= STEADY_SECONDS:
            self.count = 0
        if commits < 1 or self.count >= LIMIT:
            return None
        self.count += 1
        return 0.0 if self.count == 1 else min(LONGEST, 2.0 ** (self.count - 2))


FRUITLESS = 3
"""Recoveries in a row from which nothing more was trained."""


class Recoveries:
    """Counts how often parameters were lost in a row, with nothing trained between."""

    def __init__(self) -> None:
        self._row, self._version = 0, -1

    def count(self, reason: str, version: int) -> int:
        """Note that they were lost; return how often in a row.

        Parameters
        ----------
        reason : str
        version : int
            Of the parameters that the run has returned to.

        Raises
        ------
        ClusterUnreachable
            It was too often.
        """
        self._row = 1 if version > self._version else self._row + 1
        self._version = max(version, self._version)
        if self._row > FRUITLESS:
            raise ClusterUnreachable(
                f"Shards of the parameters were lost {self._row} times in a row, with nothing "
                f"trained between. See the executors' logs. The last time: {reason}"
            )
        return self._row
