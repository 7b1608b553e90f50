"""Archives the classes that every Spark loads, so that Spark starts in half the time.

    python -m tools.class_data FILE

To be run once, where an image is built or an environment installed. A JVM is given the file by
the environment variable ``SPARK_SUBMIT_OPTS="-XX:SharedArchiveFile=FILE -Xlog:disable"``; without
it, or with one that another Java or Spark has written, it reads all classes from their jars, and
verifies them. That takes as much time as all the rest of a Spark's start.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tos_notebook.cluster import jvm
from tos_notebook.cluster.connect import connect
from tos_notebook.errors import ConnectError

OPTIONS = "spark.driver.extraJavaOptions"
EXIT_TIMEOUT = 300.0
"""Seconds in which the JVM has to end, which is when it writes."""


def archive(path: Path) -> None:
    """Do a little of everything in a Spark that writes down what it has loaded.

    Parameters
    ----------
    path : Path
        The file to make, of about 160 MB.

    Raises
    ------
    ConnectError
        Java wrote none.
    TosError
        As `connect`.
    """
    from pyspark import SparkContext

    # Under its name it is whole.
    part = path.with_suffix(f".{os.getpid()}")
    options = f"{jvm.settings().get(OPTIONS, '')} -XX:ArchiveClassesAtExit={part} -Xlog:disable"
    spark = connect("local[2]", config={OPTIONS: options})
    frame = spark.createDataFrame(spark.sparkContext.parallelize([(1, 2.0)], 1), ["a", "b"])
    frame.repartition(2).mapInArrow(lambda batches: batches, frame.schema).collect()
    process = SparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait(EXIT_TIMEOUT)
    if not part.exists():
        raise ConnectError(
            f"Java wrote no archive to {path}. Expected Java 17 or later with class data sharing, "
            "and 200 MB of space there. Spark starts without it, too."
        )
    part.replace(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Archive Spark's classes.")
    parser.add_argument("file", type=Path, help="what to make, of about 160 MB")
    archive(parser.parse_args().file)
