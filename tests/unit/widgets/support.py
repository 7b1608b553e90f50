"""A run that trains nothing, and readers of what a view sends."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.settings import SETTINGS
from tos_notebook.combiners.registry import get
from tos_notebook.errors import InvalidTransition
from tos_notebook.steering.machine import Command
from tos_notebook.steering.shards import ShardLoad
from tos_notebook.strategies import as_strategy
from tos_notebook.training.run import Run
from tos_notebook.widgets.model import RunModel
from tos_notebook.widgets.news import Facts

FACTS: Facts = {
    "id": "run-1",
    "number": 1,
    "name": None,
    "has_learning_rate": True,
    "master": "local[2]",
    "program": "<KerasProgram>",
    "actions": [{"name": "pause", "verb": "Set", "arguments": []}],
    "strategy": "ps",
    "lockstep": False,
    "continues": False,
    "combiner": "dynsgd",
    "sync": "asp",
    "codec": "fp32",
    "model_bytes": 128,
    "measures": [],
    "sync_interval": 10,
    "batch_size": 100,
    "learning_rate": None,
    "own_rate": 0.001,
    "validates": False,
    "shards": [],
    "chaos": [],
    "chaos_log": [],
}


class FakeRun:
    """Has what a view uses of a run, and notes what it is told."""

    def __init__(self, *sinks: Callable[[Any], object]) -> None:
        self.sinks = sinks
        self.run_id, self.number = "run-1", 1
        self.shards: tuple[ShardLoad, ...] = ()
        self.name: str | None = None
        self.has_learning_rate = True
        self.commands = frozenset(Command)
        self.chaos_log: tuple[Any, ...] = ()
        self.master = "local[2]"
        self.own_rate: float | None = 0.001
        self.validates = False
        self.program = SimpleNamespace(
            summary="keras, 10 parameters in 2 tensors, fed x, y",
            layout=SimpleNamespace(nbytes=128, tables=()),
            expected_names=lambda: ("loss", "accuracy"),
        )
        self.active = True
        self.state = "running"
        self.settings = SETTINGS
        self.told: list[tuple[Any, ...]] = []
        self.stopping: Callable[[], object] = lambda: None

    def add_sink(self, sink: Callable[[Any], object]) -> None:
        self.sinks += (sink,)

    def pause(self) -> None:
        if self.state == "paused":
            raise InvalidTransition(self.state, "pause", "it is paused already.")
        self.state = "paused"
        self.told.append(("pause",))

    def unpause(self) -> None:
        self.state = "running"
        self.told.append(("unpause",))

    def stop(self) -> None:
        self.told.append(("stop",))
        self.stopping()

    def repartition(self, partitions: int) -> None:
        self.told.append(("repartition", partitions))

    def swap_combiner(self, combiner: Any) -> None:
        self.told.append(("swap combiner", get(combiner).name))

    def swap_strategy(self, strategy: Any) -> None:
        self.told.append(("swap strategy", as_strategy(strategy)))

    def chaos(self, *rules: Any) -> None:
        self.told.append(("chaos", *rules))

    def set(self, **settings: Any) -> None:
        inspect.signature(Run.set).bind(self, **settings)
        self.told.append(("set", settings))


def points(buffer: bytes) -> npt.NDArray[np.float32]:
    """Return a series' buffer as (time, samples, epoch, value)."""
    return np.frombuffer(buffer, "<f4").reshape(4, -1)


def mimebundle(shown: Any) -> dict[str, Any]:
    """Return what IPython is given of an object at a cell's end."""
    found: dict[str, Any] = shown._repr_mimebundle_()
    return found


class Front:
    """A front end: applies what it is sent as the protocol says."""

    def __init__(self) -> None:
        self.messages: list[Mapping[str, Any]] = []
        self.sizes: list[int] = []
        self.state: dict[str, Any] = {}
        self.series: dict[tuple[str, str], npt.NDArray[np.float32]] = {}
        self.lanes = np.empty((6, 0), "<f4")
        self.gap = False

    def __call__(self, content: Mapping[str, Any], buffers: list[bytes]) -> None:
        previous = self.messages[-1]["seq"] if self.messages else None
        self.messages.append(content)
        self.gap = content["type"] == "delta" and content["seq"] != (previous or 0) + 1
        if content["type"] == "snapshot":
            self.state, self.series, self.lanes = {}, {}, np.empty((6, 0), "<f4")
        state = dict(content["state"])
        rest = list(buffers)
        for head in state.pop("series", []):
            key = head["name"], head["split"]
            new = points(rest.pop(0))
            assert new.shape[1] == head["length"]
            self.series[key] = np.hstack([self.series.get(key, new[:, :0]), new])
        if "lanes" in state:
            new = np.frombuffer(rest.pop(0), "<f4").reshape(6, -1)
            assert new.shape[1] == state.pop("lanes")["length"]
            self.lanes = np.hstack([self.lanes, new])
        assert not rest
        for name in ("marks", "log"):
            self.state[name] = self.state.get(name, []) + state.pop(name, [])
        commands = {(c["time"], c["command"]): c for c in self.state.get("commands", [])}
        commands |= {(c["time"], c["command"]): c for c in state.pop("commands", [])}
        run = self.state.get("run", {}) | state.get("run", {})
        self.state |= state | {"run": run, "commands": list(commands.values())}

    @property
    def kinds(self) -> list[str]:
        return [message["type"] for message in self.messages]


def shown(model: RunModel, now: float = 10.0) -> Front:
    """Return what a front end has after a first look at a run."""
    news, front = model.snapshot(now, FACTS), Front()
    front({"type": "snapshot", "seq": 1, "state": news.state}, news.buffers)
    return front
