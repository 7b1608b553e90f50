"""The updates that a worker makes of what it has trained, in a buffer for all parameters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...common.arrays import Array, Buffer, is_finite
from ...layout import Layout


class Updates:
    """Makes updates in the buffer of the adopted parameters, or in one of their own.

    Parameters
    ----------
    layout : Layout
    adopted : ndarray, shape (layout.nbytes,), uint8
        The parameters to train.

    Attributes
    ----------
    buffer : ndarray, shape (layout.nbytes,), uint8
        Holds the update.
    vectors : list of ndarray
        The adopted parameters, a vector for each segment.
    differs : bool
        Whether the last update is a difference to them.
    """

    def __init__(self, layout: Layout, adopted: Buffer) -> None:
        self._layout = layout
        self.adopted = adopted
        self.vectors = layout.vectors(adopted)
        self._tensors = list(layout.tensors(adopted).values())
        self._pushes = "delta"
        self.differs = True
        self._write_to(adopted, self._tensors)

    def _write_to(self, buffer: Buffer, tensors: list[Array]) -> None:
        self.buffer, self._updates = buffer, tensors

    def use(self, pushes: str, apart: bool) -> None:
        """Make other updates from now on.

        Parameters
        ----------
        pushes : {"delta", "gradients", "weights"}
            What they are.
        apart : bool
            Whether the adopted parameters stay, so that updates need a buffer of their own.
        """
        self._pushes = pushes
        if not apart:
            self._write_to(self.adopted, self._tensors)
        elif self.buffer is self.adopted:
            buffer = self._layout.allocate()
            self._write_to(buffer, list(self._layout.tensors(buffer).values()))

    def write(self, trained: Iterable[Array], encoded: bool) -> bool:
        """Make the update of what was trained; return whether it is finite.

        Parameters
        ----------
        trained : iterable of ndarray
            The parameters after a milestone, in the program's order.
        encoded : bool
            Whether values are encoded, too, as a difference to those that both sides know.
        """
        self.differs = self._pushes == "delta" or encoded
        # A gradient is a difference by itself.
        whole = self.differs and self._pushes != "gradients"
        finite = True
        both = zip(self._tensors, self._updates, trained, self._layout.specs, strict=True)
        for before, update, after, spec in both:
            if whole or (self.differs and not spec.trained):
                np.subtract(after, before, out=update)
            else:
                np.copyto(update, after)
            finite = finite and is_finite(update)
        if self.differs and self._pushes == "gradients" and not finite:
            self._send_as_it_is()
        return finite

    def _send_as_it_is(self) -> None:
        """Make values of differences again: where losses are scaled, the server takes them."""
        self.differs = False
        both = zip(self._tensors, self._updates, self._layout.specs, strict=True)
        for before, update, spec in both:
            if not spec.trained:
                update += before
