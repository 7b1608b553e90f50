"""What the gate runs on real clusters: a renamed test must not make it shorter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

GATE = [
    "test_examples.py::test_spark_submit_on_standalone",
    "test_faults.py::test_every_batch_counts_once_whatever_is_killed[standalone]",
    "test_mission.py::test_standalone",
    "test_mission.py::test_yarn_with_dynamic_allocation",
    "test_spark_connect.py::test_every_row_counts_once_although_an_executor_dies",
]


def test_the_gate_runs_these_tests_on_real_clusters_and_no_others() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "gate"]
    found = subprocess.run(
        [*command, "tests/clusters"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    marked = [line.removeprefix("tests/clusters/") for line in found.stdout.split()]
    assert sorted(name for name in marked if "::" in name) == GATE
    assert '-m gate"' in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
