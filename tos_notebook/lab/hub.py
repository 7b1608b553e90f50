"""The runs of this process, and the pages that look at them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..training.run import Run
from ..widgets.control import Steering
from ..widgets.facts import RunFacts
from ..widgets.model import watch
from ..widgets.pump import PUMP, Pump
from .session import PageSession
from .watched import Watched

KEPT = 20
"""Runs that have ended and are still shown, each with its curves, though nobody may hold them."""


class RunHub:
    """Keeps the runs that were started while it watched, and tells pages of them.

    Parameters
    ----------
    cell : callable
        Returns the id of the cell that is being executed, or None.
    cluster : callable
        Returns what the panel says of Spark as plain values, or None.
    pump : Pump, optional
        Feeds the pages; the process's own by default.
    """

    def __init__(
        self,
        cell: Callable[[], str | None],
        cluster: Callable[[], dict[str, Any] | None],
        pump: Pump = PUMP,
    ) -> None:
        self.cluster = cluster
        self._cell = cell
        self._pump = pump
        self._lock = threading.Lock()
        self._runs: dict[str, Watched] = {}
        self._pages: dict[str, PageSession] = {}

    @property
    def runs(self) -> dict[str, Watched]:
        """All that are shown, by their ids, oldest first."""
        with self._lock:
            return dict(self._runs)

    def watch(self, run: Run) -> None:
        """Follow a run from its beginning."""
        model, facts = watch(run), RunFacts(run)
        model.announced = True
        watched = Watched(model, facts, Steering(facts, model), self._cell())
        with self._lock:
            self._runs[run.run_id] = watched
            ended = [name for name, known in self._runs.items() if known.over]
            for name in ended[:-KEPT]:
                del self._runs[name]
        self.wake()

    def wake(self) -> None:
        """Tell every page what is new."""
        with self._lock:
            pages = list(self._pages.values())
        for page in pages:
            self._pump.add(page)

    def feed(self, page: PageSession) -> None:
        """Tell one page what it asked for."""
        self._pump.add(page)

    def enter(self, page: PageSession) -> None:
        """Serve a page; one of the same name, which it was before it connected anew, is closed."""
        with self._lock:
            before = self._pages.get(page.name)
            self._pages[page.name] = page
        if before is not None:
            before.close()

    def find(self, name: str) -> PageSession | None:
        """Return the page of a name, if it is served."""
        with self._lock:
            return self._pages.get(name)

    def leave(self, page: PageSession) -> None:
        """Serve a page no longer."""
        with self._lock:
            if self._pages.get(page.name) is page:
                del self._pages[page.name]

    def close(self) -> None:
        """Send every page away. Idempotent."""
        with self._lock:
            pages = list(self._pages.values())
        for page in pages:
            page.close()
