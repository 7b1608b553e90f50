"""An interrupt ends what waits, and no Spark job."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tos_notebook.cluster.jobs import spare_jobs


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def handler_of(module: str) -> Callable[..., Any]:
    def handle(number: int, frame: Any) -> None:
        raise AssertionError("called")

    handle.__module__ = module
    signal.signal(signal.SIGINT, handle)
    return handle


@pytest.mark.parametrize("module", ["pyspark.core.context", "pyspark.context"])
def test_python_s_own_handler_takes_the_place_of_pyspark_s(module: str) -> None:
    handler_of(module)
    spare_jobs()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_handler_of_the_user_s_own_stays() -> None:
    handler = handler_of("__main__")
    spare_jobs()
    assert signal.getsignal(signal.SIGINT) is handler


def test_another_thread_than_the_main_one_leaves_all_as_it_is() -> None:
    handler = handler_of("pyspark.core.context")
    thread = threading.Thread(target=spare_jobs)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is handler
