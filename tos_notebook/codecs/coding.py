"""One worker's coders, as both ends of its connection hold them."""

from __future__ import annotations

import numpy as np

from ..common.arrays import Buffer
from ..errors import RemoteProtocolError
from ..layout import Layout
from .base import Codec, Coder
from .pair import CodecPair


class Coding:
    """Coders for updates and for replies; None where everything travels as it is.

    A payload of the parameters' own length always is what it says, so a codec that would not
    make it shorter is left out.
    """

    def __init__(self, layout: Layout, codecs: CodecPair) -> None:
        self.codecs = codecs
        self.up = _shorter(codecs.up, layout)
        self.down = _shorter(codecs.down, layout)
        self._layout = layout

    def move(self, parameters: Buffer, payload: Buffer) -> None:
        """Add the difference that a reply stands for.

        Both ends do, each to its own parameters: those stay equal to the bit.

        Raises
        ------
        RemoteProtocolError
            It is another kind of reply.
        """
        if self.down is None:
            raise RemoteProtocolError(
                f"Expected a reply of {self._layout.nbytes} bytes, got {len(payload)}."
            )
        self.down.add(payload, parameters)

    def encode_reply(self, parameters: Buffer, known: Buffer, key: int) -> Buffer | None:
        """Return what leads from the `known` parameters towards the new ones, and add it there.

        None if a reply is not encoded.
        """
        return None if self.down is None else self.down.follow(parameters, known, key)


def add(layout: Layout, values: Buffer, more: Buffer) -> None:
    """Add to parameters, in place: the sum of finite ones may be infinite."""
    with np.errstate(over="ignore"):
        for one, other in zip(layout.vectors(values), layout.vectors(more), strict=True):
            one += other


def _shorter(codec: Codec, layout: Layout) -> Coder | None:
    coder = None if codec.lossless else codec.bind(layout)
    return None if coder is None or coder.nbytes >= layout.nbytes else coder
