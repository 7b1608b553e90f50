"""A worker's exchange with the server in the driver.

Without a codec one buffer holds in turn what was adopted, the update, and the reply; where the
server shares its memory, nothing is sent at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ...archive.runner import Runner, Trained
from ...codecs.pair import CodecPair, as_codecs
from ...common.arrays import Array
from ...errors import RemoteProtocolError
from ...layout import Layout
from ...transport.base import Connection
from ...transport.shared import Segment
from ...wire.messages import Join, Joined, Poll, Proceed, Push, Reply
from ...wire.settings import WorkerSettings
from ...worker.exchange import WorkerContext, expect
from .replica import Replica
from .residual import ResidualStore
from .updates import Updates


class ParameterExchange:
    """The parameters that one worker trains.

    Parameters
    ----------
    connection : Connection
        To the server.
    layout : Layout
    residuals : ResidualStore
        What encoded updates leave out.
    """

    rounds = 1
    attends = again = False
    _updates: Updates
    _replica: Replica

    def __init__(self, connection: Connection, layout: Layout, residuals: ResidualStore) -> None:
        self._connection = connection
        self._layout = layout
        self._residuals = residuals
        self._shared = False
        self.vectors: list[Array] = []
        """The adopted parameters, a vector for each segment."""

    def join(self, message: Join) -> Joined:
        """Open the partition, which brings no parameters yet."""
        with Segment(self._layout.nbytes) as segment:
            message = replace(message, segment=segment.name)
            answer, _ = self._connection.request(message)
        joined = expect(Joined, answer, message)
        self._updates = Updates(self._layout, segment.buffer)
        self._replica = Replica(self._layout, segment.buffer, self._residuals, message.partition)
        self.vectors = self._updates.vectors
        self._shared = joined.shared
        self._residuals.begin((joined.epoch, joined.sequence), joined.before)
        return joined

    def use(self, settings: WorkerSettings) -> None:
        """Make and encode the next updates by other settings.

        Raises
        ------
        RemoteProtocolError
            One that it needs is missing.
        """
        pushes, codecs = encoding_in(settings)
        self._replica.use(codecs)
        self._updates.use(pushes, apart=not codecs.lossless)

    def prepare(self, runner: Runner, epoch: int) -> None:
        """See `Exchange.prepare`: it needs the server only."""

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        """Train by the parameters that were adopted last."""
        return runner.train(self.vectors, columns, batch_size)

    def write(self, trained: Iterable[Array]) -> bool:
        """Make the update of what was trained; return whether it is finite."""
        return self._updates.write(trained, self._replica.encodes)

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Send the update, and adopt the reply."""
        message, payload = self._replica.encode(
            message, self._updates.buffer, self._updates.differs
        )
        lossless = self._replica.lossless
        sent = None if lossless and self._shared else payload
        into = sent if lossless else None
        answer, received = self._connection.request(message, sent, into, meanwhile)
        reply = expect(Reply, answer, message)
        if reply.status != "superseded":
            self._replica.settle()
        self._replica.adopt(received)
        return reply

    def poll(self, message: Poll) -> Proceed:
        """Ask whether to continue, and with which parameters: the others may have moved them."""
        lossless = self._replica.lossless
        into = self._replica.adopted if lossless and not self._shared else None
        answer, received = self._connection.request(message, into=into)
        proceed = expect(Proceed, answer, message)
        sent = proceed.version is not None and not (self._shared and lossless)
        if sent == (received is None):
            raise RemoteProtocolError("Expected parameters with Proceed if it has their version.")
        self._replica.adopt(received)
        return proceed

    def close(self) -> None:
        """See `Exchange.close`: it knows no other worker."""


def encoding_in(settings: WorkerSettings) -> tuple[str, CodecPair]:
    """Return what an update is, and how it is sent, as the server's settings say.

    Raises
    ------
    RemoteProtocolError
        One is missing.
    """
    try:
        return settings.strategy["pushes"], as_codecs(settings.strategy["codec"])
    except KeyError as error:
        raise RemoteProtocolError(
            f"WorkerSettings.strategy: expected pushes and codec, got no {error}."
        ) from error


def exchange(connection: Connection, layout: Layout, context: WorkerContext) -> ParameterExchange:
    """Return the worker's side of a run; see `worker.exchange.ExchangeMaker`."""
    join = context.join
    name = context.leg or join.run
    residuals = ResidualStore(layout.nbytes, context.folder, name, join.partition, join.task)
    return ParameterExchange(connection, layout, residuals)
