"""The rules of one run while it trains."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from .mishap import NOTHING, Mishap
from .rules import Rule

_Struck = dict[int, tuple[int, int]]


class Chaos:
    """The rules of a run that are in force, and what they have done.

    Parameters
    ----------
    rules : sequence of Rule
    version : int
        Of the settings that they came with.
    clock : callable
        Seconds.
    """

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        version: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # With each rule that strikes once: the milestone and the task that it struck, by partition.
        self._rules: list[tuple[Rule, _Struck]] = [(rule, {}) for rule in rules]
        self._version = version
        self._clock = clock
        self._began = clock()
        self._milestones: Counter[int] = Counter()

    @property
    def asked_for(self) -> bool:
        """Whether there are rules, used up or not: their last strike is told again."""
        return bool(self._rules)

    def in_force(self, partitions: int) -> tuple[Rule, ...]:
        """Return the rules that may still strike one of so many partitions."""
        return tuple(
            rule
            for rule, struck in self._rules
            if not (self._late(rule) or _is_over(rule, struck, partitions))
        )

    def tick(self, partition: int, version: int, milestones: int = 1) -> None:
        """Count milestones that were trained under some version of the settings."""
        if self._rules and version >= self._version:
            self._milestones[partition] += milestones

    def strike(self, partition: int, executor: str, task: int, partitions: int) -> Mishap:
        """Return what happens in a worker's next milestone.

        Asked again before that milestone, the answer is the same; another attempt at it is spared
        by a rule that strikes once.

        Parameters
        ----------
        partition : int
        executor : str
        task : int
            Names the attempt.
        partitions : int
            How many there are.
        """
        milestone = self._milestones[partition] + 1
        mishap = NOTHING
        for rule, struck in self._rules:
            if partition in struck:
                hits = struck[partition] == (milestone, task)
            else:
                hits = (
                    not self._late(rule)
                    and rule.means(partition, executor, partitions)
                    and rule.falls_on(partition, milestone)
                )
                if hits and rule.once:
                    struck[partition] = milestone, task
            if hits:
                mishap |= rule.mishap
        return mishap

    def _late(self, rule: Rule) -> bool:
        limit = rule.for_seconds
        return limit is not None and self._clock() - self._began >= limit


def _is_over(rule: Rule, struck: _Struck, partitions: int) -> bool:
    """Whether no worker is left to strike. Workers may come to an executor at any time."""
    if rule.executor is not None:
        return False
    meant = [p for p in range(partitions) if rule.means(p, "", partitions)]
    return bool(meant) and all(partition in struck for partition in meant)
