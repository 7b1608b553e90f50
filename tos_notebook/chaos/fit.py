"""Whether rules fit a run: told where they are given, before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..errors import ConfigError
from .rules import Kill, Rule


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run trains.

    Parameters
    ----------
    partitions : int
    executors : collection of str
        Those that are known; empty before the first worker has joined.
    master : str
        Spark's.
    attempts : int
        How often Spark runs a task before it gives up the job.
    """

    partitions: int
    executors: Collection[str]
    master: str
    attempts: int

    def check(self, rules: Iterable[Rule]) -> None:
        """Check rules.

        Raises
        ------
        ConfigError
            Something else than a rule, a worker or an executor that there is not, or a kill that
            the run could not survive.
        """
        for rule in rules:
            if not isinstance(rule, Rule):
                raise ConfigError(
                    "chaos: expected rules such as chaos.Slow(5, worker=1), chaos.Pause(3) or "
                    f"chaos.Kill(); got {rule!r}."
                )
            self._check_who(rule)
            if isinstance(rule, Kill) and self.attempts < 2:
                raise ConfigError(
                    f"chaos.Kill: Spark with master {self.master} does not try a lost task again, "
                    "so that the run would end. Connect to local[2,4], for example, which allows "
                    "4 attempts at a task."
                )

    def _check_who(self, rule: Rule) -> None:
        last = self.partitions - 1
        if rule.worker is not None and rule.worker > last:
            raise ConfigError(f"worker: expected a partition from 0 to {last}, got {rule.worker}.")
        if rule.executor is not None and self.executors and rule.executor not in self.executors:
            known = ", ".join(sorted(self.executors))
            raise ConfigError(f"executor: expected one of {known}; got {rule.executor!r}.")
