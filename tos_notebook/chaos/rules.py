"""Rules: whom chaos strikes, when, and what happens to it.

Pure: a rule and a count of milestones decide who is struck and when.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import ClassVar

from ..common.checks import at_least_one, not_negative, positive
from ..common.rows import Rows
from ..errors import ConfigError
from .mishap import LONGEST, Mishap

MOST = 1000.0
"""How many times slower a worker can be made."""

_SEED = 0
"""Runs that are compared with each other meet the same chaos."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(ABC):
    """Whom it strikes, and when: the base of `Slow`, `Pause` and `Kill`.

    At most one of `worker`, `executor` and `any` says whom; without them it is one worker, drawn.
    `at` or `probability` says when; without them it is every milestone. Milestones are counted for
    each partition from 1, from when the rule came into force. What is drawn is the same each time.

    Parameters
    ----------
    worker : int, optional
        A partition's number.
    executor : str, optional
        Spark's id of an executor: all of its workers.
    any : int, optional
        So many workers, drawn.
    at : int, optional
        The only milestone.
    probability : float, optional
        Above 0, at most 1: drawn for each milestone.
    for_seconds : float, optional
        How long the rule is in force at most.

    Raises
    ------
    ConfigError
        A value out of range, or two that exclude each other.
    """

    summary: ClassVar[str] = ""
    """What it does to a worker, for `describe`."""
    when: ClassVar[str] = ""
    """What it shows."""
    example: ClassVar[str] = ""

    worker: int | None = None
    executor: str | None = None
    any: int | None = None
    at: int | None = None
    probability: float | None = None
    for_seconds: float | None = None

    def __post_init__(self) -> None:
        self._check_one("whom", "worker", "executor", "any")
        self._check_one("when", "at", "probability")
        for name in ("any", "at"):
            if getattr(self, name) is not None:
                at_least_one(name, getattr(self, name))
        if self.worker is not None:
            not_negative("worker", self.worker)
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

    def _check(self) -> None:  # noqa: B027
        """Check what one kind of rule has besides."""

    @property
    def once(self) -> bool:
        """Whether it strikes each worker once at most."""
        return self.at is not None

    @property
    @abstractmethod
    def mishap(self) -> Mishap:
        """What happens in a milestone that it strikes."""

    def means(self, partition: int, executor: str, partitions: int) -> bool:
        """Return whether a worker is one of those that it strikes.

        Parameters
        ----------
        partition : int
            The worker's.
        executor : str
            Spark's id of its executor.
        partitions : int
            How many the run has.
        """
        if self.worker is not None:
            return partition == self.worker
        if self.executor is not None:
            return executor == self.executor
        return partition in _drawn(self.any or 1, partitions)

    def falls_on(self, partition: int, milestone: int) -> bool:
        """Return whether it strikes a milestone.

        Parameters
        ----------
        partition : int
            The worker's.
        milestone : int
            From 1, since the rule is in force.
        """
        if self.at is not None:
            return milestone == self.at
        return self.probability is None or _chance(partition, milestone) < self.probability

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

    def _when(self) -> str:
        words = {
            "at": f", at milestone {self.at}",
            "probability": f", with probability {self.probability}",
            "for_seconds": f", for at most {self.for_seconds:g} s" if self.for_seconds else "",
        }
        return "".join(text for name, text in words.items() if getattr(self, name) is not None)


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

    summary = "Lets a worker take so many times as long as it computes."
    when = "To see what a straggler costs, and which sync mode helps."
    example = "Slow(5, worker=1)"

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
    """Let a worker stand still in each milestone; see `Rule` for the other parameters.

    Parameters
    ----------
    seconds : float
        Above 0, at most 60.
    """

    summary = "Lets a worker stand still for so long in each milestone."
    when = "To see updates become stale, or who waits for whom."
    example = "Pause(2, any=1, probability=0.1)"

    seconds: float

    def _check(self) -> None:
        if positive("seconds", self.seconds) > LONGEST:
            raise ConfigError(f"seconds: expected at most {LONGEST:g}, got {self.seconds!r}.")

    @property
    def mishap(self) -> Mishap:
        """See `Rule.mishap`."""
        return Mishap(pause=float(self.seconds))

    def _what(self) -> str:
        return f"stands still for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Kill(Rule):
    """Kill each worker's process once, before it sends a milestone's update.

    Spark tries the task again, up to ``spark.task.maxFailures`` times; the run continues where the
    last committed milestone ended. Several rules kill several times. See `Rule` for the parameters.
    """

    summary = "Ends a worker's process once, before it sends a milestone's update."
    when = "To see Spark try the task again, and that each batch counts once."
    example = 'Kill(executor="0", at=20)'

    @property
    def once(self) -> bool:
        """A process is killed once."""
        return True

    @property
    def mishap(self) -> Mishap:
        """See `Rule.mishap`."""
        return Mishap(kill=True)

    def _what(self) -> str:
        return "killed"

    def _when(self) -> str:
        one = self.executor is None and (self.any or 1) == 1
        return f"{Rule._when(self)}, once{'' if one else ' each'}"


@lru_cache(maxsize=64)
def _drawn(count: int, partitions: int) -> frozenset[int]:
    ranked = sorted(range(partitions), key=lambda partition: _chance(partition, 0))
    return frozenset(ranked[:count])


def _chance(partition: int, milestone: int) -> float:
    """Return a number from 0 to 1; the same in every process."""
    return Random(f"{_SEED} {partition} {milestone}").random()


def describe() -> Rows:
    """Return a row of plain values for each kind of rule; they show as a table.

    Returns
    -------
    list of dict
        With keys ``name``, ``summary``, ``when``, ``example``.
    """
    return Rows(
        {"name": kind.__name__, "summary": kind.summary, "when": kind.when, "example": kind.example}
        for kind in (Slow, Pause, Kill)
    )


def in_words(rules: Sequence[Rule]) -> str:
    """Return rules in words."""
    return "; ".join(map(str, rules)) or "off"
