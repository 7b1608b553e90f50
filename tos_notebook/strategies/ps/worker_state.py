"""What becomes of a worker's optimizer slots when it adopts the server's parameters."""

from __future__ import annotations

from ...archive.spec import Runner
from ...common.arrays import Buffer, is_finite
from ...errors import LocalProtocolError
from ...layout import Layout
from ...transport.base import Connection
from ...wire.messages import Blend, Blended
from .exchange import expect

POLICIES = ("keep", "reset", "merge")
"""See `tos_notebook.TrainingSession`."""


class Slots:
    """The optimizer slots of one worker's program.

    Parameters
    ----------
    connection : Connection
        To the server.
    runner : Runner
    policy : {"keep", "reset", "merge"}
    """

    def __init__(self, connection: Connection, runner: Runner, policy: str) -> None:
        self._connection = connection
        self._runner = runner
        self._policy = policy
        self._vector: Buffer | None = None

    def begin(self) -> None:
        """Make them ready for the parameters that a partition begins with."""
        # What an attempt has left that died between two exchanges.
        if self._policy == "reset":
            self._runner.reset_slots()

    def follow(self) -> None:
        """Make them ready for parameters that have just been adopted."""
        if self._policy == "reset":
            self._runner.reset_slots()
        elif self._policy == "merge":
            self._merge(self._layout())

    def _layout(self) -> Layout:
        layout = self._runner.spec.slots
        if layout is None:
            raise LocalProtocolError("Expected a program with optimizer slots, got one without.")
        return layout

    def _merge(self, layout: Layout) -> None:
        if self._vector is None:
            self._vector = layout.allocate()
        self._runner.read_slots(self._vector)
        finite = all(map(is_finite, layout.vectors(self._vector)))
        message = Blend(finite)
        payload = self._vector if finite else None
        answer, received = self._connection.request(message, payload, self._vector)
        expect(Blended, answer, message)
        if received is not None:
            self._runner.write_slots(self._vector)
