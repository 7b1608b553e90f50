"""A Spark Connect server on a real cluster: executors die, a notebook runs, runs are steered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.object_store import AmazonStore, GoogleStore, ObjectStore
from tests.clusters.standalone import ROOT, Standalone
from tests.integration.connect_program import PASSES
from tests.notebooks.test_execution import FOLDER, run_notebook
from tests.support.connect_server import ConnectServer

SETTINGS = {"spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "1g"}


@pytest.fixture(scope="module")
def server(
    standalone: Standalone, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectServer]:
    """A server with two executors, for one client after the other."""
    folder = tmp_path_factory.mktemp("connect")
    with ConnectServer(folder, standalone.master, SETTINGS) as server:
        yield server


@pytest.mark.gate
def test_every_row_counts_once_although_an_executor_dies(
    standalone: Standalone, server: ConnectServer, tmp_path: Path
) -> None:
    nodes = [node.pid for node in standalone.nodes]
    found = server.told("tests.clusters.spark_connect_program", tmp_path / "runs", *nodes)
    assert found["total"] == found["expected"]
    assert 0 < found["stopped"] < found["expected"][1]


def test_a_run_is_steered_saved_and_resumed_and_a_model_swaps_its_strategy_and_predicts(
    server: ConnectServer, tmp_path: Path
) -> None:
    found = server.told("tests.integration.connect_program", tmp_path, "steered", "learned")
    assert found["steered"]["total"] == found["steered"]["expected"]
    assert found["steered"]["partitions"] == [2]
    learned = found["learned"]
    assert (learned["samples"], learned["skipped"], learned["predicted"]) == (
        PASSES * 1796,
        1,
        1796,
    )
    assert learned["strategies"] == ["allreduce"]
    assert learned["evaluated"] > 0.9


@pytest.mark.parametrize("kind", [AmazonStore, GoogleStore])
def test_a_run_is_saved_in_an_object_store_and_resumed_from_there(
    server: ConnectServer, kind: type[ObjectStore]
) -> None:
    with kind() as store:
        program, folder = "tests.clusters.spark_connect_program", f"{store.uri}/runs"
        found = server.told(program, folder, **store.environ)
    assert found["total"] == found["expected"]
    assert 0 < found["stopped"] < found["expected"][1]
    assert found["uri"].startswith(f"{folder}/run-")
    assert found["saved"] == [found["uri"]]
    assert found["told"] == found["stopped"]


def test_the_courses_first_notebook(server: ConnectServer, tmp_path: Path) -> None:
    """Every cell runs, and shows what it showed where Spark was in the notebook's process."""
    text = (FOLDER / "00_first_steps.ipynb").read_text()
    assert text.count("%tos_connect local[2]") == 1
    notebook = tmp_path / "00_first_steps.ipynb"
    notebook.write_text(text.replace("%tos_connect local[2]", f"%tos_connect {server.address}"))
    run_notebook(notebook, PYTHONPATH=f"{ROOT}:{FOLDER}")
