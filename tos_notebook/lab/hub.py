"""The runs of this process, and the pages that look at them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..cluster.summary import ClusterSummary
from ..nodes.runs import ClusterRun
from ..readable import all_readable
from ..training.run import Run
from ..widgets.cluster_view import answer
from ..widgets.control import Steering
from ..widgets.facts import RunFacts
from ..widgets.feed import Feed, Send
from ..widgets.model import watch
from ..widgets.news import Facts, Plain
from ..widgets.pump import PUMP, Pump
from .watched import ClusterRow, Watched, WatchedCluster

if TYPE_CHECKING:
    from comm.base_comm import BaseComm

logger = logging.getLogger(__name__)

PACE = 1.0
"""Seconds between two overviews, unless the page wants fewer."""

SILENCE = 150.0
"""Seconds after which a page that is told things and never says a word is taken for gone. Pages
speak twice a minute; one in the background is slowed down by its browser."""

CLUSTER = 10.0
"""Seconds between two looks at Spark while a run is active: executors come and go."""

KEPT = 20
"""Runs that have ended and are still shown, each with its curves, though let go elsewhere."""


class RunHub:
    """Keeps the runs that were started while it watched, and tells pages of them.

    Parameters
    ----------
    cell : callable
        Returns the id of the cell that is being executed, or None.
    cluster : callable
        Returns what the panel says of Spark, or None.
    pump : Pump, optional
        Feeds the pages; the process's own by default.
    """

    def __init__(
        self,
        cell: Callable[[], str | None],
        cluster: Callable[[], ClusterSummary | None],
        pump: Pump = PUMP,
    ) -> None:
        self.cluster = cluster
        self._cell = cell
        self._pump = pump
        self._lock = threading.Lock()
        self._runs: dict[str, Watched] = {}
        self._hidden: set[str] = set()
        self._clusters: dict[str, WatchedCluster] = {}
        self._pages: dict[str, PageSession] = {}

    @property
    def clusters(self) -> dict[str, WatchedCluster]:
        """All TensorFlow clusters that are shown, by their ids, oldest first."""
        with self._lock:
            return dict(self._clusters)

    @property
    def runs(self) -> dict[str, Watched]:
        """All that are shown, by their ids, oldest first."""
        with self._lock:
            return dict(self._runs)

    @property
    def hidden(self) -> frozenset[str]:
        """The ids of runs that a person has taken out of the panel."""
        with self._lock:
            return frozenset(self._hidden)

    def hide(self, run: str) -> None:
        """Take a run that has ended out of the panel of every page."""
        with self._lock:
            watched = self._runs.get(run)
            if watched is None or not watched.over:
                return
            self._hidden.add(run)
        self.wake()

    def watch(self, run: Run) -> None:
        """Follow a run from its beginning."""
        model, facts = watch(run), RunFacts(run)
        model.announced = True
        watched = Watched(model, facts, Steering(facts, model), self._cell())
        with self._lock:
            # A run that is resumed in its own process keeps its id.
            self._runs.pop(run.run_id, None)
            self._hidden.discard(run.run_id)
            self._runs[run.run_id] = watched
            ended = [name for name, known in self._runs.items() if known.over]
            for name in ended[:-KEPT]:
                del self._runs[name]
            self._hidden &= self._runs.keys()
        self.wake()

    def watch_cluster(self, cluster: ClusterRun) -> None:
        """Follow a TensorFlow cluster from its beginning."""
        with self._lock:
            self._clusters[cluster.id] = WatchedCluster(cluster, self._cell())
            ended = [name for name, known in self._clusters.items() if known.over]
            for name in ended[:-KEPT]:
                del self._clusters[name]
        self.wake()

    @property
    def pages(self) -> list[PageSession]:
        """All that are served."""
        with self._lock:
            return list(self._pages.values())

    def wake(self) -> None:
        """Tell every page what is new."""
        for page in self.pages:
            self._pump.add(page)

    def feed(self, page: PageSession) -> None:
        """Tell one page what it asked for."""
        self._pump.add(page)

    def enter(self, page: PageSession) -> None:
        """Serve a page; one of the same name, which it was before it connected again, is closed."""
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
        for page in self.pages:
            page.close()


class PageSession:
    """Serves one page over two comms.

    Requests come over `control`, which carries their answers back and nothing else: a kernel may
    put a message to a comm behind a running cell once another thread has published on it.

    Parameters
    ----------
    name : str
        Chosen by the page; the same after it has connected again.
    control : BaseComm
    hub : RunHub
    """

    def __init__(self, name: str, control: BaseComm, hub: RunHub) -> None:
        self.name = name
        self._control = control
        self._stream: BaseComm | None = None
        self._hub = hub
        self._lock = threading.Lock()
        self._views: dict[str, _View] = {}
        self._overview = _Overview(hub, self._tell)
        self._unanswered: float | None = None
        self._closed = False

    def attach(self, stream: BaseComm) -> None:
        """Begin to tell the page what it should know."""
        self._stream = stream
        self._overview.hello()
        self._hub.feed(self)

    def receive(self, content: Any) -> None:
        """Act on a message of the page, and answer it if it asks for that."""
        self._unanswered = None
        kind = content.get("type") if isinstance(content, dict) else None
        act = self._ACTIONS.get(kind) if isinstance(kind, str) else None
        if act is None:
            logger.warning("Expected a request from a page, got %.200r.", content)
        else:
            act(self, content)

    def tick(self, now: float) -> bool:
        """Send what is new; return whether more may follow."""
        if self._closed:
            return False
        if self._unanswered is not None and now - self._unanswered > SILENCE:
            self.close()
            return False
        with self._lock:
            views = list(self._views.values())
        going = [self._overview.tick(now), *(view.tick(now) for view in views)]
        if not any(going):
            # The page has nothing more to hear, and so no reason to speak.
            self._unanswered = None
        return any(going)

    def close(self) -> None:
        """Send the page away. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._hub.leave(self)
        for comm in (self._control, self._stream):
            if comm is not None:
                comm.close()

    # -- requests ---------------------------------------------------------------------

    def _here(self, content: Mapping[str, Any]) -> None:
        """Take note that it lives, which `receive` has done."""

    def _hello(self, content: Mapping[str, Any]) -> None:
        self._overview.hello()
        self._hub.feed(self)

    def _pace(self, content: Mapping[str, Any]) -> None:
        seconds = _seconds(content, PACE)
        with self._lock:
            view = self._views.get(str(content.get("view")))
        if view is not None:
            view.pace = seconds
        elif "view" not in content:
            self._overview.pace = seconds
        self._hub.feed(self)

    def _watch(self, content: Mapping[str, Any]) -> None:
        name, run = str(content.get("view")), str(content.get("run"))
        if run not in self._hub.runs:
            self._control.send({"type": "gone", "view": name})
            return
        with self._lock:
            view = self._views.get(name)
            if view is None:
                view = self._views[name] = _View(self._hub, run, self._sender(name))
        view.hello(_seconds(content, 0.0))
        self._hub.feed(self)

    def _unwatch(self, content: Mapping[str, Any]) -> None:
        with self._lock:
            self._views.pop(str(content.get("view")), None)

    def _command(self, content: Mapping[str, Any]) -> None:
        watched = self._watched(content)
        if isinstance(watched, WatchedCluster):
            self._control.send(all_readable(answer(watched.run, content)))
        elif watched is not None:
            self._control.send(all_readable(watched.steering(content)))

    def _hide(self, content: Mapping[str, Any]) -> None:
        self._hub.hide(str(content.get("run")))

    def _picture(self, content: Mapping[str, Any]) -> None:
        if (watched := self._watched(content)) is not None:
            self._answer(content, ok=True, bundle=watched.picture())

    def _watched(self, content: Mapping[str, Any]) -> Watched | WatchedCluster | None:
        """Return the run or the cluster that is named; else answer that there is none."""
        watched: Watched | WatchedCluster | None
        if "cluster" in content:
            kind, watched = "cluster", self._hub.clusters.get(str(content["cluster"]))
        else:
            kind, watched = "run", self._hub.runs.get(str(content.get("run")))
        if watched is None:
            self._answer(content, ok=False, text=f"This kernel no longer has such a {kind}.")
        return watched

    _ACTIONS: Mapping[str, Callable[[PageSession, Mapping[str, Any]], None]] = {
        "here": _here,
        "hello": _hello,
        "pace": _pace,
        "watch": _watch,
        "unwatch": _unwatch,
        "command": _command,
        "hide": _hide,
        "picture": _picture,
    }

    def _answer(self, content: Mapping[str, Any], **answer: Any) -> None:
        self._control.send(all_readable({"type": "answer", "id": content.get("id")} | answer))

    def _sender(self, view: str) -> Send:
        return lambda content, buffers: self._tell({**content, "view": view}, buffers)

    def _tell(self, content: Plain, buffers: list[bytes]) -> None:
        if self._stream is None or self._closed:
            return
        if self._unanswered is None:
            self._unanswered = time.time()
        self._stream.send(dict(content), buffers=buffers)


