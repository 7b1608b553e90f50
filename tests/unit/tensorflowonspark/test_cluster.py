"""What ends a cluster when something goes wrong: no wait without an end, and no row lost unseen."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tos_notebook.errors import DataError, WaitTimeout, WorkerEnvironment, WorkerError
from tos_notebook.nodes.roster import FAILED, Roster
from tos_notebook.tensorflowonspark import TFCluster, gpu_info, pipeline, reservation
from tos_notebook.tensorflowonspark.TFSparkNode import GpuClaim

META = {"executor_id": 0, "job_name": "worker", "task_index": 0}


class Stream:
    """A stream that ends only when it is told to."""

    def __init__(self) -> None:
        self.stopped: dict[str, bool] = {}
        self.ended = threading.Event()

    def foreachRDD(self, call: Any) -> None:
        """Have no rows."""

    def context(self) -> Stream:
        return self

    def awaitTerminationOrTimeout(self, seconds: float) -> bool:
        return bool(self.stopped)

    def stop(self, **how: bool) -> None:
        self.stopped = how
        self.ended.set()


def cluster_of(roster: Roster) -> Any:
    """Return a cluster whose driver knows this, and nothing else."""

    def check() -> None:
        if roster.failure is not None:
            raise WorkerError(roster.failure.message)

    nodes = MagicMock(number=id(roster), roster=roster, check=check, wait=lambda timeout: check())
    nodes.options = SimpleNamespace(numbers=[0], queues=["input"], template={}, release_port=True)
    return TFCluster.TFCluster(nodes, TFCluster.InputMode.SPARK)


def test_a_node_that_fails_ends_the_stream_with_its_error() -> None:
    roster, stream = Roster(1), Stream()
    node = roster.add(META)
    assert node is not None
    roster.end(node, FAILED, "ValueError: mine")
    cluster = cluster_of(roster)
    with pytest.raises(WorkerError, match="mine"):
        cluster.shutdown(stream)
    # The batches that wait would be lost.
    assert stream.stopped == {"stopSparkContext": False, "stopGraceFully": False}
    cluster._cluster.stop.assert_called()


def test_a_row_of_a_stream_that_cannot_be_fed_is_an_error() -> None:
    roster, stream = Roster(1), Stream()
    roster.fail_feed(roster.begin_feed(), DataError("Expected rows of numbers."), stream=True)
    with pytest.raises(DataError, match="rows of numbers"):
        cluster_of(roster).shutdown(stream)
    # A program may have waited for the end of the stream itself.
    with pytest.raises(DataError, match="rows of numbers"):
        cluster_of(roster).shutdown()


@pytest.mark.parametrize("what", ["node", "row"])
def test_what_fails_ends_the_wait_for_a_stream(what: str, caplog: pytest.LogCaptureFixture) -> None:
    roster, stream = Roster(1), Stream()
    cluster = cluster_of(roster)
    cluster.train(stream)
    if what == "node":
        node = roster.add(META)
        assert node is not None
        roster.end(node, FAILED, "ValueError: mine")
    else:
        roster.fail_feed(roster.begin_feed(), DataError("ValueError: mine"), stream=True)
    assert stream.ended.wait(10)
    assert stream.stopped == {"stopSparkContext": False, "stopGraceFully": False}
    assert "ValueError: mine" in caplog.text


def test_a_cluster_that_has_ended_leaves_the_stream_to_others() -> None:
    roster, stream = Roster(1), Stream()
    cluster_of(roster).train(stream)
    (watch,) = (each for each in threading.enumerate() if each.name == f"tos-stream-{id(roster)}")
    roster.stop()
    watch.join(10)
    assert (watch.is_alive(), stream.stopped) == (False, {})


def test_a_stream_whose_rows_no_node_wants_ends_after_what_has_come() -> None:
    roster, stream = Roster(1), Stream()
    roster.request_stop()
    cluster_of(roster).shutdown(stream)
    assert stream.stopped["stopGraceFully"]


def test_an_estimator_whose_feed_fails_does_not_wait_for_nodes_that_take_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = MagicMock()
    cluster.train.side_effect = WaitTimeout("has taken no row")
    monkeypatch.setattr(TFCluster, "run", lambda *args, **given: cluster)
    estimator = pipeline.TFEstimator(print, {}).setInputMapping({"a": "x"})
    with pytest.raises(WaitTimeout, match="no row"):
        estimator._fit(MagicMock(columns=["a"]))
    cluster.shutdown.assert_not_called()
    cluster.close.assert_called_once()


def test_the_gpus_of_a_node_on_the_drivers_machine_are_not_the_notebooks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setattr(gpu_info, "is_gpu_available", lambda: False)
    assert GpuClaim()("ps", 0, ()) == {"CUDA_VISIBLE_DEVICES": ""}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"


def test_too_few_gpus_are_named_as_the_user_has_asked_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_info, "is_gpu_available", lambda: False)
    with pytest.raises(WorkerEnvironment, match=r"--gpus: expected 1 GPU for ps:0, got 0"):
        GpuClaim(1, "--gpus")("ps", 0, ())
    with pytest.raises(WorkerEnvironment, match=r"num_gpus: expected 2 GPUs .* lower num_gpus\."):
        GpuClaim(2)("ps", 0, ())


def test_an_error_of_the_job_ends_the_wait_for_reservations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Status(dict[str, Any]):
        looked = 0

        def __contains__(self, key: object) -> bool:
            self.looked += 1
            return self.looked > 2

    monkeypatch.setattr(reservation, "TURN", 0.01)
    with pytest.raises(WaitTimeout, match="1 are missing"):
        reservation.Server(1).await_reservations(None, Status(), timeout=60)
