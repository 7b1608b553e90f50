"""The running mean of the workers' optimizer slots."""

from __future__ import annotations

import threading

from ...combiners.arithmetic import blend
from ...common.arrays import Buffer
from ...layout import Layout


class SlotMean:
    """One vector s of slots, which every worker's own s_w pulls: ``s += (s_w - s) / n``.

    A convex mean: where all slots are at least 0, as Adam's v is, the mean is, too. It belongs to
    no version of the parameters, and a worker that sends its slots twice pulls twice: slots
    direct a step, they do not count rows, so nothing needs to be exactly-once. Thread-safe.

    It costs the memory of one worker's slots, and the same again for each connection that sends
    some; each exchange carries them once up and once down, as they are. With Adam that is two
    models more each way.

    Parameters
    ----------
    layout : Layout
        Of one worker's slots, all floating-point.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._mean: Buffer | None = None
        self._lock = threading.Lock()

    def blend(self, vector: Buffer, workers: int) -> None:
        """Let a worker's slots pull the mean; on return `vector` holds the mean.

        Parameters
        ----------
        vector : ndarray, shape (layout.nbytes,), uint8
            The first ones become the mean as they are, and so do those of a single worker.
        workers : int
            n, at least 1.
        """
        with self._lock:
            if self._mean is None:
                self._mean = vector.copy()
                return
            vectors = self.layout.vectors
            for mean, own in zip(vectors(self._mean), vectors(vector), strict=True):
                blend(mean, own, 1 / workers)

    def copy(self) -> Buffer | None:
        """Return a copy of the mean, None if there is none yet."""
        with self._lock:
            return None if self._mean is None else self._mean.copy()

    def load(self, vector: Buffer) -> None:
        """Make a copy of `vector` the mean."""
        with self._lock:
            self._mean = vector.copy()

    def read(self, vector: Buffer) -> bool:
        """Copy the mean into `vector`; return whether there is one yet."""
        with self._lock:
            if self._mean is not None:
                vector[:] = self._mean
            return self._mean is not None
