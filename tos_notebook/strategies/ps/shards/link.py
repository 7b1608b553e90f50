"""A worker's connection to one shard."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

import numpy as np

from ....common.arrays import Array, Buffer
from ....errors import ClusterUnreachable, RemoteProtocolError, TransportError
from ....transport.client import MAX_PAYLOAD, ChannelConnection
from ....transport.dial import ANSWER, connect_tcp
from ....wire.messages import Attach, Collect, Encoding, LeaveRows, Lookup, Proceed, Push
from ....worker.exchange import ask, expect
from ..replica import Replica
from ..rows import payload
from ..updates import Updates
from .slices import Slice


class Place(NamedTuple):
    """Where a shard listens."""

    host: str
    port: int
    fingerprint: bytes | None


class ShardLink:
    """What a worker knows of one shard.

    Parameters
    ----------
    replica : Replica
        Of the shard's part.
    part : Slice
    """

    def __init__(self, replica: Replica, part: Slice) -> None:
        self.replica = replica
        self.part = part
        self.version = 0
        self.moved = [0, 0]
        """Bytes sent and received since the driver was told."""
        self.answered = False
        """Whether the shard has answered the last update with what comes of it if it counts."""
        self._connection: ChannelConnection | None = None

    def attach(self, place: Place, secret: bytes, attach: Attach, encoding: Encoding) -> None:
        """Connect, and open the partition.

        Raises
        ------
        ClusterUnreachable
            The shard cannot be reached.
        """
        try:
            self._connection = connect_tcp(
                *(place.host, place.port, secret, place.fingerprint),
                # All rows of a table may come at once, perhaps with their numbers.
                max_payload=max(MAX_PAYLOAD, payload.longest(self.part.layout, False)),
                answer_timeout=ANSWER,
            )
        except TransportError as error:
            raise ClusterUnreachable(f"A worker cannot reach a shard: {error}") from error
        self.ask(attach)
        self.ask(encoding)

    def ask(self, message: Attach | Encoding) -> None:
        """Tell the shard something."""
        ask(self._connected(), message, Proceed)

    def stage(self, message: Push, updates: Updates, sending: AbstractContextManager[Any]) -> Push:
        """Leave the part of an update at the shard; return the push as it was sent.

        Parameters
        ----------
        message : Push
        updates : Updates
        sending : context manager
            Entered to send the part. The shard may answer with what comes of it.
        """
        sent, update = self._encode(message._replace(base_version=self.version), updates)
        if sent.finite:
            with ExitStack() as turn:
                turn.enter_context(sending)
                into = self._target()
                answer, received = self._connected().request(sent, update, into, turn.close)
            self.moved[0] += len(update)
            self._take(expect(Proceed, answer, sent), received, into is not None)
            self.answered = received is not None
        return sent

    def exchange_rows(
        self, message: Lookup | LeaveRows, payload: Array
    ) -> tuple[Proceed, memoryview | None]:
        """See `RowLink.exchange_rows`."""
        sent = payload.view(np.uint8).data
        answer, received = self._connected().request(message, sent)
        self.moved[0] += len(sent)
        self.moved[1] += 0 if received is None else len(received)
        return expect(Proceed, answer, message), received

    def _encode(self, message: Push, updates: Updates) -> tuple[Push, Buffer]:
        update = updates.buffer[self.part.start : self.part.stop]
        return self.replica.encode(message, update, updates.differs)

    def collect(self, message: Collect) -> Proceed:
        """Settle what was left there, and adopt what the shard sends."""
        into = self._target() if message.give else None
        answer, received = self._connected().request(message, into=into)
        proceed = expect(Proceed, answer, message)
        self._take(proceed, received, into is not None)
        return proceed

    def _take(self, proceed: Proceed, received: memoryview | None, there: bool) -> None:
        if (proceed.version is None) != (received is None):
            raise RemoteProtocolError("Expected parameters with Proceed if it has their version.")
        if received is not None:
            self.moved[1] += len(received)
            self._adopt(received, there)
        if proceed.version is not None:
            self.version = proceed.version

    def _target(self) -> Buffer | None:
        """Return where parameters can come at once."""
        return self.replica.adopted if self.replica.lossless else None

    def _adopt(self, received: memoryview, there: bool) -> None:
        """Adopt what has come, unless it is there."""
        if self.replica.lossless and not there:
            # A shard sends what it has not been asked for to workers that keep their own.
            expected = self.replica.adopted.nbytes
            if len(received) != expected:
                raise RemoteProtocolError(
                    f"Expected parameters of {expected} bytes of a shard, got {len(received)}."
                )
            self.replica.adopted[:] = received
        self.replica.adopt(received)

    def _connected(self) -> ChannelConnection:
        if self._connection is None:
            raise RemoteProtocolError("Expected the driver to name shards before a push.")
        return self._connection

    def close(self) -> None:
        """Leave the shard."""
        if self._connection is not None:
            self._connection.close()
