"""A TensorFlow cluster that runs nothing, for those that show it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tos_notebook.errors import TosError
from tos_notebook.nodes.runs import Seen
from tos_notebook.nodes.snapshot import ClusterState, NodeState


def node(name: str = "worker:0", **changes: Any) -> NodeState:
    """Return a node as it stands."""
    made: NodeState = {
        "name": name,
        "host": "h",
        "state": "running",
        "rows": 0,
        "gpus": "",
        "lines": ["hello"],
    }
    made.update(changes)  # type: ignore[typeddict-item]
    return made


class FakeCluster:
    """Has what a view uses of a `ClusterRun`, and lasts until a test ends it."""

    def __init__(self, number: int = 1) -> None:
        self.id, self.number = f"cluster-{number}", number
        self.active = True
        self.error: TosError | None = None
        self.stands: ClusterState = {
            "id": self.id,
            "number": number,
            "state": "running",
            "nodes": [node("ps:0", lines=[]), node("worker:0")],
            "feed": None,
            "tensorboard": None,
            "notes": [],
            "error": None,
            "elapsed": 3.0,
        }
        self.waiting: Callable[[], object] = lambda: None
        self._changed = threading.Condition()
        self._news = [("worker:0", "hello")]

    @property
    def state(self) -> str:
        return self.stands["state"]

    def snapshot(self) -> ClusterState:
        return {**self.stands}

    def end(self, state: str = "finished", error: TosError | None = None) -> None:
        with self._changed:
            self.stands["state"], self.active, self.error = state, False, error
            if error is not None:
                frames = ['  File "Cell In[3]", line 4, in main', "    raise ValueError()"]
                self.stands["error"] = {
                    "message": str(error),
                    "where": "worker:0 on h",
                    "frames": frames,
                }
            self._changed.notify_all()

    def request_stop(self) -> None:
        self.stands["state"] = "stopping"

    def stop(self, timeout: float = 30) -> FakeCluster:
        self.end("stopped")
        return self

    def wait(self, timeout: float | None = None) -> FakeCluster:
        self.waiting()
        with self._changed:
            assert self._changed.wait_for(lambda: not self.active, 10), "nobody ended the cluster"
        self.check()
        return self

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def wait_for_news(self, condition: Callable[[], bool], seconds: float) -> bool:
        self.waiting()
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    def new_lines(self, seen: Seen) -> list[tuple[str, str]]:
        found, self._news = self._news, []
        return found

    def said(self, seen: Seen) -> bool:
        return bool(self._news)
