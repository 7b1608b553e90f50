"""What a run can be told while it trains, from the caller's side."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from ..blocks.partitioners import AnyPartitioner
from ..chaos.rules import Rule
from ..codecs import Codec
from ..codecs.pair import CodecPair
from ..common.checks import with_known_options
from ..steering.machine import Command
from ..steering.sync import SyncMode
from ..strategies.base import Strategy
from . import commands, swapping
from .lifecycle import Lifecycle
from .options import OPTIONS, also_named
from .options.elsewhere import sets
from .parts import RunParts
from .recovered import trained_after


class SteeredRun:
    """A run that takes commands; see `Run`."""

    def __init__(self, parts: RunParts) -> None:
        self.parts = parts
        self.lifecycle = Lifecycle(parts)
        self.lifecycle.epochs.swaps.way_round = partial(swapping.detour, self.lifecycle)
        self.lifecycle.epochs.recovered.trained_after = partial(trained_after, parts)
        self.chaos_log: tuple[Rule, ...] = ()

    @property
    def commands(self) -> frozenset[Command]:
        """The commands that the run accepts now."""
        return self.lifecycle.strategy.commands

    def pause(self) -> None:
        """Stop each worker at its next milestone, until `unpause`; nothing is lost.

        `Run.state` is ``"paused"`` at once. The view shows when every worker waits.
        """
        self.parts.training.command(Command.PAUSE)

    def unpause(self) -> None:
        """Continue after a pause; `tos_notebook.resume` continues from a checkpoint."""
        self.parts.training.command(Command.UNPAUSE)

    def stop(self, timeout: float = 30.0, *, reason: str | None = None) -> Self:
        """Stop now and keep the weights; return when the run has ended.

        A sink may call it to stop early. It then returns at once, and the run ends soon. If the run
        has ended, nothing changes. If it is stopping already, this waits for it.

        Parameters
        ----------
        timeout : float, in seconds
        reason : str, optional
            Why, for `Run.status`, the view and the event `RunFinished`.

        Raises
        ------
        WaitTimeout
            Spark did not end the job in time.
        """
        self.lifecycle.stop(timeout, reason)
        return self

    @with_known_options
    def repartition(self, partitions: int, partitioner: AnyPartitioner | None = None) -> None:
        """Repartition the data at the end of the current epoch.

        Parameters
        ----------
        partitions : int, at least 1
        partitioner : Partitioner or LabelPartitioner, optional
            Such as one of `tos_notebook.partitioners`; random by default.

        Raises
        ------
        ConfigError, DataError, InvalidTransition
            A number out of range, a partitioner for another number or for labels that the data
            lack; or the run is over.
        """
        commands.repartition(self.lifecycle, partitions, partitioner)

    def swap_combiner(self, combiner: Any) -> None:
        """Merge by another combiner, from each worker's next milestone on.

        A new combiner begins with empty state (momentum, buffers), also if it was in use before.
        Updates that the old one has not merged yet are dropped.

        Parameters
        ----------
        combiner : str, Combiner, class or function

        Raises
        ------
        CombinerError, CheckpointError
            It is not a combiner; or the run has checkpoints, and what it keeps cannot be saved.
        ConfigError, InvalidTransition
            It needs another `sync_interval`, or the run is over.
        """
        commands.swap_combiner(self.lifecycle, combiner)

    @with_known_options
    def swap_strategy(
        self,
        strategy: str | Strategy,
        *,
        combiner: Any = None,
        sync: str | SyncMode | None = None,
        sync_interval: int | None = None,
        codec: str | Codec | CodecPair | None = None,
    ) -> str:
        """Train by another strategy from the end of the current epoch on.

        Parameters, version and global step continue. The optimizer state continues if both
        strategies have it in the driver. Otherwise it is reset, and a note in `status` says so.
        Rows
        stay in their partitions. The last swap of an epoch counts.

        Parameters
        ----------
        strategy : str or Strategy
            As `TrainingSession` takes it.
        combiner : str, Combiner, class or function, optional
        sync : str or SyncMode, optional
        sync_interval : int, optional
            By default these three are those of the new strategy. They stay if it is the current
            one, or a parameter server with other shards that takes the combiner.
        codec : str, Codec or CodecPair, optional
            The current one by default, if it fits.

        Returns
        -------
        str
            The pending strategy, and the combiner that replaces the current one, if any.

        Raises
        ------
        ConfigError, CombinerError, CodecError
            No strategy has that name, settings do not fit it, or it needs more slots.
        UnsupportedProgram
            The strategy needs gradients, and the program cannot be cut.
        CheckpointError
            The run has checkpoints, and what the combiner keeps cannot be saved.
        InvalidTransition
            Nothing would change, no epoch follows, or the run is over.
        """
        wanted = {"combiner": combiner, "sync": sync, "sync_interval": sync_interval}
        return swapping.swap_strategy(self.lifecycle, strategy, wanted | {"codec": codec})

    @also_named(OPTIONS["codec"], OPTIONS["partitions"])
    @sets
    def set(
        self,
        *,
        learning_rate: float | None = None,
        sync_interval: int | None = None,
        sync: str | SyncMode | None = None,
        codec: str | Codec | CodecPair | None = None,
        combiner: Any = None,
        partitions: int | None = None,
    ) -> None:
        """Change settings, from each worker's next milestone on.

        If a setting does not fit, none of them changes, except `combiner` and `partitions`.

        Parameters
        ----------
        learning_rate : float, optional
            Where the program has it as a variable.
        sync_interval : int, optional
            Batches between two exchanges.
        sync : str or SyncMode, optional
            ``"asp"``, ``"ssp:3"`` or ``"bsp"``. The count of milestones restarts here. A waiting
            worker learns it before its next milestone.
        codec : str, Codec or CodecPair, optional
            How updates and replies are encoded. The remainder of the earlier codec is sent with the
            next update. Also `compression`.
        combiner : str, Combiner, class or function, optional
            As `swap_combiner` takes it.
        partitions : int, optional
            As `repartition` takes it: at the end of the current epoch. Also `num_workers`.
        """
        settings = (learning_rate, sync_interval, sync, codec)
        if any(each is not None for each in settings) or (combiner is None and partitions is None):
            commands.change(self.lifecycle, *settings)
        if combiner is not None:
            self.swap_combiner(combiner)
        if partitions is not None:
            self.repartition(partitions)

    def chaos(self, *rules: Rule) -> None:
        """Inject faults, from each worker's next milestone on.

        It ends with the run at the latest. `tos_notebook.chaos.on` ends it with a block of code.

        Parameters
        ----------
        *rules : Rule
            Such as ``tos.chaos.Slow(5, worker=1)``, instead of all that were in force before; none
            to end it.

        Raises
        ------
        ConfigError, InvalidTransition
            The run lacks such a worker or executor or is over; Spark would not retry a killed task.
        """
        commands.chaos(self.lifecycle, rules)
        self.chaos_log += rules
