"""What a worker asks the driver while it waits for another one."""

from __future__ import annotations

from ...errors import ConnectionClosed, PeerLost
from ...transport.base import Connection
from ...wire.messages import Awaiting, Directive, Proceed
from ...worker.exchange import ask


class Awaited:
    """Asks whether a generation of workers still is one; the driver learns that this one waits.

    Parameters
    ----------
    connection : Connection
        To the driver.

    Attributes
    ----------
    generation : int
        That of the worker.
    """

    def __init__(self, connection: Connection) -> None:
        self.generation = 0
        self._connection = connection

    def check(self, rank: int) -> None:
        """Ask whether to wait longer for a rank.

        Raises
        ------
        ConnectionClosed
            The generation is over, or the worker is to stop.
        """
        if self._ask(rank, "").directive is not Directive.WAIT:
            raise ConnectionClosed("The driver has ended this generation of workers.")

    def blame(self, error: PeerLost) -> Proceed:
        """Tell why a worker cannot be reached, which ends the generation; return what to do."""
        return self._ask(error.rank, str(error))

    def _ask(self, rank: int, problem: str) -> Proceed:
        return ask(self._connection, Awaiting(self.generation, rank, problem), Proceed)
