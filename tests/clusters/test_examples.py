"""The scripts of `examples/` on clusters, by the command lines of their page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters import application
from tests.clusters.hadoop import Hadoop
from tests.clusters.jars import WHEEL
from tests.clusters.standalone import Standalone
from tests.docs.pages import DOCS
from tests.support.commands import adapted, commands

ROOT = application.ROOT
LINES = commands(DOCS / "how-to" / "scripts.md", "Run one")
SMALL = {"spark.executor.cores": "1", "spark.cores.max": "2"}


def line(*words: str) -> str:
    """Return the page's only command with these words, and none with others of a cluster."""
    (found,) = [
        each
        for each in LINES
        if all(word in each.split() for word in words)
        and ("cluster" in each.split()) == ("cluster" in words)
    ]
    return found


def run(
    command: str,
    folder: Path,
    settings: dict[str, str],
    hadoop: Hadoop | None = None,
    master: str = "",
) -> str:
    """Run a command line to its end; return all that it has printed.

    Without Hadoop's servers a folder of this machine takes the place of HDFS.
    """
    words = {
        "python": sys.executable,
        "spark-submit": str(WHEEL / "bin" / "spark-submit"),
        "spark://master:7077": master,
        "hdfs://": f"{hadoop.uri}/{folder.name}" if hadoop else folder.as_uri(),
    }
    (folder / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run(
        [*adapted(command, words), "--epochs", "10"],
        capture_output=True,
        text=True,
        timeout=application.TIMEOUT,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            **application.environment(folder, settings, hadoop),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        },
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def trained(out: str) -> None:
    """See that a script has trained two workers to its end."""
    assert re.search(r"  finished$", out, re.M), out
    found = re.search(r"^finished: test accuracy (0\.\d+), model in ", out, re.M)
    assert found is not None
    assert float(found[1]) > 0.7


@pytest.mark.gate
def test_spark_submit_on_standalone(standalone: Standalone, tmp_path: Path) -> None:
    """The master is that of spark-submit alone."""
    command = line("spark-submit", "spark://master:7077")
    trained(run(command, tmp_path, SMALL, master=standalone.master))
    assert (tmp_path / "digits.keras").is_file()
    assert list((tmp_path / "runs").rglob("checkpoint-*.tos"))


def test_python_on_standalone(standalone: Standalone, hadoop: Hadoop, tmp_path: Path) -> None:
    command = line("python", "spark://master:7077")
    trained(run(command, tmp_path, SMALL, hadoop, standalone.master))
    runs = f"/{tmp_path.name}/runs"
    # Beside it are its program and the values that it began with.
    (saved,) = [n for n in hadoop.list(runs) if n.startswith("run-") and "." not in n]
    assert any(name.startswith("checkpoint-") for name in hadoop.list(f"{runs}/{saved}"))


def test_spark_submit_on_yarn(hadoop: Hadoop, tmp_path: Path) -> None:
    settings = {**application.yarn(hadoop), "spark.executor.instances": "2"}
    del settings["spark.master"]
    trained(run(line("spark-submit", "yarn"), tmp_path, settings, hadoop))
    assert hadoop.list(f"/{tmp_path.name}/models").keys() == {"digits.keras"}


def test_spark_submit_in_yarn_s_cluster_mode(hadoop: Hadoop, tmp_path: Path) -> None:
    """The driver is in a container; the model that it leaves in HDFS is all that comes back."""
    settings = {
        **application.yarn(hadoop),
        "spark.executor.instances": "2",
        "spark.driver.memory": "512m",
        # It tells executors its own address, and listens on that of these settings.
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.yarn.appMasterEnv.PYTHONPATH": str(ROOT),
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
        "spark.yarn.appMasterEnv.SPARK_HOME": str(WHEEL),
    }
    del settings["spark.master"]
    run(line("spark-submit", "yarn", "cluster"), tmp_path, settings, hadoop)
    assert hadoop.list(f"/{tmp_path.name}/models").keys() == {"digits.keras"}
