"""What cannot be is refused where the user says it, before anything starts, in one message."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

import tos_notebook as tos
from tos_notebook.errors import (
    ConfigError,
    ConnectError,
    UnsupportedProgram,
    WorkerError,
)
from tos_notebook.nodes.servers import TensorFlowCluster
from tos_notebook.tensorflowonspark import TFCluster, TFParallel


def fed_cluster() -> Any:
    """Return a cluster that is fed, and whose nodes do nothing."""
    nodes = MagicMock()
    nodes.options = SimpleNamespace(numbers=[0], queues=["input"], template={}, release_port=True)
    return TFCluster.TFCluster(nodes, TFCluster.InputMode.SPARK)


def main(args: Any, ctx: Any) -> None:
    """Do nothing, in a node."""


def no_context(args: Any) -> None:
    """Take too little."""


async def waits(args: Any, ctx: Any) -> None:
    """Do nothing when it is called."""


def yields(args: Any, ctx: Any) -> Iterator[int]:
    """Do nothing when it is called."""
    yield 1


LOCK = threading.Lock()
"""Cannot be sent to an executor."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"num_executors": "2"}, "num_executors: expected a whole number of at least 1, got '2'"),
        ({"num_executors": 0}, "num_executors: expected a whole number of at least 1, got 0"),
        ({"num_ps": None}, "num_ps: expected a whole number of at least 0, got None"),
        ({"input_mode": "spark"}, r"input_mode: .*InputMode\.SPARK, got 'spark'"),
        ({"queues": "input"}, r"queues: expected a list of names, such as \['input'\]"),
        ({"reservation_timeout": "9"}, "reservation_timeout: expected a finite number above 0"),
        ({"map_fun": "main"}, r"function of two arguments, map_fun\(args, ctx\); got str"),
        ({"map_fun": waits}, "map_fun: expected a function that runs when it is called"),
        ({"map_fun": yields}, "map_fun: expected a function that runs when it is called"),
        ({"map_fun": no_context}, r"map_fun\(args, ctx\); got map_fun\(args"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(
    given: dict[str, Any], expected: str
) -> None:
    call = {"sc": None, "map_fun": main, "tf_args": {}, "num_executors": 2, "num_ps": 0} | given
    with pytest.raises(ConfigError, match=expected):
        TFCluster.run(**call)


def test_what_cannot_be_sent_to_the_nodes_is_named() -> None:
    with pytest.raises(UnsupportedProgram, match="args of type dict cannot be sent to the nodes"):
        TFCluster.run(None, main, {"lock": LOCK}, 2, 0)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedProgram, match="args of type dict cannot be sent to the nodes"):
        TFParallel.run(None, main, {"lock": LOCK}, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, "local[2]", 5])
def test_what_is_no_spark_is_named(given: Any) -> None:
    expected = f"Expected a SparkContext or a SparkSession.*got {type(given).__name__}"
    for call in (
        lambda: TFCluster.run(given, main, {}, 2, 0),
        lambda: TFParallel.run(given, main, {}, 2),
        lambda: tos.tensorflow_cluster(given, {"worker": 1}),
    ):
        with pytest.raises(ConnectError, match=expected):
            call()


@pytest.mark.parametrize(
    ("numbers", "function", "expected"),
    [
        (0, main, "num_executors: expected a whole number of at least 1, got 0"),
        ("2", main, "num_executors: expected a whole number of at least 1, got '2'"),
        (2, None, r"map_fn: expected a function of two arguments, map_fn\(args, ctx\)"),
    ],
)
def test_what_cannot_run_in_parallel_is_refused(numbers: Any, function: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        TFParallel.run(None, function, {}, numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "given", "expected"),
    [
        ([1, 2], {}, r"dataRDD: expected an RDD, .*df\.rdd of a DataFrame; got list"),
        (None, {}, "dataRDD: expected an RDD, .*got NoneType"),
        (MagicMock(), {"num_epochs": "3"}, "num_epochs: expected a whole number .*got '3'"),
        (MagicMock(), {"feed_timeout": "600"}, "feed_timeout: expected a finite number above 0"),
    ],
)
def test_what_cannot_be_fed_is_refused(rows: Any, given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        fed_cluster().train(rows, **given)


def test_a_wait_that_is_no_number_leaves_the_cluster_as_it_is() -> None:
    cluster = fed_cluster()
    with pytest.raises(ConfigError, match="timeout: expected a number of seconds, got '60'"):
        cluster.shutdown(timeout="60")
    cluster._cluster.stop.assert_not_called()


@pytest.mark.parametrize("jobs", [None, "worker", ["worker"], 2])
def test_servers_need_names_of_jobs_with_numbers(jobs: Any) -> None:
    with pytest.raises(ConfigError, match="jobs: expected names with numbers of tasks"):
        tos.tensorflow_cluster(MagicMock(), jobs)


@pytest.mark.parametrize("name", ["wör", "_x", "my job", "a/b", "", 1])
def test_names_of_jobs_that_end_tensorflows_server_are_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="jobs: expected names of ASCII letters"):
        tos.tensorflow_cluster(MagicMock(), {name: 1})


def test_an_option_that_does_not_exist_names_the_one_that_is_meant() -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'insecure'\. Did you mean insecure_net"):
        tos.tensorflow_cluster(MagicMock(), {"worker": 1}, insecure=True)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"unknown option 'num_pss'\. Did you mean num_ps"):
        TFCluster.run(None, main, {}, 2, num_pss=1)  # type: ignore[call-arg,arg-type]


def test_a_session_is_not_led_to_servers_of_which_one_was_lost() -> None:
    nodes = MagicMock()
    nodes.check.side_effect = WorkerError("SIGKILL ended it")
    with pytest.raises(WorkerError, match="SIGKILL ended it"):
        TensorFlowCluster(nodes).target("worker")
