"""The package's own API on real clusters, with data, program and parameters in HDFS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import application
from tests.clusters.hadoop import Hadoop
from tests.clusters.standalone import Standalone

PROGRAM = Path(__file__).with_name("native_program.py")
ROWS, EPOCHS = 2000, 3

ONE_CORE = {"spark.executor.cores": "1"}

DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
}
"""Executors come when there is work, and leave soon after."""


@pytest.mark.parametrize(
    ("settings", "executors"),
    [
        ({**ONE_CORE, "spark.cores.max": "2", "spark.python.worker.reuse": "false"}, 2),
        ({**DYNAMIC, "spark.executor.cores": "2", "spark.cores.max": "2"}, 1),
    ],
    ids=["two executors without worker reuse", "an executor of two cores that comes and goes"],
)
def test_standalone(
    hadoop: Hadoop,
    standalone: Standalone,
    stripes: str,
    tmp_path: Path,
    settings: dict[str, str],
    executors: int,
) -> None:
    settings = {"spark.master": standalone.master, **settings}
    assert train(hadoop, stripes, tmp_path, settings) >= executors


def test_yarn(hadoop: Hadoop, stripes: str, tmp_path: Path) -> None:
    settings = {"spark.executor.instances": "2", **ONE_CORE, **application.yarn(hadoop)}
    assert train(hadoop, stripes, tmp_path, settings) == 2


def test_local_cluster(hadoop: Hadoop, stripes: str, tmp_path: Path) -> None:
    assert train(hadoop, stripes, tmp_path, {"spark.master": "local-cluster[2,2,1024]"}) == 2


def train(hadoop: Hadoop, data: str, folder: Path, settings: dict[str, str]) -> int:
    """Run the program and check it: every row once in every epoch, learned, kept in HDFS.

    Returns the number of executors that took part.
    """
    directory = f"/runs/{folder.name}"
    lines = application.run(
        PROGRAM, data, hadoop.uri + directory, folder=folder, settings=settings, hadoop=hadoop
    )
    found: dict[str, Any] = json.loads(lines[-1])
    assert found["master"] == settings["spark.master"]
    assert found["epochs"] == found["history"] == [ROWS] * EPOCHS
    assert found["rows"] == ROWS * EPOCHS
    assert found["accuracy"] > 0.97
    kept = hadoop.list(directory)
    assert all(kept.values())
    assert {name.rpartition(".")[2] for name in kept} == {"zip", "initial"}
    return len(found["executors"])
