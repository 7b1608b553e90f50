"""Rules: whom chaos strikes, when, and what happens to it.

Pure: who is struck and when is a function of a rule, its seed and a count of milestones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from ..common.checks import at_least_one, not_negative, positive
from ..errors import ConfigError
from .mishap import LONGEST, Mishap

MOST = 1000.0
"""How many times slower a worker can be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(ABC):
    """Whom it strikes, and when: the base of `Slow`, `Pause` and `Kill`.

    One of `worker`, `executor` and `any` says whom; without them it is one worker, drawn by
    `seed`. At most one of `at`, `every` and `probability` says when; without them it is every
    milestone, until `times` are used up. Milestones are counted for each partition from 1, from
    when the rule came into force.

    Parameters
    ----------
    worker : int, optional
        A partition's number.
    executor : str, optional
        Spark's id of an executor: all of its workers.
    any : int, optional
        So many workers, drawn by `seed`.
    seed : int
        Whom and when to draw.
    at : int, optional
        The only milestone.
    every : int, optional
        Milestones from one to the next.
    probability : float, optional
        Above 0, at most 1: drawn for each milestone.
    times : int, optional
        How often each of them; None for any number.
    for_seconds : float, optional
        How long the rule is in force at most.

    Raises
    ------
    ConfigError
        A value out of range, or two that exclude each other.
    """

    worker: int | None = None
    executor: str | None = None
    any: int | None = None
    seed: int = 0
    at: int | None = None
    every: int | None = None
    probability: float | None = None
    times: int | None = None
    for_seconds: float | None = None

    def __post_init__(self) -> None:
        self._check_one("whom", "worker", "executor", "any")
        self._check_one("when", "at", "every", "probability")
        for name in ("any", "at", "every", "times"):
            if getattr(self, name) is not None:
                at_least_one(name, getattr(self, name))
        for name in ("worker", "seed"):
            if getattr(self, name) is not None:
                not_negative(name, getattr(self, name))
        for name in ("probability", "for_seconds"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.probability is not None and self.probability > 1:
            raise ConfigError(f"probability: expected at most 1, got {self.probability}.")
        if self.executor is not None and not isinstance(self.executor, str):
            raise ConfigError(
                f"executor: expected Spark's id as text, such as '0'; got {self.executor!r}."
            )
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """Check what one kind of rule has besides."""

    @property
    @abstractmethod
    def mishap(self) -> Mishap:
        """What happens in a milestone that it strikes."""

    def means(self, partition: int, executor: str, partitions: int) -> bool:
        """Whether a worker is one of those that it strikes."""
        if self.worker is not None:
            return partition == self.worker
        if self.executor is not None:
            return executor == self.executor
        return partition in _drawn(self.seed, self.any or 1, partitions)

    def falls_on(self, partition: int, milestone: int) -> bool:
        """Whether it strikes a partition's milestone, which counts from 1."""
        if self.at is not None:
            return milestone == self.at
        if self.every is not None:
            return milestone % self.every == 0
        if self.probability is not None:
            return _chance(self.seed, partition, milestone) < self.probability
        return True

    def _check_one(self, what: str, *names: str) -> None:
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(
                f"{type(self).__name__}: expected one of {', '.join(names)} to say {what}; "
                f"got {' and '.join(given)}."
            )

    def __str__(self) -> str:
        return f"{self._whom()}: {self._what()}{self._when()}"

    @abstractmethod
    def _what(self) -> str:
        """Return the mishap in words."""

    def _whom(self) -> str:
        if self.worker is not None:
            return f"partition {self.worker}"
        if self.executor is not None:
            return f"executor {self.executor}"
        drawn = self.any or 1
        return f"{drawn} drawn worker{'' if drawn == 1 else 's'}"

    def _each(self) -> str:
        return "" if self.worker is not None or (self.executor or self.any or 1) == 1 else " each"

    def _when(self) -> str:
        words = {
            "at": f" at milestone {self.at}",
            "every": f" every {self.every} milestones",
            "probability": f" with probability {self.probability}",
            "times": (" once" if self.times == 1 else f" {self.times} times") + self._each(),
            "for_seconds": f" for at most {self.for_seconds:g} s" if self.for_seconds else "",
        }
        given = [text for name, text in words.items() if getattr(self, name) is not None]
        return "".join(f",{text}" for text in given)


@dataclass(frozen=True, slots=True)
class Slow(Rule):
    """Let a worker take `factor` times as long as it computes; it sleeps, at most `LONGEST` s.

    The sleep counts as computing, as it would on a slow machine. The other parameters are those of
    `Rule`.

    Parameters
    ----------
    factor : float
        From 1 to 1000.
    """

    factor: float

    def _check(self) -> None:
        if not 1 <= positive("factor", self.factor) <= MOST:
            raise ConfigError(f"factor: expected 1 to {MOST:g}, got {self.factor!r}.")

    @property
    def mishap(self) -> Mishap:
        """See `Rule.mishap`."""
        return Mishap(slow=float(self.factor))

    def _what(self) -> str:
        return f"{self.factor:g} times slower"


@dataclass(frozen=True, slots=True)
class Pause(Rule):
    """Let a worker stand still in a milestone, once by default; see `Rule` for the others.

    Parameters
    ----------
    seconds : float
        Above 0, at most 60.
    """

    seconds: float
    times: int | None = field(default=1, kw_only=True)

    def _check(self) -> None:
        if positive("seconds", self.seconds) > LONGEST:
            raise ConfigError(
                f"seconds: expected at most {LONGEST:g}, got {self.seconds!r}. Let it pause more "
                "than once by times=."
            )

    @property
    def mishap(self) -> Mishap:
        """See `Rule.mishap`."""
        return Mishap(pause=float(self.seconds))

    def _what(self) -> str:
        return f"stands still for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Kill(Rule):
    """Kill a worker's process before it sends a milestone's update, once by default.

    Spark tries the task again, up to ``spark.task.maxFailures`` times; the run goes on where the
    last committed milestone ended. No attempt at the same milestone is killed twice. See `Rule` for
    the parameters.
    """

    times: int | None = field(default=1, kw_only=True)

    def _check(self) -> None:
        at_least_one("times", self.times)

    @property
    def mishap(self) -> Mishap:
        """See `Rule.mishap`."""
        return Mishap(kill=True)

    def _what(self) -> str:
        return "killed"


@lru_cache(maxsize=64)
def _drawn(seed: int, count: int, partitions: int) -> frozenset[int]:
    ranked = sorted(range(partitions), key=lambda partition: _chance(seed, partition, 0))
    return frozenset(ranked[:count])


def _chance(seed: int, partition: int, milestone: int) -> float:
    """Return a number from 0 to 1; the same in every process."""
    return Random(f"{seed} {partition} {milestone}").random()


def describe(rules: Sequence[Rule]) -> str:
    """Return rules in words."""
    return "; ".join(map(str, rules)) or "off"
