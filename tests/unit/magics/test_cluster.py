"""``%%tos_cluster`` with an engine that only remembers: options, data, waiting, mistakes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from tests.support.clusters import FakeCluster
from tests.unit.magics.conftest import Cells, Engine
from tests.unit.magics.test_help import complete
from tos_notebook.errors import WorkerError
from tos_notebook.magics import TosMagics
from tos_notebook.magics.lines import NodeLines
from tos_notebook.nodes.gpus import claim_of_spark
from tos_notebook.tensorflowonspark.TFSparkNode import GpuClaim

MAIN = "\ndef main(args, ctx):\n    return args\n"


class Remote:
    """A DataFrame of a Spark Connect session: any question to it would go to its server."""

    __module__ = "pyspark.sql.connect.dataframe"

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


class Clusters:
    """What the magic made of its options."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.made: list[FakeCluster] = []
        self.shown: list[Any] = []
        self.host = "127.0.0.1"
        self.on_start: Callable[[FakeCluster], object] = lambda made: None

    def start(
        self, sc: Any, main: Any, args: Any, options: Any, feeding: Any, claim: Any
    ) -> FakeCluster:
        given = {"main": main, "args": args, "options": options, "feeding": feeding}
        self.started.append(SimpleNamespace(**given, claim=claim))
        self.made.append(FakeCluster(len(self.made) + 1))
        # The notebook's hub outlives a test.
        self.made[-1].id = uuid4().hex
        self.on_start(self.made[-1])
        return self.made[-1]

    def view(self, run: Any) -> Any:
        return SimpleNamespace(show=lambda: self.shown.append(run), wait=lambda timeout: True)

    @property
    def template(self) -> dict[str, list[int]]:
        return dict(self.started[-1].options.template)


@pytest.fixture
def clusters(cells: Cells, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clusters]:
    """Put a fake engine behind the magic, and a Spark that only counts."""
    import tos_notebook

    made = Clusters()
    sc = SimpleNamespace(
        defaultParallelism=2,
        parallelize=lambda rows, _: SimpleNamespace(rows=rows),
    )
    spark = SimpleNamespace(sparkContext=sc)
    place = "tos_notebook.magics.cluster"
    monkeypatch.setattr(f"{place}.ClusterRun", made.start)
    monkeypatch.setattr("tos_notebook.magics.find.ClusterRun", FakeCluster)
    monkeypatch.setattr(f"{place}.slots", lambda sc: 2)
    monkeypatch.setattr(f"{place}.contact_host", lambda sc: made.host)
    monkeypatch.setattr("tos_notebook.magics.connect.Connection.ensure", lambda *_: spark)
    widgets = tos_notebook.widgets
    monkeypatch.setattr(widgets, "cluster_view", made.view, raising=False)
    monkeypatch.setattr(
        widgets, "ClusterPicture", lambda run: f"result of cluster {run.number}", raising=False
    )
    yield made
    for one in made.made:
        one.end()


def test_the_cells_own_main_runs_in_nodes_in_their_order(cells: Cells, clusters: Clusters) -> None:
    output = cells(f"%%tos_cluster --workers 2 --ps 1 --chief --evaluator{MAIN}")
    assert clusters.template == {"ps": [0], "chief": [1], "evaluator": [2], "worker": [3, 4]}
    assert clusters.started[0].main is cells.space["main"]
    assert cells.space["cluster"] is clusters.made[0]
    assert clusters.shown == clusters.made
    assert "TensorFlow cluster 1: 1 ps, 1 chief, 1 evaluator, 2 worker" in output
    assert "5 nodes share 2 slots" in output
    assert not clusters.started[0].options.feed


def test_a_line_runs_the_main_of_an_earlier_cell(cells: Cells, clusters: Clusters) -> None:
    cells(MAIN)
    cells.space["settings"] = {"a": 1}
    cells("%tos_cluster --args settings --tensorboard /tmp/logs --timeout 7 -o mine")
    started = clusters.started[0]
    assert started.args is cells.space["settings"]
    assert started.options.tensorboard
    assert (started.options.log_dir, started.options.timeout) == ("/tmp/logs", 7.0)
    assert cells.space["mine"] is clusters.made[0]


