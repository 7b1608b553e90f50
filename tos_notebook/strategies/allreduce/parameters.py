"""The parameters that all workers of a run begin their next step with."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...common.arrays import Array, Buffer
from ...errors import WaitTimeout
from ...layout import Layout

PATIENCE = 10.0
"""Seconds for which a reader waits for a copy under way."""


class StepParameters:
    """Parameters that are replaced as a whole, once in a step; see `Parameters`.

    Parameters
    ----------
    layout : Layout
    initial : ndarray, shape (layout.nbytes,), uint8
        Copied.
    """

    def __init__(self, layout: Layout, initial: Buffer) -> None:
        self.layout = layout
        self.version = 0
        self.torn: str | None = None
        self._buffer = layout.allocate()
        self._buffer[:] = initial
        self._lock = threading.Lock()

    @property
    def vectors(self) -> list[Array]:
        """Views of them, for the one thread that makes the step."""
        return self.layout.vectors(self._buffer)

    @contextmanager
    def _held(self, patience: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=patience):
            raise WaitTimeout(f"The parameters are still being replaced after {patience:g} s.")
        try:
            yield
        finally:
            self._lock.release()

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """See `Parameters.read`."""
        buffer = self.layout.allocate() if out is None else out
        with self._held(PATIENCE if patience is None else patience):
            buffer[:] = self._buffer
            return buffer, self.version

    def load(self, buffer: Buffer) -> None:
        """See `Parameters.load`."""
        with self._held(PATIENCE):
            self._buffer[:] = buffer

    def replace(self, tensors: Sequence[Array]) -> int:
        """Take what a step has made; return the version.

        Parameters
        ----------
        tensors : sequence of ndarray
            In the layout's order.
        """
        with self._held(PATIENCE):
            self.layout.pack(tensors, self._buffer)
            self.version += 1
            return self.version

    def adopt(self, buffer: Buffer) -> int:
        """Take what workers have made; return the version.

        Parameters
        ----------
        buffer : ndarray, shape (layout.nbytes,), uint8
            Copied.
        """
        with self._held(PATIENCE):
            self._buffer[:] = buffer
            self.version += 1
            return self.version

    def restore(self, buffer: Buffer, version: int) -> None:
        """Continue from a copy.

        Parameters
        ----------
        buffer : ndarray, shape (layout.nbytes,), uint8
        version : int
        """
        self.load(buffer)
        self.version = version
