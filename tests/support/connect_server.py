"""A Spark Connect server of the installed pyspark: a process that ends with this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.clusters.standalone import ROOT, START_TIMEOUT, Server

LIMIT = 300.0
"""Seconds for a client's program that takes 30 on an idle machine: for one that is not idle."""

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

SUBMIT = "org.apache.spark.deploy.SparkSubmit"

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.memory": "1g",
    "spark.python.daemon.module": "tos_notebook.cluster.daemon",
}
"""A server of this machine alone, on any free port, whose workers begin with TensorFlow."""


class ConnectServer(Server):
    """A server and the Spark that it runs; leaving the ``with`` block stops both.

    Parameters
    ----------
    folder : Path
        For its log and all that it writes.
    master : str
    settings : mapping of str, optional
        Beside `DEFAULTS`.
    """

    # It starts a Spark first, and loads more classes than all others.
    limit = 3 * START_TIMEOUT

    def __init__(
        self, folder: Path, master: str = "local[2,4]", settings: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        given = {**DEFAULTS, "spark.local.dir": str(folder), **(settings or {})}
        conf = [word for key, value in given.items() for word in ("--conf", f"{key}={value}")]
        places = {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            "SPARK_CONNECT_MODE": "0",
            # The launcher takes it for one of its daemons.
            "SPARK_DAEMON_MEMORY": "1g",
        }
        super().__init__(
            [SUBMIT, "--master", master, "--class", SERVER, *conf, "spark-internal"],
            r"Spark Connect server started at: (\S+):(\d+)",
            folder / "connect.log",
            places,
        )
        found = self.wait()
        self.address = f"sc://127.0.0.1:{found[2]}"

    def told(self, program: str, *arguments: object, **environ: str) -> dict[str, Any]:
        """Run a client's program to its end; return the last line of JSON that it prints.

        Parameters
        ----------
        program : str
            A module, which is given the server's address first.
        *arguments : object
            What else it is given.
        **environ : str
            Variables beside this process's own.
        """
        words = [sys.executable, "-m", program, self.address, *map(str, arguments)]
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        # What a notebook shows when it ends may come behind it.
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def __enter__(self) -> ConnectServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