def test_restarts_and_gpus_reach_the_nodes(cells: Cells, clusters: Clusters) -> None:
    cells(f"%%tos_cluster{MAIN}")
    cells(f"%%tos_cluster --restarts 2 --gpus 1 --if-running replace{MAIN}")
    first, second = clusters.started
    assert (first.options.restarts, second.options.restarts) == (0, 2)
    assert first.claim is claim_of_spark
    assert second.claim == GpuClaim(1, "--gpus")


def test_arrays_a_dataframe_and_an_rdd_are_fed(cells: Cells, clusters: Clusters) -> None:
    rdd = SimpleNamespace(mapPartitions=None)
    cells.space.update(rdd=rdd, x=np.arange(4.0), y=np.arange(4), many=[1, 2, 3])
    cells(f"%%tos_cluster --feed rdd --epochs 3 --feed-timeout 5{MAIN}")
    feeding = clusters.started[-1].feeding
    assert feeding.rows is rdd
    assert (feeding.name, feeding.epochs, feeding.timeout) == ("rdd", 3, 5.0)
    assert clusters.started[-1].options.feed
    cells(f"%%tos_cluster --feed x,y --if-running replace{MAIN}")
    assert clusters.started[-1].feeding.rows.rows == [(0.0, 0), (1.0, 1), (2.0, 2), (3.0, 3)]
    cells(f"%%tos_cluster --feed many --if-running replace{MAIN}")
    assert clusters.started[-1].feeding.rows.rows == [1, 2, 3]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("%%tos_cluster --workers 2\nx = 1", "it defines no main"),
        ("%%tos_cluster\nmain = 3", "got int"),
        ("%%tos_cluster\ndef main(ctx): pass", "got main(ctx)"),
        ("%%tos_cluster", "defines main(args, ctx)"),
        (f"%%tos_cluster --workers 0{MAIN}", "at least one worker, or --chief"),
        (f"%%tos_cluster --workers -1{MAIN}", "--workers: expected 0 or more, got -1"),
        (f"%%tos_cluster --ps x{MAIN}", "whole number"),
        (f"%%tos_cluster --restarts -1{MAIN}", "--restarts: expected 0 or more, got -1"),
        (f"%%tos_cluster --restarts x{MAIN}", "whole number"),
        (f"%%tos_cluster --gpus -1{MAIN}", "--gpus: expected 0 or more, got -1"),
        (f"%%tos_cluster --feed remote{MAIN}", "a Spark Connect session"),
        (
            f"%%tos_cluster --feed remote,x{MAIN}",
            "Spark Connect session (sc://...), which has no RDDs",
        ),
        (f"%%tos_cluster --feed nothing{MAIN}", "got 'nothing'"),
        (f"%%tos_cluster --feed number{MAIN}", "of type int"),
        (f"%%tos_cluster --feed x,longer{MAIN}", "equal length"),
        (f"%%tos_cluster --epochs 3{MAIN}", "--epochs: only with --feed"),
        (f"%%tos_cluster --feed x --epochs 0{MAIN}", "more than 0, got 0"),
        (f"%%tos_cluster --args nothing{MAIN}", "got 'nothing'"),
        (f"%%tos_cluster --timeout 0{MAIN}", "--timeout"),
        (f"%%tos_cluster --worker 2{MAIN}", "--workers"),
    ],
)
def test_a_mistake_is_one_message_and_starts_nothing(
    cells: Cells, clusters: Clusters, cell: str, text: str
) -> None:
    cells.space.update(number=3, x=np.zeros(3), longer=np.zeros(4), remote=Remote())
    output = cells.fails(cell)
    assert text in output
    assert "Traceback" not in output
    assert not clusters.started


def test_a_network_is_refused_unless_it_is_meant(cells: Cells, clusters: Clusters) -> None:
    clusters.host = "10.0.0.7"
    assert "--insecure-network" in cells.fails(f"%%tos_cluster{MAIN}")
    assert not clusters.started
    cells(f"%%tos_cluster --insecure-network{MAIN}")
    assert clusters.started


def test_an_error_of_the_cell_itself_is_shown_as_without_the_magic(
    cells: Cells, clusters: Clusters
) -> None:
    output = cells.fails("%%tos_cluster\n1 / 0")
    assert "ZeroDivisionError" in output
    assert "magics/cluster.py" not in output


def test_waiting_ends_with_what_has_failed(cells: Cells, clusters: Clusters) -> None:
    clusters.on_start = lambda made: made.end("failed", WorkerError("ValueError: mine"))
    assert "ValueError: mine" in cells.fails(f"%%tos_cluster --wait{MAIN}")


