"""A Spark application in a process of its own, as a notebook's kernel is one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.clusters.hadoop import Hadoop
from tests.clusters.jars import WHEEL

ROOT = Path(__file__).parents[2]

TIMEOUT = 420.0
"""Seconds for a program that takes 20 on an idle machine: for one that is not idle."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # This checkout, whatever else is installed.
    "spark.executorEnv.PYTHONPATH": str(ROOT),
}


def run(
    program: Path,
    *arguments: str,
    folder: Path,
    settings: Mapping[str, str],
    hadoop: Hadoop | None = None,
) -> list[str]:
    """Run a program to its end; return the lines that it printed.

    Parameters
    ----------
    program : Path
    *arguments : str
    folder : Path
        For its ``spark-defaults.conf``, and to run in.
    settings : mapping of str
        Spark's, the master among them.
    hadoop : Hadoop, optional
        Whose configuration ``HADOOP_CONF_DIR`` names.
    """
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        cwd=folder,
        env={**os.environ, **environment(folder, settings, hadoop)},
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout.splitlines()


def environment(
    folder: Path, settings: Mapping[str, str], hadoop: Hadoop | None = None
) -> dict[str, str]:
    """Write the settings of an application down, and return its variables; see `run`."""
    lines = (f"{key} {value}\n" for key, value in {**DEFAULTS, **settings}.items())
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(folder),
        **({"HADOOP_CONF_DIR": str(hadoop.conf_dir)} if hadoop else {}),
    }


def yarn(hadoop: Hadoop) -> dict[str, str]:
    """Return the settings of an application on YARN, client mode."""
    return {
        "spark.master": "yarn",
        # Where they are anyway; by default all 450 MB of them would go to HDFS and back.
        "spark.yarn.jars": f"local:{WHEEL}/jars/*",
        "spark.yarn.stagingDir": f"{hadoop.uri}/staging",
        "spark.yarn.am.memory": "384m",
    }
