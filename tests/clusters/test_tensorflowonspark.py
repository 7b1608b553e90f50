"""What users of TensorFlowOnSpark suffer from does not happen, on two kinds of clusters.

No time is asserted: feeds here have no end, and give up after minutes, so that only the consumer's
end can release them. Seconds are printed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import application
from tests.clusters.standalone import Standalone
from tests.clusters.trying import found_in

PROGRAM = Path(__file__).with_name("tensorflowonspark_program.py")

Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=["local", "standalone"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return one of the kinds of clusters."""
    return str(request.param)


@pytest.fixture(scope="module")
def found(kind: str, standalone: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Return what the program found, by what it tried."""
    # Each task in a process of its own, as none of TensorFlowOnSpark's can be.
    settings = {"spark.master": "local[2]", "spark.python.worker.reuse": "false"}
    if kind == "standalone":
        settings |= {
            "spark.master": standalone.master,
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
            # Spark refuses barrier stages with it.
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.initialExecutors": "2",
            "spark.dynamicAllocation.minExecutors": "2",
        }
    folder = tmp_path_factory.mktemp(kind)
    lines = application.run(PROGRAM, folder=folder, settings=settings)
    made = found_in(lines)
    sys.stdout.write("\n".join(map(str, made.items())))
    return made


def test_a_consumer_that_ends_early_releases_the_feeders(found: Found) -> None:
    assert found["leave_early"]["states"] == ["done", "done"]


def test_the_users_own_error_is_the_one_that_is_raised_and_spark_goes_on(
    found: Found, kind: str
) -> None:
    said = found["raise_error"]["said"]
    assert len(said) == 2
    for message, frame, executor, _ in said:
        assert message.startswith("ValueError: mine (in node worker:")
        assert 'raise ValueError("mine")' in frame
        assert executor in (["driver"] if kind == "local" else ["0", "1"])
    assert found["raise_error"]["sum"] == 45


def test_a_node_that_dies_is_named_or_lets_the_cluster_begin_again(found: Found, kind: str) -> None:
    message, executor = found["kill_node"]["without"]
    assert "SIGKILL ended it" in message
    assert "worker:1" in message
    assert executor in (["driver"] if kind == "local" else ["0", "1"])
    assert found["kill_node"]["with"] == [["again"], ["again"]]
    assert found["kill_node"]["sum"] == 45


def test_partitions_of_any_size_are_taken_to_the_last_row(found: Found) -> None:
    rows = [*range(1000), 1000]
    assert found["feed_unevenly"] == {"rows": 2 * len(rows), "total": 2 * sum(rows)}


def test_an_interrupt_ends_a_wait_and_no_node(found: Found) -> None:
    assert found["interrupt"] == {
        "interrupted": [True, True],
        "rows": 1000,
        "total": sum(range(1000)),
        "own": [["done", "went"]] * 2,
    }


def test_nodes_know_themselves_without_a_file_and_share_executors(found: Found) -> None:
    said = [f"{number} worker {number} False" for number in range(3)]
    expected = found["share_executors"]["expected"]
    assert found["share_executors"] == {
        "said": [*said, "0 chief 0 False"],
        "found": [expected] * 2,
        "expected": expected,
    }


def test_a_port_is_kept_until_tensorflow_has_it(found: Found) -> None:
    assert found["keep_port"] == {"said": [["kept", "served"]] * 2}


def test_rows_travel_in_blocks(found: Found) -> None:
    sent = found["send_blocks"]
    assert sent["rows"] == 200_000
    assert sent["blocks"] < sent["rows"] / 100


def test_who_has_not_the_secret_is_not_served(found: Found) -> None:
    assert found["ask_who_it_is"] == {"places": 3, "refused": 3, "found": [9]}
