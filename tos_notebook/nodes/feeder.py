"""Feeds the nodes of a cluster, each RDD by a Spark job of its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..cluster.executors import slots
from ..cluster.jobs import cancel, in_pool, pool_of, run_job, spoken
from ..common.threads import in_thread
from ..errors import TosError, WaitTimeout
from .plan import ServerAddress
from .roster import Roster
from .tasks import FeedRows

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

logger = logging.getLogger(__name__)

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
        feed = self._roster.begin_feed()
        task = FeedRows(self._server, queue, timeout=timeout, feed=feed.name)
        try:
            self._run(rows, task, f"{group}-{feed.number}")
        except TosError as error:
            return feed.error or error
        finally:
            self._roster.end_feed(feed)
        return feed.error

    def _run(self, rows: RDD[Any], task: FeedRows, group: str) -> None:
        """Run a job of its own: the caller's later ones are none of this cluster's."""
        sc, roster, pool = self._sc, self._roster, pool_of(self._sc)

        def call() -> None:
            run_job(
                sc, lambda: rows, lambda number, part: task(part, number), group, "Feed TensorFlow"
            )

        job = in_thread(group, lambda: in_pool(sc, pool, call))
        job.add_done_callback(lambda _: roster.wake())
        self._groups.add(group)
        try:
            # A node's failure ends the wait, and so do the ends of all nodes, however long Spark's
            # tasks take. While one runs, the job stays: it may lose its process with the job.
            while not roster.wait_for(
                lambda: job.done() or roster.failure is not None or roster.without_readers, TURN
            ):
                pass
            if job.done():
                with spoken():
                    job.result()
        finally:
            self._groups.discard(group)
            # After an interrupt, too.
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
