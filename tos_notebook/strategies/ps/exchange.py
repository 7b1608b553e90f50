"""A worker's copy of the parameters, and how it travels to the server and back.

Without a codec one buffer holds in turn what was adopted, the update, and the reply; where the
server shares its memory, nothing is sent at all. With a codec, an update travels encoded, and a
reply as the encoded difference to what was adopted before: both ends add it to the same values,
so that what one reply leaves out is in the difference of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from ...archive.runner import Runner, Trained
from ...codecs.coding import Coding, add
from ...codecs.pair import CodecPair, as_codecs
from ...common.arrays import Array, Buffer, is_finite
from ...common.hashing import mix_key
from ...errors import RemoteProtocolError
from ...layout import Layout
from ...transport.base import Connection
from ...transport.shared import Segment
from ...wire.messages import Join, Joined, Poll, Proceed, Push, Reply
from ...wire.settings import WorkerSettings
from ...worker.exchange import WorkerContext, expect
from .residual import Place, ResidualStore


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

    def __init__(self, connection: Connection, layout: Layout, residuals: ResidualStore) -> None:
        self._connection = connection
        self._layout = layout
        self._residuals = residuals
        self._shared = False
        self._coding: Coding | None = None
        self._pushes = "delta"
        self._partition = 0
        self._known = False
        """Whether the server holds, to the bit, what was adopted last."""
        self._differs = True
        self._adopted: Buffer = np.empty(0, np.uint8)
        self._tensors: list[Array] = []
        self.vectors: list[Array] = []
        """The adopted parameters, a vector for each segment."""
        self._write_to(self._adopted, [])

    def _write_to(self, buffer: Buffer, tensors: list[Array]) -> None:
        self._update, self._updates = buffer, tensors

    def join(self, message: Join) -> Joined:
        """Open the partition, which brings no parameters yet."""
        with Segment(self._layout.nbytes) as segment:
            message = replace(message, segment=segment.name)
            answer, _ = self._connection.request(message)
        joined = expect(Joined, answer, message)
        self._partition = message.partition
        self._adopted = segment.buffer
        self._tensors = list(self._layout.tensors(self._adopted).values())
        self.vectors = self._layout.vectors(self._adopted)
        self._write_to(self._adopted, self._tensors)
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
        try:
            self._pushes, codec = settings.strategy["pushes"], settings.strategy["codec"]
        except KeyError as error:
            raise RemoteProtocolError(
                f"WorkerSettings.strategy: expected pushes and codec, got no {error}."
            ) from error
        self._use(as_codecs(codec))

    def _use(self, codecs: CodecPair) -> None:
        if codecs.lossless:
            self._coding = None
            self._write_to(self._adopted, self._tensors)
        elif self._coding is None or self._coding.codecs != codecs:
            self._known = self._known and self._coding is not None
            self._coding = Coding(self._layout, codecs)
            update = self._layout.allocate()
            self._write_to(update, list(self._layout.tensors(update).values()))

    def prepare(self, runner: Runner, epoch: int) -> None:
        """See `Exchange.prepare`: it needs the server only."""

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        """Train by the parameters that were adopted last."""
        return runner.train(self.vectors, columns, batch_size)

    def write(self, trained: Iterable[Array]) -> bool:
        """Make the update of what was trained; return whether it is finite.

        Parameters
        ----------
        trained : iterable of ndarray
            The parameters after a milestone, in the program's order.
        """
        # Encoded values travel as a difference, too, to those that both sides know.
        encoded = self._coding is not None and self._coding.up is not None
        self._differs = self._pushes == "delta" or (encoded and self._known)
        # A gradient is a difference by itself.
        whole = self._differs and self._pushes != "gradients"
        finite = True
        both = zip(self._tensors, self._updates, trained, self._layout.specs, strict=True)
        for before, update, after, spec in both:
            if whole or (self._differs and not spec.trained):
                np.subtract(after, before, out=update)
            else:
                np.copyto(update, after)
            finite = finite and is_finite(update)
        if self._differs and self._pushes == "gradients" and not finite:
            self._send_as_it_is()
        return finite

    def _send_as_it_is(self) -> None:
        """Make values of differences again: where losses are scaled, the server takes them."""
        self._differs = False
        both = zip(self._tensors, self._updates, self._layout.specs, strict=True)
        for before, update, spec in both:
            if not spec.trained:
                update += before

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Send the update, and adopt the reply."""
        coding = self._coding
        if coding is not None:
            message, payload = self._encode(coding, message)
            answer, received = self._connection.request(message, payload, None, meanwhile)
        else:
            if message.finite:
                message = self._complete(message, self._adopted)
            buffer = None if self._shared else self._adopted
            answer, received = self._connection.request(message, buffer, buffer, meanwhile)
        reply = expect(Reply, answer, message)
        if reply.status != "superseded":
            self._residuals.settle()
        self._adopt(received)
        return reply

    def poll(self, message: Poll) -> Proceed:
        """Ask whether to continue, and with which parameters: the others may have moved them."""
        into = None if self._shared or self._coding is not None else self._adopted
        answer, received = self._connection.request(message, into=into)
        proceed = expect(Proceed, answer, message)
        sent = proceed.version is not None and not (self._shared and self._coding is None)
        if sent == (received is None):
            raise RemoteProtocolError("Expected parameters with Proceed if it has their version.")
        self._adopt(received)
        return proceed

    def _encode(self, coding: Coding, message: Push) -> tuple[Push, Buffer]:
        if not message.finite:
            # Sent as it is, so that the server can tell what is wrong with it.
            return message, self._update
        if coding.up is None or not self._differs:
            return self._complete(message, self._update), self._update
        self._add_residual(self._update)
        key = mix_key(self._partition, message.epoch, message.sequence)
        if not coding.codecs.up.feedback:
            self._residuals.forget(_after(message))
            return message, coding.up.encode(self._update, key)
        payload = coding.up.encode(self._update, key, self._residuals.next())
        self._residuals.keep(_after(message))
        return message, payload

    def _complete(self, message: Push, update: Buffer) -> Push:
        """Add what was left out before to an update that travels as it is."""
        if self._residuals.residual is not None:
            self._add_residual(update)
            finite = all(map(is_finite, self._layout.vectors(update)))
            message = message._replace(finite=finite)
            self._residuals.forget(_after(message))
        return message

    def _add_residual(self, update: Buffer) -> None:
        residual = self._residuals.residual
        if residual is not None:
            add(self._layout, update, residual)

    def _adopt(self, received: memoryview | None) -> None:
        if self._coding is None or received is None:
            # The answer's own buffer is the parameters', or they stay as they are.
            return
        payload = np.frombuffer(received, np.uint8)
        if len(payload) == self._layout.nbytes:
            self._adopted[:] = payload
            self._known = True
        elif self._known:
            self._coding.move(self._adopted, payload)
        else:
            raise RemoteProtocolError(
                f"Expected parameters of {self._layout.nbytes} bytes, got {len(payload)} bytes "
                "that say how they differ from others."
            )

    def close(self) -> None:
        """See `Exchange.close`: it knows no other worker."""


def _after(message: Push) -> Place:
    return message.epoch, message.sequence + 1


def exchange(connection: Connection, layout: Layout, context: WorkerContext) -> ParameterExchange:
    """Return the worker's side of a run; see `worker.exchange.ExchangeMaker`."""
    join = context.join
    name = context.leg or join.run
    residuals = ResidualStore(layout.nbytes, context.folder, name, join.partition, join.task)
    return ParameterExchange(connection, layout, residuals)
