"""The parameters of a run in memory that workers of this host change without locks."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import numpy as np

from ....common.arrays import Buffer
from ....errors import CheckpointError, ConfigError, NonFiniteUpdate
from ....layout import Layout
from ....transport.fast_path import NoPath, Path, new_path
from ....transport.shared import Segment
from ..non_finite import find_non_finite
from ..push import Copied


class SharedParameters:
    """See `Parameters`. Workers add to them, and tell the driver afterwards, which counts.

    A copy is not of one version: what workers add meanwhile is in some of its values.

    Parameters
    ----------
    layout : Layout
    initial : ndarray, shape (layout.nbytes,), uint8
        Copied.

    Raises
    ------
    ConfigError
        This host has no memory to share.
    """

    def __init__(self, layout: Layout, initial: Buffer) -> None:
        self.layout = layout
        self.torn: str | None = None
        # Without parameters: the fast path only counts.
        self.path = new_path(np.empty(0, np.uint8))
        self._counted: Path | NoPath = self.path or NoPath()
        self._lock = threading.Lock()
        segment = Segment(layout.nbytes)
        if not segment.name:
            raise ConfigError(
                f"locking: expected {layout.nbytes} bytes of memory that processes of this host "
                "can share, got none from the system. Train with locking=True."
            )
        self.segment = segment.name
        """By which a worker of this host finds the parameters."""
        self._center = segment.buffer
        self._close = weakref.finalize(self, segment.close)
        self.load(initial)

    @property
    def version(self) -> int:
        """Count of milestones."""
        return self._counted.version

    def count(self) -> int:
        """Count a milestone; return the version that it makes."""
        with self._lock:
            self._counted.hold()
            try:
                self._counted.version += 1
                return self._counted.version
            finally:
                self._counted.release()

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """See `Parameters.read`; nothing is waited for."""
        buffer = self.layout.allocate() if out is None else out
        version = self.version
        buffer[:] = self._center
        return buffer, version

    def load(self, buffer: Buffer) -> None:
        """See `Parameters.load`."""
        self._center[:] = buffer

    def go_on(self, version: int, torn: str | None = None) -> None:
        """Count on from a version, before the first milestone."""
        self._counted.version, self.torn = version, torn

    def snapshot(self, entered: Callable[[], object]) -> Copied:
        """Copy them, while no milestone is counted.

        Parameters
        ----------
        entered : callable
            Called when the copy is made.

        Raises
        ------
        CheckpointError
            They are not what the ledger says.
        """
        copied = Copied(*self.read(), {}, [])
        entered()
        self.check(copied.center)
        if self.torn is not None:
            raise CheckpointError(f"{self.torn} No checkpoint is written of it.")
        return copied

    def restore(self, copied: Copied) -> None:
        """Continue from what `snapshot` returned.

        Raises
        ------
        CheckpointError
            It is of other parameters; nothing was changed.
        """
        if copied.center.shape != (self.layout.nbytes,):
            raise CheckpointError(
                f"Expected parameters of {self.layout.nbytes} bytes, got {copied.center.nbytes}."
            )
        self.load(copied.center)
        self.go_on(int(copied.version))

    def check(self, buffer: Buffer) -> NonFiniteUpdate | None:
        """Return what is NaN or infinite in a copy; no checkpoint is written from then on."""
        found = find_non_finite(self.layout, buffer)
        if found is not None:
            self.tear("The parameters hold NaN or infinity.")
        return found

    def tear(self, why: str) -> None:
        """Refuse every `snapshot` from now on, for the reason in a sentence; the first counts."""
        self.torn = self.torn or why

    def close(self) -> NonFiniteUpdate | None:
        """Keep what there is, which no worker changes any more; return what is not finite."""
        self._close()
        self._center = self._center.copy()
        return self.check(self._center)
