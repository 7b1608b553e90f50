"""What a worker, or a shard, does to itself at one moment of a step; on executors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

MESH = "strategies.allreduce.mesh_exchange", "MeshExchange"
SERVED = "strategies.ps.exchange", "ParameterExchange"
SESSION = "strategies.tensorflow.exchange", "SessionExchange"
SHARDED = "strategies.ps.shards.exchange", "ShardedExchange"
RECORDED = "worker.recording", "RecordedExchange"
SUMMING = "reduction.reducer", "Reducer"
GATHERING = "reduction.gathered", "GatheringReducer"

REPORT = "push"
"""Of each exchange; its last argument is called once the report is sent."""

PLACES: dict[str, tuple[tuple[tuple[str, str], str], ...]] = {
    "computing": (
        *((MESH, "_weigh"), (SERVED, "write"), (SESSION, "write"), (RECORDED, "write")),
        (SHARDED, "write"),
    ),
    # What others add has been sent, and nothing was added here.
    "reducing": ((SUMMING, "_add"), (GATHERING, "_add")),
    # Its part of the mean has been sent, and those of others have not come.
    "gathering": ((SUMMING, "_copy"),),
    "unreported": (
        *((MESH, REPORT), (SERVED, REPORT), (SESSION, REPORT), (RECORDED, REPORT)),
        (SHARDED, REPORT),
    ),
    "reported": ((MESH, REPORT), (SERVED, REPORT), (SESSION, REPORT)),
    # Shards have its update, which the driver has not counted.
    "left": ((SHARDED, "_traffic"),),
    # The driver has counted its update, which no shard has merged.
    "counted": ((SHARDED, "_collect"),),
}
"""Classes and their methods, by moment."""

HANDLER = "strategies.ps.shards.peer", "ShardHandler"
STAGING = "strategies.ps.shards.staging", "Staging"
SHARD = "strategies.ps.shards.service", "Shard"

OF_SHARDS: dict[str, tuple[tuple[str, str], str]] = {
    "taking": (HANDLER, "_stage"),
    "merging": (STAGING, "_merge"),
    "copying": (SHARD, "_copy"),
    "sending": (SHARD, "_send"),
}
"""The same of what a shard does."""

CALL = 4
"""Which call of them ends the worker; not the first, with which a run begins."""

FIRED, CUT = "fired", "cut"
"""Files that say that it has happened, and that no worker can connect to another one."""


@dataclass(frozen=True)
class Dies:
    """Ends the first worker of partition 1 at a moment; see `counting.data`.

    Parameters
    ----------
    moment : str
        A key of `PLACES`.
    """

    moment: str

    def __call__(self, partition: int, attempt: int, folder: Path) -> None:
        """Watch for the moment, unless it has been."""
        if partition != 1 or (folder / FIRED).exists():
            return
        end = _end_at_last(folder, CALL)
        for (module, name), method in PLACES[self.moment]:
            owner = getattr(import_module(f"tos_notebook.{module}"), name)
            wrap = _reporting if self.moment == "reported" else _before
            setattr(owner, method, wrap(owner.__dict__[method], end))


@dataclass(frozen=True)
class EndsShard:
    """Runs shards, and ends the first one of a number at a moment; see `SideTask`.

    Parameters
    ----------
    task : callable
        What shards do.
    moment : str
        A key of `OF_SHARDS`.
    folder : Path
    shard : int
    """

    task: Callable[[int, Any], None]
    moment: str
    folder: Path
    shard: int

    def __call__(self, number: int, place: Any) -> None:
        """Watch for the moment, unless it has been; serve."""
        if number == self.shard and not (self.folder / FIRED).exists():
            # The copies begin with the run, and each shard has few of them.
            calls = 1 if self.moment in ("copying", "sending") else 10 * CALL
            (module, name), method = OF_SHARDS[self.moment]
            owner = getattr(import_module(f"tos_notebook.{module}"), name)
            setattr(
                owner, method, _before(owner.__dict__[method], _end_at_last(self.folder, calls))
            )
        self.task(number, place)


@contextmanager
def ending_shard(moment: str, folder: Path, shard: int = 1) -> Iterator[None]:
    """Let a shard of the runs that start inside meet its end; see `EndsShard`."""
    from tos_notebook.strategies.ps.shards import parameters

    made: Any = parameters.ShardTask
    parameters.ShardTask = lambda *given: EndsShard(made(*given), moment, folder, shard)  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        parameters.ShardTask = made  # type: ignore[misc]


def _end_at_last(folder: Path, calls: int) -> Callable[[], None]:
    """Return what ends this process when it is called so many times."""
    left = [calls]

    def end() -> None:
        left[0] -= 1
        if left[0] <= 0 and folder.exists():
            (folder / FIRED).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return end


def _before(method: Callable[..., Any], end: Callable[[], None]) -> Callable[..., Any]:
    def ended(*arguments: Any) -> Any:
        end()
        return method(*arguments)

    return ended


def _reporting(push: Callable[..., Any], end: Callable[[], None]) -> Callable[..., Any]:
    def ended(exchange: Any, message: Any, meanwhile: Callable[[], object]) -> Any:
        return push(exchange, message, end)

    return ended


def unreachable(partition: int, attempt: int, folder: Path) -> None:
    """Let no worker connect to another one, once a file says so."""
    from tos_notebook.strategies.allreduce import peers

    made = getattr(peers.Address, "made", peers.Address)

    def address(host: str, port: int) -> Any:
        return made(host, 1 if (folder / CUT).exists() else port)

    # A process may serve several runs.
    address.made = made  # type: ignore[attr-defined]
    peers.Address = address  # type: ignore[assignment, misc]


def never_reachable(partition: int, attempt: int, folder: Path) -> None:
    """Let no worker connect to another one."""
    (folder / CUT).touch()
    unreachable(partition, attempt, folder)
