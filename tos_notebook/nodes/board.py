"""TensorBoard beside the first worker of a cluster."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress

from .context import TRAINING
from .plan import NodePlan

FIXED = "TENSORBOARD_PORT"
"""The executor's environment variable that names the port."""

RUN = """\
import runpy, sys
from tos_notebook.nodes.spawn import die_with
die_with(int(sys.argv.pop(1)))
runpy.run_module("tensorboard.main", run_name="__main__", alter_sys=True)
"""
"""Runs it, as long as the process lives that is named first: Spark may kill that."""

END = 5.0
"""Seconds for it to end, once it was asked to."""

LAST = 2000
"""Bytes of its output that are looked at for its last words."""


def shows_board(plan: NodePlan, job: str, index: int) -> bool:
    """Return whether a node is the one to show TensorBoard: the first worker, else the leader."""
    first = next((each for each in ("worker", *TRAINING) if each in plan.template), None)
    return plan.tensorboard and index == 0 and job == first


class Board:
    """A TensorBoard in a process of its own; a context manager. It may fail: `news` says why.

    Parameters
    ----------
    log_dir : str
        The folder that it shows.
    host : str
        Where it listens: this host's address, by which the driver is reached. Anyone who reaches it
        can read what it shows.

    Attributes
    ----------
    port, pid : int
        0 if it could not be started.
    """

    def __init__(self, log_dir: str, host: str) -> None:
        self.port = self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._told = False
        self._why = ""
        # What it says is not the node's output, and a pipe would fill up.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._start(log_dir, host)
        except (OSError, ValueError) as error:
            self._why = f"could not be started: {error}"

    def _start(self, log_dir: str, host: str) -> None:
        port = int(os.environ.get(FIXED, 0)) or _free_port(host)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", RUN, str(os.getpid()), "--reload_multifile=True"),
                *(f"--logdir={log_dir}", f"--host={host}", f"--port={port}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.port, self.pid = port, self._process.pid

    def news(self) -> dict[str, str]:
        """Return what there is to tell the driver: once, why it does not run."""
        code = self._process.poll() if self._process else None
        if code is not None:
            self._why = f"has ended with exit code {code}: {self._last_line()}"
        if self._told or not self._why:
            return {}
        self._told = True
        return {"board": self._why}

    def _last_line(self) -> str:
        output = self._output.fileno()
        begin = max(0, os.fstat(output).st_size - LAST)
        lines = os.pread(output, LAST, begin).decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *error: object) -> None:
        self._output.close()
        if self._process is None:
            return
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
