"""What must hold when parts of a real cluster die, and how runs end there: the short version.

`python -m tests.faults` has the whole matrix.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

TIMEOUT = 700.0
"""Seconds for a program of some cases, on a machine that is busy."""


def run(module: str, *options: str) -> str:
    """Run a module in a process of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *options],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


STANDALONE = [
    *("worker/asp", "worker/ssp:3", "worker/bsp", "executor/asp", "node/ssp:3", "node/bsp"),
    *("worker/tensorflow", "executor/allreduce:ring"),
]

YARN = ["worker/asp", "worker/ssp:3", "executor/asp"]


@pytest.mark.parametrize(
    ("cluster", "cases"),
    [
        pytest.param("standalone", STANDALONE, id="standalone", marks=pytest.mark.gate),
        pytest.param("yarn", YARN, id="yarn"),
    ],
)
def test_every_batch_counts_once_whatever_is_killed(
    cluster: str, cases: list[str], tmp_path: Path
) -> None:
    target = tmp_path / "outcomes.json"
    run("tests.faults", "--cluster", cluster, "--case", *cases, "--json", str(target))
    outcomes = json.loads(target.read_text())
    assert sorted(f"{o['fault']}/{o['mode']}" for o in outcomes) == sorted(cases)
    for outcome in outcomes:
        assert (outcome["got"], outcome["state"]) == (outcome["expected"], "finished"), outcome
        assert not outcome["error"], outcome


@pytest.fixture(scope="module")
def ends() -> dict[str, Any]:
    """How runs end on a standalone cluster; see `tests.faults.ends`."""
    found: dict[str, Any] = json.loads(
        run("tests.faults.ends", "--cluster", "standalone").splitlines()[-1]
    )
    return found


def test_a_stop_ends_the_job_and_reads_no_further_partition(ends: dict[str, Any]) -> None:
    """Of thousands of epochs, each worker ends the milestone that it is in."""
    stops = [*ends["stop"], ends["stop with surplus"], ends["stop by a sink"]]
    assert [stop["state"] for stop in stops] == ["stopped"] * len(stops)
    assert [stop["opened"] for stop in stops] == [0] * len(stops)
    assert all(stop["exact"] for stop in stops)
    assert all(stop["late"] <= stop["slots"] for stop in stops), stops


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("data", "WorkerError: ValueError: row 42 is spoilt"),
        ("package", "WorkerError: ModuleNotFoundError: No module named 'no_such_package'"),
        ("operation", "WorkerError: InvalidArgumentError: indices"),
        ("combiner", "CombinerError: Combiner _broken"),
    ],
)
def test_the_first_real_failure_leads(ends: dict[str, Any], kind: str, text: str) -> None:
    """What `Run.wait` raises: a run that is not over in time would raise another error."""
    assert ends[f"error: {kind}"]["message"].startswith(text)


def test_nothing_of_ours_is_left_running(ends: dict[str, Any]) -> None:
    before, after = ends["before"], ends["after"]
    assert after["threads"] == []
    assert (after["segments"], after["residuals"]) == (0, 0)
    assert after["sockets"] <= before["sockets"]
    assert after["workers"] <= before["workers"]
