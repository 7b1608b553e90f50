"""The GPUs of a node: those that Spark has given its task, and what is said of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..cluster.gpus import SETTINGS, VISIBLE, claim_gpus

_DEVICES = Path("/dev")


def claim_of_spark(job: str, index: int, cluster: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the environment that shows a node the GPUs of its Spark task; see `keeper.Claim`.

    Where Spark gives the task none, nothing is changed.

    Raises
    ------
    WorkerEnvironment
        This process has served a task of other GPUs.
    """
    given = claim_gpus()
    return {**SETTINGS, VISIBLE: ",".join(given)} if given else {}


def visible(environment: Mapping[str, str], devices: Path = _DEVICES) -> str:
    """Return the GPUs that a process with this environment sees, such as ``0,1``.

    Parameters
    ----------
    environment : mapping of str
        What is set besides this process's own.
    devices : Path
        Where the system lists its devices.
    """
    named = environment.get(VISIBLE, os.environ.get(VISIBLE))
    if named is not None:
        return "" if named.startswith("-") else named
    found = (path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*"))
    return ",".join(sorted(found, key=int))
