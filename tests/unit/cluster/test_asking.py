"""What a start waits for ends: with the answer, a named error, or the user's interrupt."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tos_notebook.cluster.asking import Asking
from tos_notebook.errors import ConfigError, WaitTimeout


class Spark:
    """A Spark context that has one job of a group, with so many tasks at work."""

    status = "RUNNING"

    def __init__(self, timeout: str = "600", tasks: int = 0) -> None:
        self.timeout = timeout
        self.tasks = tasks
        self.freed = threading.Event()
        self.canceled = threading.Event()
        self.asked = threading.Event()
        self._jsc = self
        self.stageIds = [0]

    def __getattr__(self, name: str) -> Any:
        # Java's chains of calls, as far as they matter here.
        return lambda *values, **options: self

    def get(self, key: str, default: str) -> str:
        return self.timeout

    def isStopped(self) -> bool:
        return False

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return [0]

    @property
    def numActiveTasks(self) -> int:
        self.asked.set()
        return self.tasks

    def cancelJobGroupAndFutureJobs(self, group: str) -> None:
        self.canceled.set()
        self.freed.set()

    def job(self) -> int:
        assert self.freed.wait(10)
        return 3


asking = partial(Asking, held=0.01, look=0.001)


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(10)


def test_a_call_that_ends_is_as_without_a_limit() -> None:
    ask = asking(Spark())
    assert ask("a number", lambda: 3) == 3
    with pytest.raises(KeyError, match="x"):
        ask("a key", lambda: {}["x"])


def test_a_look_at_data_names_the_run_that_holds_the_slots() -> None:
    spark = Spark()
    ask = asking(spark, lambda: "run 1 holds both slots of local[2]")
    with pytest.raises(WaitTimeout, match=r"for the data, which.*but run 1 holds both slots"):
        ask("the data", spark.job)
    assert spark.canceled.wait(10)


def test_a_caller_that_waits_anyway_waits_for_the_slots_of_other_runs() -> None:
    spark = Spark("0.001")
    holders = threading.Semaphore(0)

    def held() -> str:
        holders.release()
        return "run 1 holds both slots of local[2]"

    def free() -> None:
        for _ in range(20):
            assert holders.acquire(timeout=10)
        spark.freed.set()

    thread = threading.Thread(target=free)
    thread.start()
    ask = asking(spark, held)
    with ask.patiently():
        assert ask("the data", spark.job) == 3
    thread.join(10)


def test_a_call_for_which_spark_does_nothing_is_a_named_error() -> None:
    spark = Spark("0.01")
    with pytest.raises(WaitTimeout, match=r"Waited 0.01 s for the data.*spark.tos.start.timeout"):
        asking(spark)("the data", spark.job)
    assert spark.canceled.wait(10)


def test_a_call_for_which_tasks_work_may_take_its_time() -> None:
    spark = Spark("0.001", tasks=1)

    def job() -> int:
        # Looked at when the limit is over.
        assert spark.asked.wait(10)
        return 3

    assert asking(spark)("the data", job) == 3


def test_an_interrupt_ends_the_wait_and_cancels_the_job() -> None:
    spark = Spark()

    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asking(spark, interrupted)("the data", spark.job)
    assert spark.canceled.wait(10)


@pytest.mark.parametrize("value", ["soon", "0", "-1", "inf"])
def test_a_limit_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"spark.tos.start.timeout: expected seconds"):
        asking(Spark(value))("a number", lambda: 3)
