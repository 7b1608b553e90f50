"""The course's last notebook, on a real cluster and with its files in HDFS."""

from __future__ import annotations

from pathlib import Path

from tests.clusters import application
from tests.clusters.hadoop import Hadoop
from tests.clusters.standalone import Standalone
from tests.notebooks.test_execution import FOLDER, run_notebook


def test_your_cluster(hadoop: Hadoop, standalone: Standalone, tmp_path: Path) -> None:
    """Every cell runs, and shows the same as without a cluster."""
    settings = {"spark.executor.cores": "1", "spark.cores.max": "2"}
    course = f"/course/{tmp_path.name}"
    run_notebook(
        FOLDER / "09_your_cluster.ipynb",
        **application.environment(tmp_path, settings, hadoop),
        TOS_MASTER=standalone.master,
        TOS_DIRECTORY=hadoop.uri + course,
    )
    assert {"digits", "runs"} <= set(hadoop.list(course))
    # One run trained to its end, one was stopped; the killed worker's was kept nowhere.
    kept = [name for name in hadoop.list(f"{course}/runs") if name.startswith("run-")]
    assert len([name for name in kept if not name.endswith(".initial")]) == 2