class _View:
    def __init__(self, hub: RunHub, run: str, send: Send):
        self.pace = self._told = 0.0
        self._hub, self._run, self._send = hub, run, send
        self._watched: Watched | None = None

    def hello(self, pace: float) -> None:
        self.pace, self._told = pace, 0.0
        if self._watched is not None:
            self._feed.hello()

    def tick(self, now: float) -> bool:
        found = self._hub.runs.get(self._run, self._watched)
        if found is None:
            return False
        if found is not self._watched:
            self._watched = found
            self._feed = Feed(found.model, found.facts, self._send)
            self._feed.hello()
        over = found.over
        if over or now - self._told >= self.pace:
            self._told = now
            self._feed.tick(now, last=over)
        return not over


class _Overview:
    def __init__(self, hub: RunHub, tell: Send) -> None:
        self.pace = PACE
        self._hub = hub
        self._tell = tell
        self._whole = False
        self._seq = 0
        self._told = self._looked = 0.0
        self._cluster: ClusterSummary | None = None
        self._nodes: list[ClusterRow] = []
        # What a run's row was made from.
        self._known: dict[str, tuple[int, bool, bool, Facts]] = {}

    def hello(self) -> None:
        self._whole = True

    def tick(self, now: float) -> bool:
        """Tell what is new if it is time; return whether more may follow."""
        runs, clusters = self._hub.runs, self._hub.clusters
        over = (*(w.over for w in runs.values()), *(w.over for w in clusters.values()))
        active = not all(over)
        # A new run's view waits for the news of it.
        awaited = self._whole or not runs.keys() <= self._known.keys()
        if not awaited and not _due(now, self._told, self.pace):
            return True
        whole, self._whole = self._whole, False
        cluster = self._look(now, whole or not active)
        hidden = self._hub.hidden
        stands = {
            name: (w.model.changes, w.over, name in hidden, w.facts()) for name, w in runs.items()
        }
        changed = [name for name in runs if whole or stands[name] != self._known.get(name)]
        nodes = [clusters[name].row() for name in clusters]
        if whole or changed or (cluster, nodes) != (self._cluster, self._nodes):
            self._seq += 1
            self._told, self._known, self._cluster = now, stands, cluster
            self._nodes = nodes
            rows = [{**runs[name].row(now), "hidden": name in hidden} for name in changed]
            told = {"cluster": cluster and asdict(cluster), "runs": rows, "clusters": nodes}
            found = all_readable(told)
            self._tell({"type": "overview", "seq": self._seq, "whole": whole, **found}, [])
        return active

    def _look(self, now: float, again: bool) -> ClusterSummary | None:
        if not again and now - self._looked < CLUSTER:
            return self._cluster
        self._looked = now
        return self._hub.cluster()


def _due(now: float, told: float, pace: float) -> bool:
    """Whether to tell again: at whole multiples of the pace, so that all readers agree."""
    return pace <= 0 or int(now / pace) != int(told / pace)


def _seconds(content: Mapping[str, Any], otherwise: float) -> float:
    found = content.get("seconds", otherwise)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return otherwise
    return min(60.0, max(0.0, float(found)))
