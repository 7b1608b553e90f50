"""A shard writes its part of a checkpoint, on a thread of its own, while it serves workers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any

from ....cluster.arrow_storage import ArrowStorage
from ....common.arrays import Array
from ....common.threads import in_thread
from ....errors import CheckpointError, ConfigError
from ....persist.parts import PartPlace, SavedPart, digest, write_part
from ....persist.sealed import Streamed

WRITING, WRITTEN, FAILED, REFUSED = "writing", "written", "failed", "refused"
"""How far it is. A shard that has refused cannot write to this folder at all."""


class PartWriting:
    """One part that is being written.

    Parameters
    ----------
    place : PartPlace
        Where.
    own : str
        What the part's file is called besides.
    value : object
        Plain JSON.
    arrays : sequence of ndarray or Streamed
        Stay as they are until it is written.
    """

    def __init__(
        self, place: PartPlace, own: str, value: Any, arrays: Sequence[Array | Streamed]
    ) -> None:
        self._canceled = threading.Event()
        name = place.name(own)
        self._done = in_thread(f"tos-{name}", partial(self._write, place, name, value, arrays))

    @property
    def going_on(self) -> bool:
        """Whether it has not ended."""
        return not self._done.done()

    def outcome(self) -> dict[str, Any]:
        """Return how far it is, as plain JSON: a state, and the part or why there is none."""
        if self.going_on:
            return {"state": WRITING}
        error = self._done.exception()
        if error is None:
            return {"state": WRITTEN, "part": self._done.result()}
        text = str(error) if isinstance(error, CheckpointError) else f"{error!r}"
        told = f"Executor host {socket.gethostname()}: {text}"
        return {"state": REFUSED if isinstance(error, _Refused) else FAILED, "why": told}

    def cancel(self, timeout: float = 0.0) -> None:
        """End it, unless it is done; wait a while until it has ended."""
        self._canceled.set()
        wait([self._done], timeout)

    def _write(
        self, place: PartPlace, name: str, value: Any, arrays: Sequence[Array | Streamed]
    ) -> SavedPart:
        return write_part(_folder(place), name, value, arrays, self._check)

    def _check(self) -> None:
        if self._canceled.is_set():
            raise CheckpointError("The part is no longer wanted.")


class _Refused(CheckpointError):
    pass


def _folder(place: PartPlace) -> ArrowStorage:
    """Return the driver's folder.

    Raises
    ------
    _Refused
        It cannot be reached from here, or is another one of the same name.
    """
    try:
        folder = ArrowStorage(place.folder)
        found = digest(folder.read(place.proof))
    except (ConfigError, CheckpointError) as error:
        raise _Refused(str(error)) from None
    if found != place.digest:
        raise _Refused(f"{place.folder} is another folder here than in the driver.")
    return folder
