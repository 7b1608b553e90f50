"""Calls into Java have an end, whatever the JVM does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.threads import wait_for_end
from tos_notebook.cluster import calls, connect, executors, jobs
from tos_notebook.cluster.calls import announced, within
from tos_notebook.errors import WaitTimeout


class Hung:
    """A Spark context whose JVM does not answer, until it is freed."""

    master = "spark://host:7077"

    def __init__(self) -> None:
        self.freed = threading.Event()

    @property
    def _jsc(self) -> Any:
        # What looks for a stopped context comes this far.
        return self

    def sc(self) -> Any:
        self.freed.wait(10)
        raise ConnectionError("the JVM is gone")

    @property
    def uiWebUrl(self) -> str:
        self.sc()
        raise AssertionError("unreachable")


@pytest.fixture
def hung() -> Iterator[Any]:
    made = Hung()
    yield made
    made.freed.set()
    wait_for_end("tos-java")


def test_a_call_that_ends_in_time_is_as_without_a_limit() -> None:
    assert within(10, lambda: 3, "a number") == 3
    with pytest.raises(KeyError, match="x"):
        within(10, lambda: {}["x"], "a key")


def test_a_worker_joins_although_the_jvm_does_not_say_where_it_runs(hung: Any) -> None:
    found = Future[Any]()
    asking = threading.Thread(target=lambda: found.set_result(executors.executor_of(hung, 7, 0.01)))
    asking.start()
    assert found.result(5) == ("?", "?")
    asking.join(5)


def test_commands_to_a_jvm_that_hangs_are_named_errors(hung: Any) -> None:
    with pytest.raises(WaitTimeout, match=r"Waited 0.01 s for Spark to cancel its job.*JVM"):
        jobs.cancel(hung, "run-1", 0.01)
    with pytest.raises(WaitTimeout, match="for Spark to kill task 7"):
        jobs.kill_task(hung, "run-1", 7, "it stood still", 0.01)


def test_connecting_to_a_spark_whose_jvm_hangs_is_a_named_error(
    hung: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def soon(seconds: float, call: Callable[[], Any], what: str) -> Any:
        return within(0.01, call, what)

    monkeypatch.setattr(connect, "active_context", lambda: hung)
    monkeypatch.setattr(connect, "within", soon)
    with pytest.raises(WaitTimeout, match="for the running Spark to say that it runs"):
        connect.connect(warm_up=False)


def test_where_to_look_says_so_if_the_jvm_hangs(hung: Any) -> None:
    assert "the JVM) does not answer" in executors.where_to_look(hung, None, 0.01)


def test_a_call_that_takes_long_says_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    handler = Told()
    logging.getLogger(calls.__name__).addHandler(handler)
    with announced("the files in hdfs:///runs", 0.001):
        assert told.wait(10)
    logging.getLogger(calls.__name__).removeHandler(handler)
    assert "still waits for the files in hdfs:///runs" in caplog.text


def test_a_call_that_is_quick_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with announced("the files in hdfs:///runs"):
        pass
    assert caplog.text == ""
