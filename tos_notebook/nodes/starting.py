"""Starts the nodes of a cluster: those on executors by a Spark job, others on this machine."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ..cluster.executors import setting, slots
from ..cluster.jobs import run_job
from ..common.threads import in_thread
from .body import Main
from .keeper import Claim, Keeper
from .plan import ClusterOptions, NodePlan
from .tasks import StartNode

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

IDLE = (
    "Dynamic allocation is on: Spark ends executors that run no task for a while, and the nodes "
    "there end with them. Set spark.dynamicAllocation.executorIdleTimeout to more than nodes wait."
)


class Starting:
    """How the nodes of a cluster start.

    Parameters
    ----------
    sc : SparkContext
    options : ClusterOptions
    plan : NodePlan
    main, args, claim
        See `Keeper`.
    """

    def __init__(
        self,
        sc: SparkContext,
        options: ClusterOptions,
        plan: NodePlan,
        main: Main,
        args: Any,
        claim: Claim,
    ) -> None:
        self._sc, self._options, self._plan = sc, options, plan
        self._given = main, args, claim
        self._numbers = [each for each in options.numbers if each not in options.local]
        self._slots = slots(sc)
        self._grows = setting(sc, "spark.dynamicAllocation.enabled", "false") == "true"
        if options.feed and self._grows:
            logger.warning("%s", IDLE)
        crowded = len(self._numbers) > self._slots and not self._grows
        self._background = options.feed or crowded

    @property
    def note(self) -> str:
        """What other Spark jobs are to expect; empty if they find slots."""
        holds_all = not (self._background or self._grows) and len(self._numbers) >= self._slots
        if not holds_all:
            return ""
        held = f"all {self._slots} slots" if self._slots > 1 else "the only slot"
        return f"The nodes hold {held} of Spark. Other Spark jobs wait until the cluster has ended."

    def here(self) -> list[Future[None]]:
        """Start the nodes on the driver's machine, and keep them in threads."""
        # A process of its own: this one is the user's.
        keepers = [
            Keeper(self._plan, number, *self._given, fork=False) for number in self._options.local
        ]
        return [in_thread(f"tos-node-{keeper.number}", keeper.run) for keeper in keepers]

    def on_executors(self, name: str, group: str) -> Future[None]:
        """Start the others by a job of this group, and return it."""
        numbers, together = self._numbers, min(len(self._numbers), self._slots)
        task = StartNode(self._plan, *self._given, self._background, together)

        def call() -> None:
            run_job(
                self._sc,
                lambda: self._sc.parallelize(numbers, len(numbers)),
                lambda _, part: task(part),
                group,
                name,
            )

        return in_thread(f"tos-{name.lower().replace(' ', '-')}", call)
