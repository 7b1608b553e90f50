"""How far a run has come: `RunStatus`, and what a caller waits for."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from ..common.checks import at_least_one
from ..common.rows import Rows
from ..errors import ConfigError
from .links import LinkRates
from .shards import ShardLoad


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """What of a run is saved."""

    number: int | None = None
    """Of the newest checkpoint that this process has written; None before the first."""
    when: float | None = None
    """Its time in seconds since 1970; None before the first."""
    error: str | None = None
    """Why there is not a newer one; None if the latest attempt succeeded."""
    resumed: int | None = None
    """The checkpoint from which the run continued; None for a run that was started."""
    note: str | None = None
    """Why checkpoints go through the driver, where shards should write them; None if they do."""

    def __str__(self) -> str:
        """Say what is saved, and what is missing."""
        found = "The run has no checkpoint yet"
        if self.number is not None and self.when is not None:
            clock = time.strftime("%H:%M:%S", time.localtime(self.when))
            found = f"The newest checkpoint is number {self.number}, of {clock}"
        elif self.resumed is not None:
            found = f"The run has no checkpoint since it continued from number {self.resumed}"
        return f"{found}: {self.error}" if self.error else f"{found}."


@dataclass(frozen=True, slots=True, repr=False)
class RunStatus:
    """A run at one moment; a cell and a terminal show what is known as a table."""

    run: str
    """Its id."""
    state: str
    """One of starting, running, paused, stopping, finished, stopped, failed. Or queued: it starts
    when other runs free the slots that it needs."""
    epoch: int
    """The current one, from 1."""
    epochs: int
    """How many there will be."""
    milestones: int
    """Pushes that were merged, of all workers together."""
    samples: int
    """Rows that were trained, of all epochs and workers together."""
    samples_per_second: float
    """In the time of training, without pauses; 0 before any push."""
    loss: float
    """Mean over the latest milestones; NaN before any push."""
    staleness: float
    """Versions, mean over all milestones. NaN before any push, and if all workers make each step
    together, since nothing is stale. Also NaN if they share TensorFlow's variables, whose changes
    are not counted."""
    elapsed: float
    """Seconds since the run's start. Pauses count; the time between the death of its process and a
    resume does not, nor that in which it was queued."""
    waits_for: tuple[str, ...] = ()
    """What has not come for longer than the run's patience, and where to look."""
    notes: tuple[str, ...] = ()
    """Problems outside of the training, such as a callback that raised an error."""
    rows_skipped: int = 0
    """What ``on_bad="skip"`` has left out of the data, once for all epochs. A partition's are known
    when the Spark job that reads it has ended."""
    steps: int = 0
    """Optimizer steps of all workers together, the global step: each worker's batches, or the steps
    that all have made together, as with ``strategy="allreduce"``."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Means over the latest milestones."""
    validation: Mapping[str, float] = field(default_factory=dict)
    """The latest evaluation of the validation data, by name."""
    validations: int = 0
    """How many evaluations there were so far."""
    reason: str | None = None
    """Why the run was stopped, if that is known."""
    checkpoint: CheckpointStatus | None = None
    """What is saved; None for a run without checkpoints."""
    pending: tuple[str, ...] = ()
    """What was asked for and waits for the end of the epoch, such as another strategy."""
    lost: tuple[str, ...] = ()
    """Which workers were lost and are not there again, and what the run does about it."""
    links: LinkRates = field(default_factory=LinkRates)
    """What links between workers, and to the driver, carry of late; where all make each step
    together."""
    advice: str | None = None
    """Which other setting or strategy would train at least a fifth more rows a second; None if none
    would, or too little is known yet."""
    shards: tuple[ShardLoad, ...] = ()
    """The load of each shard of the parameters; none if the driver has them."""
    validations_left_out: int = 0
    """How many due evaluations were skipped, since one takes longer than the time between two."""

    def _rows(self) -> Rows:
        """Return what is known, by the names of the attributes."""
        apart = ("run", "validations_left_out")
        names = [each.name for each in fields(self) if each.name not in apart]
        found = {name: _shown(name, getattr(self, name)) for name in names}
        found |= {"epoch": f"{self.epoch} of {self.epochs}", "epochs": ""}
        if self.validations_left_out:
            found["validations"] = evaluated(self.validations, self.validations_left_out)
        # `Run.epochs` has means over epochs.
        for name in ("loss", "metrics"):
            found[name] += f" ({LATEST})" if found[name] else ""
        return Rows({"status": name, self.run: text} for name, text in found.items() if text)

    def __repr__(self) -> str:
        return repr(self._rows())

    def _repr_html_(self) -> str | None:
        return self._rows()._repr_html_()


def evaluated(count: int, left_out: int) -> str:
    """Return how many evaluations there were, and how many were left out."""
    return f"{count:,}" + (f" ({left_out:,} left out)" if left_out else "")


LATEST = "of the latest milestones"
"""What the loss and the metrics of a status are means of."""

_UNITS = {"samples_per_second": ",.0f", "elapsed": ",.1f"}
"""How some numbers are written, others with four digits."""


def _shown(name: str, value: object) -> str:
    """Return a value of a status for people; empty for what is not known, or is nothing."""
    if isinstance(value, int):
        return f"{value:,}" if value else ""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:{_UNITS.get(name, '.4g')}}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {number:.4g}" for key, number in value.items())
    if isinstance(value, tuple) and not isinstance(value, LinkRates):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def waits_for_epoch(command: str, detail: str) -> str:
    """Return that a command was accepted, and is still to be done."""
    return f"{command.capitalize()} waits for the end of the epoch: {detail}"


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
