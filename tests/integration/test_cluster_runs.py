"""TensorFlow clusters that run beside the notebook: what they tell, and how they end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tos_notebook.errors import UnsupportedProgram, WorkerError
from tos_notebook.nodes.context import NodeContext
from tos_notebook.nodes.plan import ClusterOptions
from tos_notebook.nodes.runs import ClusterRun, Feeding, Seen

WORKERS = ClusterOptions({"worker": [0, 1]})
FED = ClusterOptions({"ps": [0], "worker": [1, 2]}, feed=True)


@pytest.fixture
def started(spark_context: Any) -> Iterator[Any]:
    """Start clusters, and end those that a test has left."""
    made: list[ClusterRun] = []

    def start(main: Any, options: ClusterOptions, **given: Any) -> ClusterRun:
        made.append(ClusterRun(spark_context, main, None, options, **given))
        return made[-1]

    yield start
    for run in made:
        run.stop()
    assert not [t.name for t in threading.enumerate() if t.name.startswith("tos-cluster-run")]


def test_nodes_tell_their_states_and_their_lines(
    started: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        sys.stdout.write(f"I am {ctx.job_name} {ctx.task_index}\n")

    run = started(main, WORKERS).wait(60)
    state = run.snapshot()
    assert state["state"] == "finished"
    assert [(n["name"], n["state"], n["lines"]) for n in state["nodes"]] == [
        ("worker:0", "done", ["I am worker 0"]),
        ("worker:1", "done", ["I am worker 1"]),
    ]
    assert run.lines("worker", 1) == ["I am worker 1"]
    seen: Seen = {}
    assert run.new_lines(seen) == [("worker:0", "I am worker 0"), ("worker:1", "I am worker 1")]
    assert run.new_lines(seen) == []
    held = "The nodes hold all 2 slots of Spark. Other Spark jobs wait until the cluster has ended."
    assert (state["notes"], caplog.messages) == ([held], [])


def test_all_epochs_are_fed_and_counted(started: Any, spark_context: Any) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        if ctx.job_name == "ps":
            threading.Event().wait()
        feed = ctx.get_data_feed()
        while not feed.should_stop():
            feed.next_batch(50)

    rows = spark_context.parallelize(range(1000), 4)
    state = started(main, FED, feeding=Feeding(rows, "rows", epochs=3)).wait(60).snapshot()
    assert sum(node["rows"] for node in state["nodes"]) == 3000
    feed = {"data": "rows", "epoch": 3, "epochs": 3, "partitions": 4, "fed": 4, "over": True}
    assert state["feed"] == feed
    assert state["notes"] == []
    assert state["nodes"][0]["state"] == "stopped"


def test_an_error_is_told_at_once_with_the_users_line_and_spark_stays_usable(
    started: Any, spark_context: Any
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        if ctx.task_index == 1:
            raise ValueError("mine")
        threading.Event().wait()

    run = started(main, WORKERS)
    with pytest.raises(WorkerError, match="ValueError: mine"):
        run.wait(60)
    error = run.snapshot()["error"]
    assert error is not None
    assert error["where"].startswith("worker:1 on ")
    assert "test_cluster_runs.py" in error["frames"][0]
    assert (run.state, run.active) == ("failed", False)
    assert spark_context.parallelize(range(10)).sum() == 45


def test_a_stop_ends_all_nodes_while_they_are_fed(started: Any, spark_context: Any) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        ctx.get_data_feed().next_batch(1)
        threading.Event().wait()

    def rows(_: int) -> Any:
        return ([0.0] * 9 for _ in iter(int, 1))

    endless = spark_context.parallelize(range(2), 2).flatMap(rows)
    run = started(main, FED, feeding=Feeding(endless, "endless"))
    assert run.wait_for_news(lambda: any(node["rows"] for node in run.nodes), 60)
    began = time.monotonic()
    run.stop()
    assert time.monotonic() - began < 20
    assert (run.state, run.snapshot()["error"]) == ("stopped", None)
    assert {node["state"] for node in run.nodes} == {"stopped"}
    assert spark_context.parallelize(range(10)).sum() == 45


def test_it_says_why_it_has_begun_again_and_its_lines_are_read_from_the_first_on(
    started: Any, tmp_path: Path
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        mark = Path(folder, "mark")
        if mark.exists():
            sys.stdout.write("again\n")
            return
        mark.touch()
        raise ValueError("mine")

    folder = str(tmp_path)
    run = started(main, replace(WORKERS, template={"worker": [0]}, restarts=1)).wait(60)
    (note,) = run.snapshot()["notes"]
    assert note.startswith(f"TensorFlow cluster {run.number} begins again (1 of 1): ValueError: m")
    assert run.new_lines({(0, "worker:0"): 9}) == [("worker:0", "again")]


def test_a_cluster_whose_tensorboard_ends_at_once_says_so_and_continues(
    started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        while not Path(folder, "seen").exists():
            threading.Event().wait(0.05)

    folder = str(tmp_path)
    script = tmp_path / "python"
    refuse = "case $2 in *tensorboard.main*) echo no board; exit 3;; esac"
    script.write_text(f'#!/bin/sh\n{refuse}\nexec {sys.executable} "$@"\n')
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    template = {"ps": [0], "worker": [1]}
    # Of a node beside the driver we choose the Python.
    options = ClusterOptions(template, tensorboard=True, log_dir=folder, local=[1])
    run = started(main, options)

    # TensorBoard may end before the last node has started.
    def told() -> bool:
        state = run.snapshot()
        return bool(state["notes"]) and state["state"] == "running"

    assert run.wait_for_news(told, 60)
    state = run.snapshot()
    assert state["notes"] == ["TensorBoard has ended with exit code 3: no board"]
    assert state["tensorboard"] is None
    (tmp_path / "seen").touch()
    assert run.wait(60).state == "finished"


def test_what_cannot_be_sent_is_refused_before_anything_is_started(
    started: Any, spark_context: Any
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        spark_context.parallelize([])

    with pytest.raises(UnsupportedProgram, match="main uses spark_context"):
        started(main, WORKERS)