@pytest.mark.parametrize(("option", "state"), [("leave", "running"), ("stop", "stopped")])
def test_an_interrupt_ends_the_wait(
    cells: Cells, clusters: Clusters, option: str, state: str
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    clusters.on_start = lambda made: setattr(made, "waiting", interrupt)
    output = cells(f"%%tos_cluster --wait --on-interrupt {option}{MAIN}")
    assert "Interrupted" in output
    assert clusters.made[0].state == state


def test_a_cell_that_runs_again_does_not_start_a_second_cluster_unasked(
    cells: Cells, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tos_notebook.magics.launcher.cell_key", lambda *_: "cell")
    for choice in ("replace", "replace", "attach"):
        cells(f"%%tos_cluster --if-running {choice}{MAIN}")
    assert cells.space["cluster"] is clusters.made[1]
    assert clusters.shown[-1] is clusters.made[1]
    cells(f"%%tos_cluster --if-running stop{MAIN}")
    assert clusters.made[1].state == "stopped"
    assert len(clusters.made) == 2


def test_in_a_batch_job_the_nodes_lines_are_printed_and_then_the_result(
    cells: Cells, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOS_NONINTERACTIVE", "1")
    clusters.on_start = lambda made: made.end()
    output = cells(f"%%tos_cluster{MAIN}")
    assert "[worker:0] hello" in output
    assert "worker:0 on h: running" in output
    assert "result of cluster 1" in output
    assert not clusters.shown


def test_lines_tell_of_feeding_and_of_states_once(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = FakeCluster()
    lines = NodeLines(cluster, sys.stdout)  # type: ignore[arg-type]
    feed: Any = {"data": "x", "epoch": 1, "epochs": 2, "partitions": 4, "fed": 1, "over": False}
    cluster.stands["feed"] = feed
    lines.write()
    lines.write()
    written = capsys.readouterr().out
    assert written.count("fed: x, epoch 1 of 2, 1 of 4 partitions") == 1
    assert written.count("ps:0 on h: running") == 1


def test_options_and_variables_are_completed(cells: Cells, clusters: Clusters) -> None:
    cells.space.update(rows=np.zeros(3), settings={"a": 1})
    assert "--insecure-network" in complete(cells, "%%tos_cluster --in")
    assert "rows" in complete(cells, "%%tos_cluster --feed ")
    assert "settings" in complete(cells, "%%tos_cluster --args ")


@pytest.mark.parametrize("named", ["", " --run mine"])
def test_short_magics_take_a_cluster(cells: Cells, clusters: Clusters, named: str) -> None:
    cells(f"%%tos_cluster -o mine{MAIN}")
    assert "result of cluster 1" in cells(f"%tos_status{named}")
    cells(f"%tos_view{named}")
    assert clusters.shown == clusters.made * 2
    assert cells(f"%tos_stop{named}") == "Cluster 1 is stopped.\n"
    assert clusters.made[0].state == "stopped"


def test_short_magics_mean_a_run_where_there_is_one_and_the_newest_cluster_else(
    cells: Cells, clusters: Clusters, engine: Engine
) -> None:
    cells(f"%%tos_cluster -o first{MAIN}")
    cells(f"%%tos_cluster --ps 1{MAIN}")
    cells("%tos_view")
    assert clusters.shown[-1] is clusters.made[1]
    cells("%tos_train --model program --data train")
    cells("%tos_view")
    assert engine.shown[-1] is engine.runs[0]
    cells("%tos_view --run first")
    assert clusters.shown[-1] is clusters.made[0]
    assert "Run 1 is stopped" in cells("%tos_stop")
    assert clusters.made[0].state == "running"
    assert "Expected a run's variable" in cells.fails("%tos_pause --run first")


def test_clusters_are_completed_where_one_may_be_named(cells: Cells, clusters: Clusters) -> None:
    cells(f"%%tos_cluster -o mine{MAIN}")
    for name in ("tos_view", "tos_status", "tos_stop"):
        assert "mine" in complete(cells, f"%{name} --run ")
    assert "mine" not in complete(cells, "%tos_pause --run ")


def test_help_names_what_the_variable_can_do() -> None:
    text = str(TosMagics.tos_cluster.__doc__)
    assert "cluster.stop()" in text
    assert "--workers N" in text
