"""A Spark Connect server of the installed pyspark: a process that ends with this one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.clusters.standalone import ROOT, START_TIMEOUT, Server

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

    def __enter__(self) -> ConnectServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
