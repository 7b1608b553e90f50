"""TensorBoard beside the first worker of a cluster."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress

from .context import TRAINING
from .plan import NodePlan

FIXED = "TENSORBOARD_PORT"
"""The executor's environment variable that names the port."""

END = 5.0
"""Seconds for it to end, once it was asked to."""


def shows_board(plan: NodePlan, job: str, index: int) -> bool:
    """Return whether a node is the one to show TensorBoard: the first worker, else the leader."""
    first = next((each for each in ("worker", *TRAINING) if each in plan.template), None)
    return plan.tensorboard and index == 0 and job == first


class Board:
    """A TensorBoard in a process of its own; a context manager.

    Parameters
    ----------
    log_dir : str
        The folder that it shows.
    host : str
        Where it listens: this host's address, by which the driver is reached. Whoever reaches it
        can read what it shows.

    Attributes
    ----------
    port, pid : int
    """

    def __init__(self, log_dir: str, host: str) -> None:
        self.port = int(os.environ.get(FIXED, 0)) or _free_port(host)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tensorboard.main", "--reload_multifile=True"),
                *(f"--logdir={log_dir}", f"--host={host}", f"--port={self.port}"),
            ],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.pid = self._process.pid

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END)
            return
        self._process.kill()
        self._process.wait()


def _free_port(host: str) -> int:
    with socket.socket() as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])
