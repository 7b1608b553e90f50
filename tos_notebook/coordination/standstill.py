"""Decides when a worker that stands still loses its place to another attempt.

`still` decides, a pure function of `Facts` and the time. `Standstill` asks it, and acts.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence

from ..errors import ClusterUnreachable, TosError, WorkerError
from ..steering.machine import RunState
from .membership import Doing, Member
from .watchdog import JOB, Facts

log = logging.getLogger(__name__)

FIRST = 5
"""Times the limit: for loading the data and for the first milestone, which traces the program."""

SLOWER = 3
"""Times the longest milestone so far: a model whose milestones are long has a longer limit."""

GAP = 10.0
"""Seconds between two looks. After more, this process stood still, and not its workers."""

ATTEMPTS = 3
"""So many attempts in a row at one partition that commit nothing and stand still end the run."""


def still(facts: Facts, now: float, limit: float, since: float = -math.inf) -> list[Member]:
    """Return the workers that have stood still for too long.

    A worker that waits for others, or for a paused run, is not silent: it asks twice a second
    whether it may continue.

    Parameters
    ----------
    facts : Facts
    now : float
        The time, by the facts' clock.
    limit : float
        Seconds.
    since : float
        Silence before then does not count.
    """
    if facts.state == RunState.PAUSED or facts.phase != JOB:
        return []
    longest = max((member.longest for member in facts.members), default=0.0)
    limit = max(limit, SLOWER * longest)
    return [
        member
        for member in facts.members
        # While it merges a push, the server is the one that works.
        if member.doing is not Doing.MERGE
        and now - max(member.heard, since) >= (limit if member.pushed else FIRST * limit)
    ]


class Standstill:
    """Gives the place of a worker that stands still to another attempt.

    Parameters
    ----------
    limit : float or None
        Seconds; None for never.
    supersede : callable
        Takes a member as it was, and a reason; returns whether it has lost its place.
    kill : callable
        Takes a Spark task attempt id, and a reason; Spark then starts another attempt.
    fail : callable
        Takes the error that ends the run.
    continue_without : callable
        Takes partitions that have no worker, for which the others are to wait no longer.
    patience : float
        Seconds that they wait, where they may continue.

    Attributes
    ----------
    notes : tuple of str
        One sentence for each partition whose worker has lost its place.
    """

    def __init__(
        self,
        limit: float | None,
        supersede: Callable[[Member, str], bool],
        kill: Callable[[int, str], object],
        fail: Callable[[TosError], object],
        continue_without: Callable[[Sequence[int]], object] = len,
        patience: float = math.inf,
    ) -> None:
        self.notes: tuple[str, ...] = ()
        self._limit = limit
        self._supersede = supersede
        self._kill = kill
        self._fail = fail
        self._continue_without = continue_without
        self._patience = patience
        self._looked = math.inf
        self._since = -math.inf
        self._sentences: dict[int, str] = {}
        self._in_vain: Counter[int] = Counter()
        # By partition: the member that Spark is to kill, and when it was asked last.
        self._asked: dict[int, tuple[Member, float]] = {}
        self._ended = -math.inf
        self._seen: set[int] = set()

    def check(self, facts: Facts, now: float) -> None:
        """Look once, and act."""
        if facts.state == RunState.PAUSED or now - self._looked > GAP:
            self._since = now
        self._looked = now
        if facts.continues:
            self._wait_no_longer(facts, now)
        if self._limit is None:
            return
        for member in still(facts, now, self._limit, self._since):
            self._replace(member, facts, now)
        self._ask_again(facts, now, self._limit)
        self._end_left(facts, now)
        if not facts.continues:
            self._end_incomplete(facts, now, self._limit)

    def _replace(self, member: Member, facts: Facts, now: float) -> None:
        seconds = now - max(member.heard, self._since)
        reason = f"it stood still for {seconds:.0f} s (worker_timeout={self._limit:g})"
        if not self._supersede(member, reason):
            return
        partition = member.partition
        self._sentences[partition] = (
            f"Partition {partition} on executor {member.executor} ({member.host}, process "
            f"{member.pid}, attempt {member.attempt}) lost its place to another attempt in epoch "
            f"{member.epoch + 1}: {reason}."
        )
        self.notes = tuple(self._sentences.values())
        log.warning("%s", self._sentences[partition])
        self._in_vain[partition] = 0 if member.pushed else self._in_vain[partition] + 1
        if self._in_vain[partition] >= ATTEMPTS:
            self._fail(_hopeless(member, reason))
            return
        # Else its job has ended, and another one is in its place.
        if member.heard >= facts.since:
            self._ask(member, now)

    def _ask(self, member: Member, now: float) -> None:
        self._asked[member.partition] = member, now
        self._end(member.task, "a later attempt is to take its place")

    def _ask_again(self, facts: Facts, now: float, limit: float) -> None:
        """Ask Spark once more to kill those in whose place no attempt has come."""
        for partition, (member, at) in list(self._asked.items()):
            if facts.phase == JOB and partition not in facts.missing and at < now:
                del self._asked[partition]
            elif now - at >= limit:
                self._ask(member, now)

    def _end(self, task: int, reason: str) -> None:
        try:
            self._kill(task, reason)
        except Exception as error:
            log.warning("Spark was asked to kill task %s, but: %s", task, error)

    def _end_left(self, facts: Facts, now: float) -> None:
        """Kill the tasks that have left but do not end: Spark's next attempt ends at once."""
        since = max(facts.since, facts.changed, self._since)
        over = not facts.members and not facts.missing and facts.phase == JOB
        if not over or self._limit is None or self._ended >= since or now - since < self._limit:
            return
        self._ended = now
        for task in facts.left:
            self._end(task, f"it did not end within {self._limit:g} s of its last batch")

    def _end_incomplete(self, facts: Facts, now: float, limit: float) -> None:
        """Fail a run whose workers wait for a partition to which Spark gives no slot."""
        overdue = self._overdue(facts, now, limit)
        if overdue:
            self._fail(_incomplete(overdue, limit))

    def _wait_no_longer(self, facts: Facts, now: float) -> None:
        """Let workers continue without such a partition."""
        overdue = self._overdue(facts, now, self._patience)
        if overdue:
            self._continue_without(overdue)

    def _overdue(self, facts: Facts, now: float, limit: float) -> list[int]:
        """Return partitions for which all others have waited too long; longer for their first."""
        self._seen |= {member.partition for member in facts.members}
        if not (facts.lockstep and facts.members and facts.phase == JOB):
            return []
        waited = now - max(facts.since, facts.changed, self._since)
        missing = facts.missing
        return [p for p in missing if waited >= (limit if p in self._seen else FIRST * limit)]


def _incomplete(partitions: Sequence[int], limit: float) -> ClusterUnreachable:
    first, *others = partitions
    more = f" (and {len(others)} more)" if others else ""
    return ClusterUnreachable(
        f"Partition {first}{more} has had no worker for too long (worker_timeout={limit:g}), "
        "and all other workers wait for it. Look on Spark's page for a node that was lost. Resume "
        "from a checkpoint with more slots or fewer partitions, or choose "
        "AllReduce(on_loss='continue')."
    )


def _hopeless(member: Member, reason: str) -> WorkerError:
    return WorkerError(
        f"Standstill: {ATTEMPTS} attempts in a row committed nothing and stood still; the last: "
        f"{reason}. Look at the executor's standard error, and for an operation or an input "
        "function that waits forever. If a milestone takes that long, raise worker_timeout.",
        **member.who(),
        epoch=member.epoch,
    )
