"""GPUs by Spark's resource scheduling, with made-up addresses: no GPU is needed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.clusters import application

PROGRAM = Path(__file__).with_name("gpus_program.py")


def test_tasks_see_the_gpu_that_spark_gave_them_also_in_processes_that_are_reused(
    tmp_path: Path,
) -> None:
    script = tmp_path / "discover"
    script.write_text('#!/bin/sh\necho \'{"name": "gpu", "addresses": ["4", "7"]}\'\n')
    script.chmod(0o755)
    settings = {
        "spark.master": "local-cluster[1,2,1024]",
        "spark.worker.resource.gpu.amount": "2",
        "spark.worker.resource.gpu.discoveryScript": str(script),
        "spark.executor.resource.gpu.amount": "2",
        "spark.task.resource.gpu.amount": "1",
    }
    found = json.loads(application.run(PROGRAM, folder=tmp_path, settings=settings)[-1])
    assert sorted(visible for _, visible in found["at_once"]) == ["4", "7"]
    assert all(given == [visible] for given, visible in found["at_once"] + found["later"])
    assert found["error"] == "WorkerEnvironment"
    # The last attempt may have been given a process of the other GPU.
    assert re.search(r"TensorFlow sees 0 GPUs there|was set up for GPU [47]", found["text"])
