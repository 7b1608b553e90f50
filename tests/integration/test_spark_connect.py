"""Training over Spark Connect: a real server, and a client in a process without a JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.clusters.standalone import ROOT
from tests.support.connect_server import ConnectServer

LIMIT = 300.0
"""Seconds for the program, on a machine that is busy."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program has found; see `tests.integration.connect_program`."""
    folder = tmp_path_factory.mktemp("connect")
    with ConnectServer(folder / "server") as server:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.integration.connect_program",
                server.address,
                str(folder),
            ],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def test_a_frame_is_paused_laid_out_again_saved_and_resumed_and_counts_every_row_once(
    found: dict[str, Any],
) -> None:
    steered = found["steered"]
    assert steered["state"] == "finished"
    assert steered["total"] == steered["expected"]
    assert steered["partitions"] == [2]
    assert 0 < steered["paused"] < steered["stopped"] < steered["expected"][1]


def test_every_row_counts_once_although_a_worker_dies(found: dict[str, Any]) -> None:
    assert found["killed"]["total"] == found["killed"]["expected"]


def test_a_model_learns_from_a_frame_predicts_and_is_evaluated(found: dict[str, Any]) -> None:
    """One of the 1797 rows is bad, and left out; the strategy is swapped in between."""
    learned = found["learned"]
    assert (learned["samples"], learned["skipped"], learned["predicted"]) == (8 * 1796, 1, 1796)
    assert learned["strategies"] == ["allreduce"]
    assert learned["columns"][-1] == "prediction"
    assert learned["accuracy"] == pytest.approx(learned["evaluated"])
    assert learned["evaluated"] > 0.9


def test_records_and_functions_of_datasets_are_trained(found: dict[str, Any]) -> None:
    data = found["other_data"]
    assert data["records"] == data["function"] == data["expected"]


def test_a_run_trains_although_executors_do_not_reach_the_notebook(found: dict[str, Any]) -> None:
    """Its server is in a Spark task, so the notebook follows, commands, stops and continues it."""
    followed = found["deployed"]
    assert followed["address"] == ""
    assert followed["states"] == ["stopped", "finished"]
    assert followed["samples"] == [followed["expected"]] * 2
    assert 0 < followed["stopped"] == followed["told"] < followed["expected"]
    assert followed["refused"].startswith("sync: expected")
    assert (followed["rate"], followed["moved"]) == (0.25, True)
    assert {"chaos", "pause", "set", "unpause", "stop"} <= set(followed["commands"])
    assert followed["accuracy"] == pytest.approx(followed["model"])


def test_the_client_has_no_jvm_and_leaves_no_thread(found: dict[str, Any]) -> None:
    assert not found["jvm"]
    assert found["threads"] == []
