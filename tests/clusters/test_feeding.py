"""Rows reach nodes once, and nodes run once, although Spark starts tasks twice or loses them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import application
from tests.clusters.standalone import Standalone
from tests.clusters.trying import found_in

PROGRAM = Path(__file__).with_name("feeding_program.py")

EPOCHS = {"rows": 8000, "total": 2 * sum(range(4000))}

SETTINGS = {
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.01",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return what the program found, by what it tried."""
    folder = tmp_path_factory.mktemp("feeding")
    with Standalone(folder / "cluster", nodes=0, cores=1) as cluster:
        # Spark starts no second attempt on a host that has one.
        for host in ("127.0.0.1", "127.0.0.2"):
            cluster.add_node(host=host)
        settings = {**SETTINGS, "spark.master": cluster.master}
        lines = application.run(PROGRAM, folder=folder, settings=settings)
    made = found_in(lines)
    sys.stdout.write("\n".join(map(str, made.items())))
    return made


def test_a_task_that_feeds_twice_at_once_feeds_each_row_once(found: dict[str, Any]) -> None:
    assert found["feed_twice"] == {**EPOCHS, "attempts": 2}


def test_results_that_are_fetched_twice_at_once_come_once(found: dict[str, Any]) -> None:
    assert found["infer_twice"] == {"right": True, "attempts": 2}


def test_a_second_attempt_of_a_node_leaves_the_first_alone(found: dict[str, Any]) -> None:
    assert found["start_twice"] == {"seen": True, "said": [["done", "began"]] * 2}


def test_rows_of_an_executor_that_is_lost_are_fed_once(found: dict[str, Any]) -> None:
    assert found["lose_executor"] == {**EPOCHS, "lost": True}
