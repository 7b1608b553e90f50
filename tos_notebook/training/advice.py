"""What a run advises its user to change, by what its workers do with their time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..blocks.source import DataSource
from ..coordination.settings import Settings
from ..errors import TosError
from ..readable import counted
from ..steering.machine import Command
from ..steering.sync import ASP
from ..strategies.base import Strategy
from ..strategies.ps.settings import ServerSettings
from ..telemetry.pace import Paces
from ..theory import AMONG_WORKERS
from ..theory.advice import (
    GIVE,
    Advisor,
    Change,
    WorkerTimes,
    among_workers,
    averaging,
    in_shards,
    most_gain,
    seldom,
    together,
    without_waiting,
)
from .parts import RunParts
from .sent import sent_bytes
from .shared_cores import shared_cores

LEAST = 20
"""Milestones from which on anything is advised."""

LOCAL_STEPS = 10
"""Batches between two averages of parameters, where gradients are exchanged after each."""

FEWEST = 3
"""Workers from which on shards are advised. With two, it may be their own links that are slow."""

LEAST_EACH = 3
"""And of each worker; those with fewer do not count."""


class RunAdvisor:
    """Advises one run; see `RunStatus.advice`."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._advisor = Advisor()
        self._seen = 0

    def advice(self, strategy: Strategy, source: DataSource) -> str | None:
        """Return what to change and what it would bring; None where nothing would bring much.

        Parameters
        ----------
        strategy : Strategy
            That which trains the run now.
        source : DataSource
            In the present layout.
        """
        settings = self._parts.training.settings
        situation = settings.sync_interval, settings.sync, settings.strategy, settings.chaos
        changes = _Changes(self._parts, strategy, source, settings)
        found = self._advisor.advise(situation, self._known(changes))
        return None if found is None else str(found)

    def _known(self, changes: _Changes) -> list[Change] | None:
        """Return what may be advised; None before `LEAST` more milestones than at the last time."""
        seen = len(self._parts.history)
        if seen < self._seen + LEAST:
            return None
        found = self._parts.history.paces()
        known = (w for w in found.workers if w.milestones >= LEAST_EACH)
        paces = replace(found, workers=tuple(w for w in known if w.busy > 0 and w.samples > 0))
        if paces.milestones < LEAST:
            return None
        self._seen = seen
        return [*changes.by(paces)]


@dataclass(frozen=True, slots=True)
class _Changes:
    """What may be advised to a run as it is trained now."""

    parts: RunParts
    strategy: Strategy
    source: DataSource
    settings: Settings

    def by(self, paces: Paces) -> Iterator[Change]:
        """Yield what changes would bring, by what workers do with their time."""
        workers = [WorkerTimes(w.samples, w.busy, w.exchange, w.wait) for w in paces.workers]
        cores = shared_cores(self.parts, paces)
        most = math.inf if cores is None else most_gain(workers, paces.at_once, cores)
        found = [*self._without_limit(paces, workers)]
        for change in [*found, *self._shards(paces, workers, found)]:
            yield replace(change, gain=min(change.gain, most))

    def _without_limit(self, paces: Paces, workers: Sequence[WorkerTimes]) -> Iterator[Change]:
        strategy, settings = self.strategy, self.settings
        nbytes = self.parts.program.layout.nbytes
        if "graph" in strategy.needs:
            # It is compared with others, and cannot be swapped.
            return
        # Gradients of more batches are those of a larger batch, which trains otherwise.
        larger = settings.strategy.pushes == "gradients"
        if not larger and self._fits(2 * settings.sync_interval):
            yield seldom(workers, settings.sync_interval)
        if settings.strategy.lockstep and strategy.sampling is None:
            yield without_waiting(workers, "strategy='ps'")
        elif (
            not settings.strategy.lockstep
            and settings.sync.slack is not None
            and self._may_set(sync=ASP)
        ):
            yield without_waiting(workers, "sync='asp'")
        # Processes of one host exchange through its memory, by any algorithm.
        through_driver = paces.remote and getattr(strategy, "algorithm", None) == "star"
        if through_driver:
            for name in AMONG_WORKERS:
                to = f"strategy='allreduce:{name}'" if larger else f"algorithm={name!r}"
                yield among_workers(workers, to, name, nbytes, paces.hosts)
        elif larger and strategy.sampling is None and self._has_batches(LOCAL_STEPS):
            yield averaging(workers, f"strategy='allreduce:parameters/{LOCAL_STEPS}'", LOCAL_STEPS)
        # Others wait for a slot, which all-reduce does not let them.
        all_train = round(paces.at_once) >= len(paces.workers)
        if paces.remote and all_train and not settings.strategy.lockstep:
            to = f"strategy='allreduce:parameters/{settings.sync_interval}'"
            for name in AMONG_WORKERS:
                servers, sent = max(1, strategy.tasks), sent_bytes(self.parts, paces)
                yield together(workers, to, name, nbytes, paces.hosts, servers, sent)

    def _shards(
        self, paces: Paces, workers: Sequence[WorkerTimes], others: Sequence[Change]
    ) -> Iterator[Change]:
        """Yield what more shards would bring, and how many slots they need that are not there.

        Slots that are not there are asked for only where nothing else would do.
        """
        now, parts, settings = self.strategy.tasks, self.parts, self.settings
        apart = not settings.strategy.lockstep and not settings.sync.barrier
        all_train = round(paces.at_once) >= len(workers) >= FEWEST
        if not (paces.remote and apart and all_train):
            return
        count, change = in_shards(workers, now)
        if count <= max(1, now) or not self._takes_shards(count):
            return
        slots = parts.plan.slots + parts.strategy.tasks
        missing = self.source.partitions + count - slots
        if missing <= 0:
            yield change
        elif all(other.gain < GIVE for other in others):
            yield replace(change, to=f"{change.to} and {counted(missing, 'more slot')}")

    def _takes_shards(self, count: int) -> bool:
        """Whether shards can merge by the present combiner."""
        settings, own = self.settings, self.settings.strategy
        if not isinstance(own, ServerSettings):
            return False
        try:
            replace(own, shards=count).check(settings.sync, settings.sync_interval)
        except TosError:
            return False
        return Command.SWAP_STRATEGY in self.strategy.commands

    def _has_batches(self, count: int) -> bool:
        """Whether a partition has so many batches in an epoch, as far as that is known."""
        source, batch_size = self.source, self.parts.task.plan.batch_size
        return source.samples is None or source.samples / source.partitions / batch_size >= count

    def _fits(self, sync_interval: int) -> bool:
        """Whether a run may exchange after so many batches, and has them."""
        if not self._has_batches(sync_interval):
            return False
        return self._may_set(sync_interval=sync_interval)

    def _may_set(self, **changes: Any) -> bool:
        try:
            self.settings.changed(**changes)
        except TosError:
            return False
        return Command.SET in self.strategy.commands
