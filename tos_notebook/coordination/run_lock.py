"""The lock of a run's state, which keeps the fast path of pushes out while it is held."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..common.interrupts import HeldBack
from ..transport.fast_path import Noted, Path

log = logging.getLogger(__name__)

Settle = Callable[[Callable[[], Sequence[Noted]]], None]


class RunLock:
    """A reentrant lock, under which all that was merged is counted.

    The fast path merges pushes without it, by what was true when it was held last. A thread that
    takes it first counts these pushes, and no further push is merged while the thread holds it.
    After that, a worker takes the fast path only when the strategy has agreed again, unless the
    thread took the lock with `unchanged`.

    Ctrl-C waits until the lock is got or given back, so that it interrupts no count.

    Attributes
    ----------
    changed : bool
        Whether something may be otherwise that workers go by, since the lock was taken.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._path: Path | None = None
        self._settle: Settle = lambda take: None
        self.changed = False

    def follow(self, path: Path, settle: Settle) -> None:
        """Keep a path out from now on, and count what is merged there; the one before is closed.

        Parameters
        ----------
        path : Path
        settle : callable
            Takes what returns the pushes that are to be counted, with the lock held; raises
            nothing.
        """
        path.settle = self._settle_only
        with self:
            # All that the path before has merged is counted by now.
            if path is not self._path:
                if self._path is not None:
                    self._path.hold()
                    self._path.resume(True)
                path.pause()
            self._path, self._settle = path, settle

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See `threading.RLock.acquire`."""
        got = False
        try:
            with HeldBack():
                got = self._lock.acquire(blocking, timeout)
                if got:
                    self._enter()
                    self.changed = True
        except BaseException:
            if got:
                self.release()
            raise
        return got

    def release(self) -> None:
        """See `threading.RLock.release`."""
        with HeldBack():
            self._leave()
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Hold the lock to change nothing that other workers go by, or what sets `changed`.

        For the threads of connections: Ctrl-C is not held back.
        """
        with self._lock:
            if self._depth == 0:
                self.changed = False
            self._enter()
            try:
                yield
            finally:
                self._leave()

    def _enter(self, depth: int = 1) -> None:
        before, self._depth = self._depth, self._depth + depth
        if before == 0 and self._path is not None:
            self._path.pause()
            self._count()

    def _leave(self, depth: int = 1) -> None:
        self._depth -= depth
        if self._depth == 0 and self._path is not None:
            self._path.resume(self.changed)

    def _count(self) -> None:
        assert self._path is not None
        try:
            self._settle(self._path.take)
        except Exception:
            # The thread has to get the lock all the same.
            log.exception("What the fast path has merged was not counted")

    def _settle_only(self) -> None:
        """Count what was merged so far, while more is merged."""
        with self._lock:
            if self._depth == 0 and self._path is not None:
                self._count()

    # What `threading.Condition` asks of a lock that is reentrant.

    def _release_save(self) -> tuple[int, Any]:
        saved = None
        try:
            with HeldBack():
                depth = self._depth
                self._leave(depth)
                saved = depth, self._lock._release_save()  # type: ignore[attr-defined]
        except BaseException:
            if saved is not None:
                self._acquire_restore(saved)
            raise
        return saved

    def _acquire_restore(self, saved: tuple[int, Any]) -> None:
        depth, held = saved
        with HeldBack():
            self._lock._acquire_restore(held)  # type: ignore[attr-defined]
            self._enter(depth)
            self.changed = True

    def _is_owned(self) -> bool:
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]
        return owned
