"""The rules of one run while it trains."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from .mishap import NOTHING, Mishap
from .rules import Rule


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
        self._rules = [(rule, _Strikes(rule)) for rule in rules]
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
            for rule, strikes in self._rules
            if not (self._late(rule) or strikes.over(partitions))
        )

    def tick(self, partition: int, version: int) -> None:
        """Count a milestone that was trained under some version of the settings."""
        if self._rules and version >= self._version:
            self._milestones[partition] += 1

    def strike(self, partition: int, executor: str, task: int, partitions: int) -> Mishap:
        """Return what happens in a worker's next milestone.

        Asked again before that milestone, the answer is the same; another attempt at it is spared
        by what is limited by `times`.

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
        for rule, strikes in self._rules:
            struck = strikes.told(partition, milestone, task)
            if struck is None:
                struck = (
                    not self._late(rule)
                    and not strikes.used_up(partition)
                    and rule.means(partition, executor, partitions)
                    and rule.falls_on(partition, milestone)
                )
                if struck:
                    strikes.note(partition, milestone, task)
            if struck:
                mishap |= rule.mishap
        return mishap

    def _late(self, rule: Rule) -> bool:
        limit = rule.for_seconds
        return limit is not None and self._clock() - self._began >= limit


class _Strikes:
    """What a rule with `times` has done to each partition."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._counts: Counter[int] = Counter()
        self._last: dict[int, tuple[int, int]] = {}
        """The latest milestone that was struck, and in which task."""

    def told(self, partition: int, milestone: int, task: int) -> bool | None:
        """Whether this task was told of a milestone's strike; None if nobody was."""
        last = self._last.get(partition)
        return last[1] == task if last is not None and last[0] == milestone else None

    def note(self, partition: int, milestone: int, task: int) -> None:
        if self._rule.times is not None:
            self._counts[partition] += 1
            self._last[partition] = (milestone, task)

    def used_up(self, partition: int) -> bool:
        times = self._rule.times
        return times is not None and self._counts[partition] >= times

    def over(self, partitions: int) -> bool:
        """Whether nobody is left to strike. Workers may come to an executor at any time."""
        if self._rule.executor is not None:
            return False
        meant = [p for p in range(partitions) if self._rule.means(p, "", partitions)]
        return bool(meant) and all(self.used_up(partition) for partition in meant)
