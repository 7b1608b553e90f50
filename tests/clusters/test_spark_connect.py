"""A Spark Connect server on a real cluster whose executors die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.clusters.standalone import ROOT, Standalone
from tests.support.connect_server import ConnectServer

LIMIT = 240.0
"""Seconds for the program, on a machine that is busy."""

SETTINGS = {"spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "1g"}


def test_every_row_counts_once_although_an_executor_dies(
    standalone: Standalone, tmp_path: Path
) -> None:
    program = "tests.clusters.spark_connect_program"
    with ConnectServer(tmp_path / "server", standalone.master, SETTINGS) as server:
        nodes = [str(node.pid) for node in standalone.nodes]
        done = subprocess.run(
            [sys.executable, "-m", program, server.address, str(tmp_path / "runs"), *nodes],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["total"] == found["expected"]
    assert 0 < found["stopped"] < found["expected"][1]
