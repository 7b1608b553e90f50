"""The parameters of a run, whichever strategy trains them at the moment."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

from ..common.arrays import Array, Buffer
from ..common.served_files import RowsFile
from .exchange import Parameters, ServedParameters


class PresentParameters:
    """Parameters that change hands with the strategy of a run; see `Parameters`.

    Parameters
    ----------
    parameters : Parameters
        Those of the strategy that the run begins with. Its layout stays that of all buffers here.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.layout = parameters.layout
        self._now = parameters
        # Keeps a load from what is no longer trained.
        self._lock = threading.Lock()

    def change_hands(self, parameters: Parameters) -> None:
        """Be those of another strategy, which hold the same values."""
        with self._lock:
            self._now = parameters

    @property
    def version(self) -> int:
        """See `Parameters.version`."""
        return self._now.version

    @property
    def torn(self) -> str | None:
        """See `Parameters.torn`."""
        return self._now.torn

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """See `Parameters.read`."""
        now = self._now
        if now.layout == self.layout:
            return now.read(out, patience)
        values, version = now.read(patience=patience)
        buffer = self.layout.allocate() if out is None else out
        self.layout.adopt(buffer, now.layout, values)
        return buffer, version

    @property
    def rows(self) -> Any:
        """Rows of served tables, as of the last copy; see `ServedParameters`."""
        return cast(ServedParameters, self._now).rows

    def files(self) -> Sequence[RowsFile]:
        """Return rows of served tables as they are now; see `ServedParameters`."""
        return cast(ServedParameters, self._now).files()

    def find_rows(self, table: int, ids: Array) -> Array:
        """Return rows of a served table as they are now; see `ServedParameters`."""
        return cast(ServedParameters, self._now).find_rows(table, ids)

    def load(self, buffer: Buffer) -> None:
        """See `Parameters.load`."""
        with self._lock:
            now = self._now
            if now.layout == self.layout:
                now.load(buffer)
                return
            values, _ = now.read()
            now.layout.adopt(values, self.layout, buffer)
            now.load(values)
