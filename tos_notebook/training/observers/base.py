"""What works on the driver beside a run's training: threads of its own that follow the events."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import TosError
from ...events import Event
from ...telemetry.pace import Paces
from ..checkpoint.writer import CheckpointWriter
from ..results.held_model import HeldModel
from ..results.view import RunView

if TYPE_CHECKING:
    from ...coordination.exchange import Parameters


@dataclass(frozen=True, slots=True)
class RunContext:
    """What an observer has of its run."""

    run: RunView
    model: HeldModel
    store: Parameters
    publish: Callable[[Event], None]
    fail: Callable[[TosError], None]
    """Ends the run with an error."""
    epochs: range
    """Those that are to be trained."""
    samples: int
    """How many were trained before a resume."""
    steps: int = 0
    """Optimizer steps that were made before."""
    checkpointer: CheckpointWriter | None = None
    """Writes the run's checkpoints."""
    paces: Callable[[], Paces] = Paces
    """Returns what workers do with their time of late."""


class Observer(ABC):
    """A sink with a thread, for which the run waits at its end."""

    _notes: tuple[str, ...] = ()

    @abstractmethod
    def __call__(self, event: Event) -> None:
        """Take one event, and return at once."""

    def begin(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what has to be done before the first Spark job; the run waits for it."""

    @abstractmethod
    def finish(self, last: bool) -> None:
        """End the thread; the run has ended, and the model holds its parameters.

        Parameters
        ----------
        last : bool
            Whether the run was trained to its end.

        Raises
        ------
        WaitTimeout
            It is still busy.
        """

    @property
    def is_current_thread(self) -> bool:
        """Whether it is the caller: the run cannot wait for its own end there."""
        return False

    @property
    def validates(self) -> bool:
        """Whether it evaluates validation data."""
        return False

    @property
    def left_out(self) -> int:
        """How many evaluations of the validation data were due and left out."""
        return 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What has gone wrong, for `Run.status`."""
        return self._notes

    def _note(self, text: str, error: Exception | None = None, *, code: bool = True) -> None:
        """Say what has gone wrong, here and in the log.

        Parameters
        ----------
        text : str
        error : Exception, optional
            What was raised.
        code : bool
            Whether users look for it in their code, so that they need a traceback. Else that is in
            the log at its lowest level.
        """
        self._notes += (text,)
        logger = logging.getLogger(type(self).__module__)
        logger.warning("%s", text, exc_info=error if code else None)
        if error is not None and not code:
            logger.debug("%s", text, exc_info=error)


Maker = Callable[[RunContext], Observer]
"""Makes a run's observer, when the run is about to begin."""
