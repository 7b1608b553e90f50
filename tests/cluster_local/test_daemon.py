"""The daemon that forks the workers of a Spark on this machine."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux schedules batches")
def test_workers_do_not_interrupt_the_server_when_they_wake(spark_context: Any) -> None:
    policies = spark_context.parallelize(range(2), 2).map(lambda _: os.sched_getscheduler(0))
    assert policies.collect() == [os.SCHED_BATCH] * 2


def test_workers_begin_with_tensorflow_in_them(spark_context: Any) -> None:
    found = spark_context.parallelize(range(2), 2).map(lambda _: "tensorflow" in sys.modules)
    assert found.collect() == [True, True]
