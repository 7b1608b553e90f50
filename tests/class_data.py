"""Archives the classes that every Spark loads, so that the tests' JVMs start in half the time.

    python -m tests.class_data FILE

A JVM is given the file by ``-XX:SharedArchiveFile=FILE``; without it, or with one that another
Java has written, it reads all classes from their jars, and verifies them. That takes as much time
as all the rest of a Spark's start.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark import SparkContext

import tos_notebook as tos
from tos_notebook.cluster import jvm

OPTIONS = "spark.driver.extraJavaOptions"
PATIENCE = 300.0
"""Seconds in which the JVM has to end, which is when it writes."""


def archive(path: Path) -> None:
    """Do a little of what tests do in a Spark that writes down what it has loaded."""
    options = f"{jvm.settings().get(OPTIONS, '')} -XX:ArchiveClassesAtExit={path} -Xlog:disable"
    spark = tos.connect("local[2]", config={OPTIONS: options})
    frame = spark.createDataFrame(spark.sparkContext.parallelize([(1, 2.0)], 1), ["a", "b"])
    frame.repartition(2).mapInArrow(lambda batches: batches, frame.schema).collect()
    process = SparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait(PATIENCE)


if __name__ == "__main__":
    archive(Path(sys.argv[1]))
