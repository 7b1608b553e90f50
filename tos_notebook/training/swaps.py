"""Which strategy trains a run, and the one that is to take it over when an epoch ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.arrays import Buffer
from ..coordination.coordinator import Coordinator
from ..coordination.exchange import Trainer
from ..coordination.job_span import JobSpan
from ..coordination.settings import Settings
from ..events import CommandApplied, CommandLapsed, Event, StrategySwapped
from ..steering.machine import Command
from ..strategies.base import Strategy

if TYPE_CHECKING:
    from ..program.export.base import Program
    from ..worker.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Method:
    """How a run can be trained.

    Parameters
    ----------
    strategy : Strategy
    program : Program
        As the strategy trains it.
    archive : Path
        What the program was exported to.
    task : Task
        Of its Spark jobs.
    trainer : callable
        Takes the parameters by the program's layout, and settings; returns the driver's side.
    """

    strategy: Strategy
    program: Program
    archive: Path
    task: Task
    trainer: Callable[[Buffer, Settings], Trainer]


@dataclass(frozen=True, slots=True)
class Swap:
    """A swap of the strategy, ready to be made.

    Parameters
    ----------
    method : Method
    changes : mapping
        The settings that come with it; see `Settings.changed`.
    detail : str
        In words.
    before : callable
        Called when the swap is about to be made.
    """

    method: Method
    changes: Mapping[str, Any]
    detail: str
    before: Callable[[], object] = lambda: None


class Swaps:
    """The swaps of one run.

    Parameters
    ----------
    training : Coordinator
    publish : callable
        Takes an event.

    Attributes
    ----------
    done : tuple of Swap
        Those that were made, in their order.
    notes : tuple of str
        What became of the optimizer's state, at the last one; and why the run makes a detour.
    way_round : callable
        Returns the swap by which the run goes through the driver.
    """

    way_round: Callable[[], Swap]

    def __init__(self, training: Coordinator, publish: Callable[[Event], None]) -> None:
        self.done: tuple[Swap, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._training = training
        self._publish = publish
        self._asked: Swap | None = None
        self._doing: Swap | None = None
        self._lock = threading.Lock()

    @property
    def due(self) -> bool:
        """Whether one is to be made once no worker trains."""
        return self._asked is not None

    @property
    def asked(self) -> Swap | None:
        """The one that is still to be made."""
        with self._lock:
            return self._asked or self._doing

    @property
    def now(self) -> Swap | None:
        """The last one that was made."""
        return self.done[-1] if self.done else None

    @property
    def settings(self) -> Settings:
        """Those that the next epoch begins with, as far as is known."""
        settings, asked = self._training.settings, self.asked
        return settings if asked is None else settings.changed(**asked.changes)

    def ask(self, swap: Swap, check: Callable[[], object]) -> None:
        """Make a swap when the present epoch is done, instead of one that was asked for before.

        Parameters
        ----------
        swap : Swap
        check : callable
            Called when no worker can begin another epoch meanwhile; may raise.

        Raises
        ------
        InvalidTransition
            The run is over.
        """
        self._ask(swap, swap.detail, check)

    def take_back(self, detail: str) -> None:
        """Stay with the present strategy, although another one was asked for.

        Parameters
        ----------
        detail : str
            What is in force, in words.

        Raises
        ------
        InvalidTransition
            The run is over.
        """
        self._ask(None, detail, lambda: None)
        self._publish(CommandApplied(time.time(), Command.SWAP_STRATEGY, detail))

    def _ask(self, swap: Swap | None, detail: str, check: Callable[[], object]) -> None:
        replaced: list[Swap | None] = []

        def accept() -> None:
            check()
            with self._lock:
                replaced.append(self._asked)
                self._asked = swap

        self._training.end_span_early(Command.SWAP_STRATEGY, detail, accept)
        self._lapse(replaced[0], "a later swap has taken its place")

    def make(self, epoch: int) -> None:
        """Make the swap that was asked for, if any, before an epoch."""
        with self._lock:
            swap = self._doing = self._asked
            self._asked = None
        if swap is None:
            return
        if not self._change(swap, epoch) and swap.method.program.optimizer_state:
            name = swap.method.strategy.name
            self._note(
                f"The optimizer's state was reset with epoch {epoch + 1}, by strategy {name!r}."
            )
        self._publish(CommandApplied(time.time(), Command.SWAP_STRATEGY, swap.detail))

    def detour(self, span: JobSpan) -> bool:
        """Let the run go through the driver, if its workers could not reach each other.

        Parameters
        ----------
        span : JobSpan
            Of a job that is over.

        Returns
        -------
        bool
            Whether they could not.
        """
        if span.ended is None:
            return False
        swap, cause = self.way_round(), span.ended
        # Workers have kept what their optimizers know.
        self._change(swap, span.started)
        span.ended = None
        self._note(
            f"The run goes through the driver from epoch {span.started + 1} on, as with "
            f"strategy={swap.detail!r}. {cause}"
        )
        return True

    def _change(self, swap: Swap, epoch: int) -> bool:
        """Make a swap; return whether the optimizer's state goes on."""
        swap.before()
        carried = self._training.swap_trainer(
            lambda: self._trainer(swap), lambda: self._made(swap), **swap.changes
        )
        name, lockstep = swap.method.strategy.name, self._training.settings.strategy.lockstep
        self._publish(StrategySwapped(time.time(), epoch, name, lockstep))
        return carried

    def _note(self, note: str) -> None:
        self.notes = (note,)
        logger.warning("Run %s: %s", self._training.run_id, note)

    def _trainer(self, swap: Swap) -> Trainer:
        layout = swap.method.program.layout
        present = self._training.trainer.parameters
        # Where an optimizer has parameters of its own, those begin as they were captured.
        own = len(layout) > len(layout.of_model)
        buffer = swap.method.program.read() if own else layout.allocate()
        layout.adopt(buffer, present.layout, present.read()[0])
        return swap.method.trainer(buffer, self._training.settings.changed(**swap.changes))

    def _made(self, swap: Swap) -> None:
        """Note that a swap was made; no snapshot is between this and the swap."""
        self.done += (swap,)
        self._doing = None

    def report_lapsed(self) -> None:
        """Say so if a swap was asked for, and no epoch followed."""
        self._lapse(self._asked, "no epoch followed")

    def _lapse(self, swap: Swap | None, why: str) -> None:
        if swap is not None:
            detail = f"{swap.detail}: {why}"
            self._publish(CommandLapsed(time.time(), Command.SWAP_STRATEGY, detail))
