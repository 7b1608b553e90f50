"""What a worker does to itself at one moment of a step; on executors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

MESH = "strategies.allreduce.mesh_exchange", "MeshExchange"
SERVED = "strategies.ps.exchange", "ParameterExchange"
SESSION = "strategies.tensorflow.exchange", "SessionExchange"
RECORDED = "worker.recording", "RecordedExchange"
SUMMING = "reduction.reducer", "Reducer"
GATHERING = "reduction.gathered", "GatheringReducer"

REPORT = "push"
"""Of each exchange; its last argument is called once the report is sent."""

PLACES: dict[str, tuple[tuple[tuple[str, str], str], ...]] = {
    "computing": ((MESH, "_weigh"), (SERVED, "write"), (SESSION, "write"), (RECORDED, "write")),
    # What others add has been sent, and nothing was added here.
    "reducing": ((SUMMING, "_add"), (GATHERING, "_add")),
    # Its part of the mean has been sent, and those of others have not come.
    "gathering": ((SUMMING, "_copy"),),
    "unreported": ((MESH, REPORT), (SERVED, REPORT), (SESSION, REPORT), (RECORDED, REPORT)),
    "reported": ((MESH, REPORT), (SERVED, REPORT), (SESSION, REPORT)),
}
"""Classes and their methods, by moment."""

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
        left = [CALL]

        def end() -> None:
            left[0] -= 1
            if left[0] <= 0 and folder.exists():
                (folder / FIRED).touch()
                os.kill(os.getpid(), signal.SIGKILL)

        for (module, name), method in PLACES[self.moment]:
            owner = getattr(import_module(f"tos_notebook.{module}"), name)
            wrap = _reporting if self.moment == "reported" else _before
            setattr(owner, method, wrap(owner.__dict__[method], end))


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
