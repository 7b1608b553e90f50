"""Applies chaos to a worker: it sleeps, or its process ends."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..chaos.mishap import NOTHING, as_mishap
from ..errors import ConfigError
from ..wire.settings import WorkerSettings


def refuse() -> None:
    """Refuse to end a process that others need.

    Raises
    ------
    ConfigError
        Always.
    """
    raise ConfigError(
        "chaos.Kill: expected a worker in a separate process, as Spark starts them; this one "
        "trains in a process that others need."
    )


class ChaosEffects:
    """Applies the mishap of each milestone.

    Parameters
    ----------
    sleep : callable
        Takes seconds.
    kill : callable
        Ends this process; by default it refuses to.
    """

    def __init__(
        self,
        sleep: Callable[[float], object] = time.sleep,
        kill: Callable[[], object] = refuse,
    ) -> None:
        self._sleep = sleep
        self._kill = kill
        self._mishap = NOTHING

    def prepare(self, settings: WorkerSettings | None) -> None:
        """Take the next milestone's mishap from an answer's settings, if they bring one.

        It stays until that milestone: other answers may come between, such as at an epoch's end.

        Raises
        ------
        RemoteProtocolError
            The mishap has other fields.
        """
        mishap = NOTHING if settings is None else as_mishap(settings.chaos)
        if mishap != NOTHING:
            self._mishap = mishap

    def apply(self, busy: float) -> None:
        """Apply the mishap to a milestone.

        Parameters
        ----------
        busy : float
            Seconds for which the worker has computed.
        """
        mishap, self._mishap = self._mishap, NOTHING
        delay = mishap.delay(busy)
        if delay > 0:
            self._sleep(delay)
        if mishap.kill:
            self._kill()
