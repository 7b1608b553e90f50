"""A worker's side of parameters that it shares with one server: how they are sent and come back.

With a codec, an update is sent encoded, and a reply is the encoded difference to what was adopted
before: both ends add it to the same values, so that what one reply leaves out is in the difference
of the next.
"""

from __future__ import annotations

import numpy as np

from ...codecs.coding import Coding, add
from ...codecs.pair import CodecPair
from ...common.arrays import Buffer, is_finite
from ...common.hashing import mix_key
from ...errors import RemoteProtocolError
from ...layout import Layout
from ...wire.messages import Push
from .residual import Place, ResidualStore


class Replica:
    """The parameters that one server has, as a worker knows them.

    Parameters
    ----------
    layout : Layout
        Theirs.
    adopted : ndarray, shape (layout.nbytes,), uint8
        Where the worker has them.
    residuals : ResidualStore
        What encoded updates leave out.
    partition : int
        The worker's.

    Attributes
    ----------
    known : bool
        Whether the server holds, to the bit, what was adopted last.
    """

    def __init__(
        self, layout: Layout, adopted: Buffer, residuals: ResidualStore, partition: int
    ) -> None:
        self._layout = layout
        self.adopted = adopted
        self._residuals = residuals
        self._partition = partition
        self._coding: Coding | None = None
        self.known = False

    @property
    def lossless(self) -> bool:
        """Whether nothing is encoded, so that payloads may come into `adopted` at once."""
        return self._coding is None

    @property
    def encodes(self) -> bool:
        """Whether an update is sent as a difference to what the server knows, whatever it is."""
        return self._coding is not None and self._coding.up is not None and self.known

    def use(self, codecs: CodecPair) -> None:
        """Encode the next updates, and decode the next replies, by another codec."""
        if codecs.lossless:
            self._coding = None
        elif self._coding is None or self._coding.codecs != codecs:
            self.known = self.known and self._coding is not None
            self._coding = Coding(self._layout, codecs)

    def encode(self, message: Push, update: Buffer, differs: bool) -> tuple[Push, Buffer]:
        """Return a push and its payload.

        Parameters
        ----------
        message : Push
        update : ndarray, shape (layout.nbytes,), uint8
            Changed by what earlier ones have left out.
        differs : bool
            Whether it is a difference to what was adopted.
        """
        coding = self._coding
        if not message.finite:
            # Sent as it is, so that the server can tell what is wrong with it.
            return message, update
        if coding is None or coding.up is None or not differs:
            return self._complete(message, update), update
        self._add_residual(update)
        key = mix_key(self._partition, message.epoch, message.sequence)
        if not coding.codecs.up.feedback:
            self._residuals.forget(_after(message))
            return message, coding.up.encode(update, key)
        payload = coding.up.encode(update, key, self._residuals.next())
        self._residuals.keep(_after(message))
        return message, payload

    def _complete(self, message: Push, update: Buffer) -> Push:
        """Add what was left out before to an update that is sent as it is."""
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

    def settle(self) -> None:
        """Take note that the last push counts."""
        self._residuals.settle()

    def adopt(self, received: memoryview | None) -> None:
        """Adopt a reply's payload.

        Raises
        ------
        RemoteProtocolError
            It is not of these parameters.
        """
        if self._coding is None or received is None:
            # The answer's own buffer is the parameters', or they stay as they are.
            return
        payload = np.frombuffer(received, np.uint8)
        if len(payload) == self._layout.nbytes:
            self.adopted[:] = payload
            self.known = True
        elif self.known:
            self._coding.move(self.adopted, payload)
        else:
            raise RemoteProtocolError(
                f"Expected parameters of {self._layout.nbytes} bytes, got {len(payload)} bytes "
                "that say how they differ from others."
            )


def _after(message: Push) -> Place:
    return message.epoch, message.sequence + 1
