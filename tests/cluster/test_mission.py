"""The original's program on real clusters: data read from HDFS, graph persisted to HDFS."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cluster import application
from tests.cluster.conftest import Digits
from tests.cluster.hadoop import Hadoop
from tests.cluster.standalone import Standalone

PROGRAM = Path(__file__).parents[1] / "tensorspark" / "mission_program.py"
EPOCHS = 2


def test_standalone(hadoop: Hadoop, standalone: Standalone, digits: Digits, tmp_path: Path) -> None:
    settings = {
        "spark.master": standalone.master,
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
    }
    train(hadoop, digits, tmp_path, settings)


def test_yarn_with_dynamic_allocation(hadoop: Hadoop, digits: Digits, tmp_path: Path) -> None:
    settings = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": "2",
        **application.yarn(hadoop),
    }
    train(hadoop, digits, tmp_path, settings)


def train(hadoop: Hadoop, digits: Digits, folder: Path, settings: dict[str, str]) -> None:
    """Run the program and check it: every row once in every epoch, learned, kept in HDFS."""
    directory = f"/missions/{folder.name}"
    arguments = [digits.uri, str(digits.batch_size), hadoop.uri + directory]
    lines = application.run(PROGRAM, *arguments, folder=folder, settings=settings, hadoop=hadoop)
    found = re.fullmatch(r"samples ([\d ]+)\naccuracy ([\d.]+) of \d+", "\n".join(lines[-2:]))
    assert found, lines
    assert [int(count) for count in found[1].split()] == [digits.rows] * EPOCHS
    assert float(found[2]) >= digits.accuracy
    # Where SparkSession puts the files of its user and name.
    kept = hadoop.list(f"{directory}/liangfengsid/spark_mnist")
    assert sum(name.endswith(".initial") for name in kept) == EPOCHS
    assert any(name.startswith("program-") for name in kept)
