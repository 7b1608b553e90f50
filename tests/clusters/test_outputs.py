"""What a run leaves behind, in HDFS: event files, models, pipelines. Read again on executors."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clusters import application
from tests.clusters.hadoop import Hadoop
from tests.clusters.standalone import Standalone

PROGRAM = Path(__file__).with_name("outputs_program.py")


def test_standalone(hadoop: Hadoop, standalone: Standalone, tmp_path: Path) -> None:
    settings = {
        "spark.master": standalone.master,
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
    }
    directory = f"/outputs/{tmp_path.name}"
    lines = application.run(
        PROGRAM, hadoop.uri + directory, folder=tmp_path, settings=settings, hadoop=hadoop
    )
    found = json.loads(lines[-1])
    assert found["live"] > 0
    in_files, in_history = found["samples"]
    assert in_files == in_history
    assert found["same"] == {"digits.keras": True, "saved": True}
    assert found["accuracy"] > 0.9
    assert found["pipeline"]
    kept = hadoop.list(directory)
    assert {"table", "logs", "digits.keras", "saved", "pipeline"} == set(kept)
    assert kept["digits.keras"] > 0
    assert any("tfevents" in name for name in hadoop.list(f"{directory}/logs"))
