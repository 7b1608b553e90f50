"""Error feedback: what encoded updates have left out, kept until it travels with a later one.

Seide et al. 2014 ("1-bit stochastic gradient descent", Interspeech); Karimireddy et al. 2019,
arXiv:1901.09847. What is kept belongs to the partition, not to the process that trains it: a file
that outlives the process has it, so that a task that Spark tries again on the same executor, and
the next job there, continue with it. Spark removes the folder with the application.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...common.arrays import ALIGNMENT, Buffer

Place = tuple[int, int]
"""Epoch and sequence of the push that comes next."""

_NEVER = (-1, -1)


class _Residuals:
    """Two residuals, each with the place of the push that it is to be added to.

    Two, because a push may be lost after its residual was written: the one before still counts.
    The server's answer settles which of them does.
    """

    def __init__(self, nbytes: int, path: Path | None = None, create: bool = True) -> None:
        apart = -(-nbytes // ALIGNMENT) * ALIGNMENT
        length = ALIGNMENT + 2 * apart
        if path is None:
            raw = np.frombuffer(mmap.mmap(-1, length), np.uint8)
        else:
            raw = _map(path, length, create)
        self._places = raw[:32].view(np.int64).reshape(2, 2)
        self._settled = raw[32:34]
        self._values: Buffer = raw[ALIGNMENT:].reshape(2, apart)[:, :nbytes]
        if create:
            self._places[:] = -1

    def place(self, number: int) -> Place:
        epoch, sequence = self._places[number].tolist()
        return epoch, sequence

    def values(self, number: int) -> Buffer:
        residual: Buffer = self._values[number]
        return residual

    def mark(self, number: int, place: Place) -> None:
        self._settled[number] = False
        self._places[number] = place

    def settle(self, number: int) -> None:
        self._settled[number] = True

    def best(self, place: Place, latest: bool) -> tuple[Place, int]:
        """Return the residual that was in no push that counts, for an attempt that begins there.

        If the last push had no answer, the place tells whether it counts, if these are of the
        latest attempt. Otherwise nothing tells: what may count already must not be added again.
        """
        newest, number = max((self.place(n), n) for n in range(2))
        if newest <= place and self._settled[number]:
            return newest, number
        if not latest:
            return _NEVER, number
        return max((p if (p := self.place(n)) == place else _NEVER, n) for n in range(2))


class _Found(NamedTuple):
    place: Place
    values: Buffer


class ResidualStore:
    """The residual of one partition.

    Parameters
    ----------
    nbytes : int
        Length of the parameters.
    folder : Path, optional
        Where to keep it; in this process's memory by default.
    run : str
    partition, task : int
    """

    def __init__(
        self,
        nbytes: int,
        folder: Path | None = None,
        run: str = "",
        partition: int = 0,
        task: int = 0,
    ) -> None:
        self._nbytes = nbytes
        self._folder = folder
        self._stem = f"tos-{run}.{partition}."
        self._name = f"{self._stem}{task}.residual"
        self._residuals: _Residuals | None = None
        self._current: int | None = None
        self._empty = False

    def begin(self, place: Place, before: int | None = None) -> None:
        """Continue with the residual of an earlier attempt, or job, at this partition, if any.

        Parameters
        ----------
        place : tuple of int
        before : int, optional
            The task of the latest attempt, wherever it was.
        """
        found = max(self._earlier(place, before), default=None, key=lambda one: one.place)
        if found is not None and found.place != _NEVER:
            self.next()[:] = found.values
            self.keep(place)
            self.settle()
        for path in self._others():
            path.unlink(missing_ok=True)

    @property
    def residual(self) -> Buffer | None:
        """The values to add to the next update; None for nothing."""
        if self._residuals is None or self._current is None:
            return None
        return self._residuals.values(self._current)

    def next(self) -> Buffer:
        """Return where to write what the next update leaves out; `keep` makes it count."""
        if self._residuals is None:
            path = None if self._folder is None else self._folder / self._name
            self._residuals = _Residuals(self._nbytes, path)
        self._residuals.mark(self._following, _NEVER)
        return self._residuals.values(self._following)

    def keep(self, place: Place) -> None:
        """Assign what was written to the push of a place."""
        assert self._residuals is not None
        self._current, self._empty = self._following, False
        self._residuals.mark(self._current, place)

    def forget(self, place: Place) -> None:
        """Keep nothing for the push of a place: all of it travels with the one before."""
        if self.residual is not None:
            self.next()[:] = 0
            self.keep(place)
            self._empty = True

    def settle(self) -> None:
        """Rely on what was kept: the push before it counts."""
        if self._residuals is None or self._current is None:
            return
        self._residuals.settle(self._current)
        if self._empty:
            for number in range(2):
                self._residuals.mark(number, _NEVER)
            self._current = None

    @property
    def _following(self) -> int:
        return 0 if self._current is None else 1 - self._current

    def _others(self) -> list[Path]:
        if self._folder is None:
            return []
        found = self._folder.glob(f"{self._stem}*.residual")
        return [path for path in found if path.name != self._name]

    def _earlier(self, place: Place, before: int | None) -> Iterator[_Found]:
        for path in self._others():
            # Another attempt may take it away meanwhile.
            with suppress(OSError, ValueError):
                residuals = _Residuals(self._nbytes, path, create=False)
                latest = path.name == f"{self._stem}{before}.residual"
                found, number = residuals.best(place, latest)
                yield _Found(found, residuals.values(number))


def sweep(folder: Path, run: str) -> None:
    """Remove what a run that is over has left in a folder."""
    for path in folder.glob(f"tos-{run}.*.residual"):
        path.unlink(missing_ok=True)


def _map(path: Path, length: int, create: bool) -> Buffer:
    flags = os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if create else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if create:
            os.posix_fallocate(descriptor, 0, length)
        return np.frombuffer(mmap.mmap(descriptor, length), np.uint8)
    finally:
        os.close(descriptor)
