"""Fixtures that more than one part of the tests uses."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark_context() -> Iterator[Any]:
    """A Spark with two slots, which retries a failed task as a cluster would."""
    from pyspark import SparkConf, SparkContext

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        # As tos.connect would: workers begin with TensorFlow in them.
        "spark.python.daemon.module": "tos_notebook.cluster.daemon",
    }
    conf = SparkConf().setMaster("local[2,4]").setAppName("tests").setAll(settings.items())
    with SparkContext(conf=conf) as context:
        yield context
