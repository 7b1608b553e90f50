"""Settings of Spark from outside of the program: of spark-submit, files and variables."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path


def submitted_settings() -> dict[str, str] | None:
    """Return the settings of ``spark-submit``, if that has started this process, or else None.

    They include those of its ``spark-defaults.conf``.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext

    # The JVM that has started this process knows them.
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def defaults_file() -> dict[str, str]:
    """Return the settings of ``spark-defaults.conf``, if there is one."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    path = Path(folder or "", "spark-defaults.conf")
    if not folder or not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line[:1] not in "#")
    return {pair[0]: pair[-1] for pair in pairs}


def default_master(
    settings: Mapping[str, str], configured: Mapping[str, str], submitted: Mapping[str, str]
) -> str:
    """Return the master to connect to where the program names none.

    Parameters
    ----------
    settings : mapping of str
        Those that the program gives.
    configured : mapping of str
        Those of ``spark-defaults.conf``.
    submitted : mapping of str
        Those of ``spark-submit``.
    """
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    named = [value for flag, value in itertools.pairwise(arguments) if flag == "--master"]
    candidates = [settings.get("spark.master"), submitted.get("spark.master")]
    candidates += [os.environ.get("SPARK_MASTER"), *named, configured.get("spark.master")]
    return next((master for master in candidates if master), "local[*]")
