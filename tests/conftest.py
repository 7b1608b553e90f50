"""Fixtures that more than one part of the tests uses."""

from __future__ import annotations

import gc
import itertools
import os
import random
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

# Its own profile for continuous integration would try the same examples for ever; a deadline
# would fail tests on a busy machine.
settings.register_profile("tos", deadline=None, derandomize=False, print_blob=True, max_examples=50)
settings.register_profile("long", settings.get_profile("tos"), max_examples=500)
settings.load_profile("tos")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of Hypothesis, the same for all processes, unless it is given."""
    if config.getoption("--hypothesis-seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    """Say with which seed its examples can be had again."""
    return f"hypothesis examples: --hypothesis-seed={config.option.hypothesis_seed}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import and collect without a look for garbage: all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


_ENDED = itertools.count(1)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Spare collections of garbage the millions of objects that TensorFlow keeps of earlier tests.

    In a process that has run thousands of tests each collection would take seconds.
    """
    if next(_ENDED) % 50 == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture
def only_own_garbage() -> None:
    """A collection of garbage looks at the test's own objects: at all of them it takes seconds."""
    gc.freeze()


@pytest.fixture(scope="session")
def spark_context() -> Iterator[Any]:
    """A Spark with two slots, which retries a failed task as a cluster would."""
    from pyspark import SparkConf, SparkContext

    from tos_notebook.cluster import jvm

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # As tos.connect would: workers begin with TensorFlow in them, and the JVM fits the machine.
        "spark.python.daemon.module": "tos_notebook.cluster.daemon",
        **jvm.settings(),
        "spark.driver.memory": "1g",
    }
    conf = SparkConf().setMaster("local[2,4]").setAppName("tests").setAll(settings.items())
    with SparkContext(conf=conf) as context:
        yield context
