"""A TensorFlow cluster continues from the checkpoint that another one has left in HDFS."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clusters import application
from tests.clusters.hadoop import Hadoop

PROGRAM = Path(__file__).with_name("checkpoints_program.py")


def test_the_page_s_program_restores_from_hdfs(hadoop: Hadoop, tmp_path: Path) -> None:
    directory = f"/checkpoints/{tmp_path.name}"
    lines = application.run(
        PROGRAM,
        str(tmp_path),
        hadoop.uri + directory,
        folder=tmp_path,
        settings={"spark.master": "local[2]"},
        hadoop=hadoop,
    )
    found = json.loads(lines[-1])
    first, second = found["steps"]
    assert 100 <= first <= 102
    assert 200 <= second <= 202
    assert found["goes_on"]
    assert found["accuracy"] > 0.7
    assert {"checkpoint", f"model-{second}.index"} <= set(hadoop.list(directory))
