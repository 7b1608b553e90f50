"""The server's copy of what one worker holds: receives its updates, and makes its replies."""

from __future__ import annotations

import numpy as np

from ...codecs.coding import Coding
from ...codecs.pair import CodecPair
from ...common.arrays import Buffer
from ...errors import RemoteProtocolError
from ...layout import Layout
from .stripes import STRIPE_BYTES

BRIEF_BYTES = 60_000
"""Bytes that a socket takes and brings at once."""


class PeerReplica:
    """Receives one worker's updates, and sends it replies.

    Parameters
    ----------
    layout : Layout
    segment : ndarray, shape (layout.nbytes,), uint8, optional
        Memory that the worker shares: what is not encoded lies there.
    """

    def __init__(self, layout: Layout, segment: Buffer | None) -> None:
        self.shared = segment is not None
        self._plain: Buffer = layout.allocate() if segment is None else segment
        self.buffer, self._view = self._plain, self._plain.data
        """Holds the update and then the reply: one copy of the model for a worker."""
        self.received = self.sent = 0
        """Bytes of parameters since they were set to 0 last."""
        self._layout = layout
        self._codecs: CodecPair | None = None
        self._coding: Coding | None = None
        self._known: Buffer | None = None
        """What the worker has adopted; held only where something is encoded."""
        self._encoded: Buffer | None = None
        self.brief = self._is_brief()
        """Whether a push and its reply are short, and merged by one thread at a time anyway."""

    def use(self, codecs: CodecPair) -> None:
        """Decode updates and encode replies with a codec from now on.

        Parameters
        ----------
        codecs : CodecPair
            Of the settings that the worker's message names.
        """
        if codecs is self._codecs:
            return
        self._codecs = codecs
        self._change(codecs)
        self.brief = self._is_brief()

    @property
    def plain(self) -> bool:
        """Whether updates and replies are not encoded."""
        return self._coding is None and self._codecs is not None

    def _is_brief(self) -> bool:
        moved = self._coding is None and self.shared
        return self._layout.nbytes <= (STRIPE_BYTES if moved else BRIEF_BYTES)

    def _change(self, codecs: CodecPair) -> None:
        if codecs.lossless:
            self._coding = self._known = None
            self.buffer, self._view = self._plain, self._plain.data
        elif self._coding is None or self._coding.codecs != codecs:
            if self.shared and self._coding is None:
                # From now on its segment is the worker's own: there it keeps what it adopted.
                self.buffer = self._layout.allocate()
                self.buffer[:] = self._plain
                self._view = self.buffer.data
            self._coding = Coding(self._layout, codecs)

    def receive_into(self, nbytes: int) -> memoryview | None:
        """Return the memory for an update of `nbytes` bytes; None for one that is shared.

        Raises
        ------
        RemoteProtocolError
            An update cannot be of that length.
        """
        coding, self._encoded = self._coding, None
        whole = 0 if self.shared and coding is None else self._layout.nbytes
        up = None if coding is None else coding.up
        if up is not None and nbytes == up.nbytes:
            self._encoded = np.empty(nbytes, np.uint8)
        elif nbytes != whole:
            also = "" if up is None else f" or {up.nbytes}"
            raise RemoteProtocolError(
                f"Push: expected a payload of {whole}{also} bytes, got {nbytes}."
            )
        self.received += nbytes or self._layout.nbytes
        if not nbytes:
            return None
        return self._view if self._encoded is None else self._encoded.data

    def read(self, pushes: str) -> bool:
        """Decode the update that has come into `buffer`.

        Returns
        -------
        bool
            Whether the worker has checked that it is finite: not if it was added up here.

        Raises
        ------
        RemoteProtocolError
            It is encoded, but not as its codec does it.
        """
        if self._encoded is None or self._coding is None or self._coding.up is None:
            return True
        self._coding.up.decode(self._encoded, self.buffer)
        if pushes != "delta":
            if self._known is None:
                raise RemoteProtocolError(
                    "Push: expected parameters as they are, got the difference to some that were "
                    "never sent."
                )
            self._add_known(self._known, pushes == "weights")
        # What is decoded is finite, or refused.
        return pushes == "delta"

    def _add_known(self, known: Buffer, trained: bool) -> None:
        """Add what the worker has adopted to differences; gradients are none."""
        own, before = self._layout.vectors(self.buffer), self._layout.vectors(known)
        # The sum of finite ones may be infinite.
        with np.errstate(over="ignore"):
            for segment, one, other in zip(self._layout.segments, own, before, strict=True):
                if trained or not segment.trained:
                    one += other

    def reply(self, key: int, buffer: Buffer | None = None) -> Buffer | None:
        """Return the payload for the parameters in a buffer; None if they are shared.

        Parameters
        ----------
        key : int
            For a codec that rounds at random.
        buffer : ndarray, shape (layout.nbytes,), uint8, optional
            `buffer` by default.
        """
        payload, buffer = None, self.buffer if buffer is None else buffer
        if self._coding is not None:
            if self._known is None:
                self._known = buffer.copy()
            else:
                payload = self._coding.encode_reply(buffer, self._known, key)
                if payload is None:
                    self._known[:] = buffer
        elif self.shared:
            self.sent += self._layout.nbytes
            return None
        sent = buffer if payload is None else payload
        self.sent += len(sent)
        return sent

    def count(self) -> tuple[int, int]:
        """Return the bytes received and sent since this was asked last."""
        counted = self.received, self.sent
        self.received = self.sent = 0
        return counted
