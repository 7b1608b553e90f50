"""Feeds the nodes of a cluster, each RDD by a Spark job of its own."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from ..cluster.executors import slots
from ..cluster.jobs import cancel, in_pool, pool_of, run_job, spoken
from ..common.threads import in_thread
from ..errors import TosError, WaitTimeout, WorkerError
from .plan import ServerAddress
from .roster import Roster
from .tasks import FeedRows

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

WAVES = 4
"""Tasks of one job for each of Spark's slots: few are left over when no node wants more rows.

Such a task ends its Python process, since it leaves rows unread, and the next one starts another.
"""

TURN = 1.0
"""Seconds of a wait, after which an interrupt gets through."""


class Feeder:
    """Feeds the nodes of a cluster; several threads may feed at once.

    Parameters
    ----------
    sc : SparkContext
    roster : Roster
        What is known of the nodes.
    server : ServerAddress
        The driver's.
    """

    def __init__(self, sc: SparkContext, roster: Roster, server: ServerAddress) -> None:
        self._sc, self._roster, self._server = sc, roster, server
        self._groups: set[str] = set()
        self._fetched = itertools.count(1)

    def feed(
        self, rows: RDD[Any], epochs: int, queue: str, timeout: float, group: str
    ) -> TosError | None:
        """Feed all rows, until no node wants more; return why they could not be fed.

        Parameters
        ----------
        rows : RDD
        epochs : int
            How often.
        queue, timeout
            See `FeedRows`.
        group : str
            Begin of the jobs' groups.
        """
        together = max(1, WAVES * slots(self._sc) // _partitions(rows))
        for done in range(0, epochs, together):
            if self._roster.unwanted:
                break
            part = self._sc.union([rows] * min(together, epochs - done))
            error = self._feed(part, queue, timeout, group)
            if error is not None:
                return error
        return None

    def _feed(self, rows: RDD[Any], queue: str, timeout: float, group: str) -> TosError | None:
        roster = self._roster
        feed = roster.begin_feed()
        task = FeedRows(self._server, queue, timeout=timeout, feed=feed.name)
        group = f"{group}-{feed.number}"

        def call() -> None:
            run_job(
                self._sc,
                lambda: rows,
                lambda number, part: task(part, number),
                group,
                "Feed TensorFlow",
            )

        try:
            # A node's failure ends the wait, and so do the ends of all nodes, however long Spark's
            # tasks take.
            job = self._run(
                call, group, lambda: roster.failure is not None or roster.without_readers
            )
            if job is not None:
                with spoken():
                    job.result()
        except TosError as error:
            return feed.error or error
        finally:
            roster.end_feed(feed)
        return feed.error

    def fetch(self, job: Callable[[], Result], group: str) -> Result:
        """Make a job that fetches results, and return what it does.

        Parameters
        ----------
        job : callable
        group : str
            Begin of the job's group.

        Raises
        ------
        TosError
            It has failed, or a node has.
        """
        group = f"{group}-{next(self._fetched)}"

        def call() -> Result:
            self._sc.setJobGroup(group, "Fetch from TensorFlow", interruptOnCancel=True)
            return job()

        made = self._run(call, group, lambda: self._roster.failure is not None)
        if made is None:
            raise WorkerError("A node has failed.")
        with spoken():
            return made.result()

    def _run(
        self, call: Callable[[], Result], group: str, over: Callable[[], bool]
    ) -> Future[Result] | None:
        """Run a job of its own: the caller's later ones are none of this cluster's.

        Returns
        -------
        Future or None
            The job, which has ended; None where the wait was over before. It is cancelled then, and
            after an interrupt, too.
        """
        sc, roster, pool = self._sc, self._roster, pool_of(self._sc)
        job = in_thread(group, lambda: in_pool(sc, pool, call))
        job.add_done_callback(lambda _: roster.wake())
        self._groups.add(group)
        try:
            # While a task runs, the job stays: it may lose its process with the job.
            while not roster.wait_for(lambda: job.done() or over(), TURN):
                pass
            return job if job.done() else None
        finally:
            self._groups.discard(group)
            if not job.done():
                self._cancel(group)

    def cancel(self) -> None:
        """Cancel the jobs that feed."""
        for group in list(self._groups):
            self._cancel(group)

    def _cancel(self, group: str) -> None:
        try:
            cancel(self._sc, group)
        except WaitTimeout as error:
            logger.warning("%s", error)


def _partitions(rows: RDD[Any]) -> int:
    try:
        return max(1, int(rows.getNumPartitions()))
    except Exception:
        # Such as of files that are missing; the job says so.
        return 1
