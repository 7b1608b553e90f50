"""How far a run has come: `RunStatus`, and what a caller waits for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..common.checks import at_least_one
from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """What of a run is saved.

    `number` is that of the newest checkpoint that this process has written, `when` its time in
    seconds since 1970; both are None before the first. `error` says why there is no newer one,
    and is None if the latest attempt succeeded. `resumed` is the number of the checkpoint from
    which the run continued, None for a run that was started.
    """

    number: int | None = None
    when: float | None = None
    error: str | None = None
    resumed: int | None = None

    def __str__(self) -> str:
        """Say what is saved, and what is missing."""
        found = "The run has no checkpoint yet"
        if self.number is not None and self.when is not None:
            clock = time.strftime("%H:%M:%S", time.localtime(self.when))
            found = f"The newest checkpoint is number {self.number}, of {clock}"
        elif self.resumed is not None:
            found = f"The run has no checkpoint since it continued from number {self.resumed}"
        return f"{found}: {self.error}" if self.error else f"{found}."


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run at one moment. `epoch` counts from 1; before any push the loss is NaN, a rate 0.

    `elapsed` are the seconds since the run's start. Pauses count; the time between the death of
    its process and a resume does not.

    `rows_skipped` counts what ``on_bad="skip"`` has left out of the data, once for all epochs; a
    partition's are known when the Spark job that reads it has ended.

    `waits_for` says what has not come for longer than the run's patience, and where to look;
    `notes` what has gone wrong beside the training, such as a callback that raised.

    `steps` counts the batches of all workers together: the global step. `metrics` are means over
    the latest milestones, as is the loss; `validation` is the latest evaluation of the validation
    data, of `validations` so far. `reason` says why the run was stopped, if that is known.
    `checkpoint` says what is saved; it is None for a run without checkpoints.
    """

    run: str
    state: str
    epoch: int
    epochs: int
    milestones: int
    samples: int
    samples_per_second: float
    loss: float
    staleness: float
    elapsed: float
    waits_for: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rows_skipped: int = 0
    steps: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    validation: Mapping[str, float] = field(default_factory=dict)
    validations: int = 0
    reason: str | None = None
    checkpoint: CheckpointStatus | None = None


class Progress(NamedTuple):
    """What is counted of a run at one moment."""

    epoch: int
    """The latest one that any worker is in."""
    milestones: int
    """So far, of all workers together."""
    each: tuple[int, ...]
    """The same by partition, of those that there are now."""
    workers: int
    """Those that have begun their partition, and are not lost."""


class Goal:
    """So many more milestones or epochs than at the beginning, or so many workers.

    Parameters
    ----------
    wanted : mapping of str to int or None
        One of milestones, epochs and workers, at least 1.
    each : bool
        Whether each partition is to have so many milestones, and not all together.
    begun : Progress

    Raises
    ------
    ConfigError
        Not one of them was given, or a number out of range.
    """

    def __init__(self, wanted: Mapping[str, int | None], each: bool, begun: Progress) -> None:
        given = {name: number for name, number in wanted.items() if number is not None}
        if len(given) != 1 or (each and "milestones" not in given):
            raise ConfigError(
                f"wait_for: expected one of {', '.join(f'{name}=' for name in wanted)}, and "
                "each=True with milestones= only; got "
                f"{', '.join(f'{n}={v!r}' for n, v in given.items()) or 'none'}, each={each}."
            )
        ((self._what, number),) = given.items()
        self._count = at_least_one(self._what, number)
        self._each, self._begun = each, begun

    def reached(self, now: Progress) -> bool:
        """Return whether that has come."""
        if self._what == "workers":
            return now.workers >= self._count
        if self._what == "epochs":
            return now.epoch - self._begun.epoch >= self._count
        if not self._each:
            return now.milestones - self._begun.milestones >= self._count
        # After a repartition there may be more of them, or fewer.
        before = self._begun.each + (0,) * len(now.each)
        return all(n - b >= self._count for n, b in zip(now.each, before, strict=False))

    def __str__(self) -> str:
        if self._what == "workers":
            return f"{self._count} workers"
        return f"{self._count} more {self._what}{' of each partition' * self._each}"
