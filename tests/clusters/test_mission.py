"""The original's program on real clusters: data read from HDFS, graph persisted to HDFS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clusters import application
from tests.clusters.hadoop import Hadoop
from tests.clusters.standalone import Standalone
from tests.unit.data.mnist import Digits
from tests.unit.tensorspark import replay

pytestmark = pytest.mark.gate

PROGRAM = Path(__file__).parents[1] / "unit" / "tensorspark" / "mission_program.py"
EPOCHS = 2


def test_standalone(
    hadoop: Hadoop, standalone: Standalone, digits: tuple[str, Digits], tmp_path: Path
) -> None:
    settings = {
        "spark.master": standalone.master,
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
    }
    train(hadoop, digits, tmp_path, settings)


def test_yarn_with_dynamic_allocation(
    hadoop: Hadoop, digits: tuple[str, Digits], tmp_path: Path
) -> None:
    settings = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": "2",
        **application.yarn(hadoop),
    }
    train(hadoop, digits, tmp_path, settings)


def train(
    hadoop: Hadoop, digits: tuple[str, Digits], folder: Path, settings: dict[str, str]
) -> None:
    """Run the program and check it: every row once in every epoch, learned, kept in HDFS."""
    directory, (uri, expected) = f"/missions/{folder.name}", digits
    arguments = [uri, str(expected.batch_size), hadoop.uri + directory]
    lines = application.run(PROGRAM, *arguments, folder=folder, settings=settings, hadoop=hadoop)
    found = json.loads(lines[-1])
    counts = [sum(milestone["samples"] for milestone in epoch) for epoch in found["epochs"]]
    assert counts == [expected.rows] * EPOCHS
    assert found["tested"] == expected.tested
    mean, spread = replay.expected(expected.folder, expected.batch_size, found["epochs"])
    assert found["accuracy"] == pytest.approx(mean, abs=spread)
    # Where SparkSession puts the files of its user and name.
    kept = hadoop.list(f"{directory}/liangfengsid/spark_mnist")
    assert sum(name.endswith(".initial") for name in kept) == EPOCHS
    assert any(name.startswith("program-") for name in kept)
