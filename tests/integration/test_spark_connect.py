"""Training over Spark Connect: a real server, and a client in a process without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tos_notebook as tos
from tests.integration.conftest import new_counter
from tests.integration.connect_cells import CLASSIC
from tests.integration.connect_program import COUNTED, PASSES, ROWS, TOTAL, frame_of
from tests.support.connect_server import ConnectServer
from tests.support.watching import Watch
from tos_notebook.events import MilestoneCommitted

EPOCHS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A Spark Connect server of this machine, for one program after the other."""
    with ConnectServer(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def found(
    server: ConnectServer, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the program has found; see `tests.integration.connect_program`."""
    watch, folder = Watch(), tmp_path_factory.mktemp("connect")
    options = {**COUNTED, "checkpoint_dir": str(folder / "classic")}
    with tos.TrainingSession(spark, new_counter(), **options) as here:
        run = here.start(frame_of(spark), epochs=EPOCHS, sinks=[watch], checkpoint_every=4)
        run.chaos(tos.chaos.Pause(0.02, any=2))
        watch.until(MilestoneCommitted, count=6)
        run.stop()
        assert 0 < run.status.samples < EPOCHS * ROWS
    return server.told("tests.integration.connect_program", folder, **{CLASSIC: run.uri})


@pytest.fixture(scope="module")
def cells(found: dict[str, Any]) -> dict[str, list[Any]]:
    """What stands below a notebook's cells; see `tests.integration.connect_cells`."""
    return found["cells"]  # type: ignore[no-any-return]


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
    assert (learned["samples"], learned["skipped"], learned["predicted"]) == (
        PASSES * 1796,
        1,
        1796,
    )
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


def test_every_row_counts_once_although_a_worker_hangs_and_its_job_starts_again(
    found: dict[str, Any],
) -> None:
    hung = found["hung"]
    assert hung["total"] == hung["expected"]
    assert any(reason.endswith("(worker_timeout=3)") for reason in hung["lost"])
    assert any("Spark Connect ended task" in reason for reason in hung["restarts"])


@pytest.mark.long
def test_other_strategies_event_files_and_an_estimator(
    server: ConnectServer, tmp_path: Path
) -> None:
    """See `tests.integration.connect_strategies_program`: each row counts once."""
    found = server.told("tests.integration.connect_strategies_program", tmp_path)
    assert len(found) == 7
    assert [name for name, (got, expected) in found.items() if got != expected] == []


def test_the_client_does_without_a_jvm_and_py4j_and_leaves_no_thread(
    found: dict[str, Any],
) -> None:
    """As where pyspark-client is installed, which has neither py4j nor ``pyspark.core``."""
    assert found["loaded"] == []
    assert found["threads"] == []


def test_a_cell_connects_and_the_next_one_trains(cells: dict[str, list[Any]]) -> None:
    said = cells["connected"][1]
    assert "Connected to the Spark Connect server sc://127.0.0.1:" in said
    assert "Spark " in said
    assert cells["trained"][0]
    assert cells["counted"][1].split() == ["finished", str(2 * 1797)]


def test_a_run_that_was_saved_with_a_jvm_is_resumed_without(cells: dict[str, list[Any]]) -> None:
    assert cells["resumed"][1].split() == [
        "finished",
        str(EPOCHS * TOTAL),
        str(EPOCHS * ROWS * 1.0),
    ]


def test_a_run_that_was_saved_without_a_jvm_is_resumed_with_one(
    found: dict[str, Any], spark: Any
) -> None:
    steered = found["steered"]
    epochs = int(steered["expected"][1]) // ROWS + 1
    run = tos.resume(steered["uri"], frame_of(spark), spark=spark, epochs=epochs)
    run.wait(120)
    assert run.parameters()["total"].tolist() == [epochs * TOTAL, float(epochs * ROWS)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no extra", "pip install '.[connect]'"),
        ("no host", "Expected an address such as sc://host:15002"),
        ("no port", "Port could not be cast to integer"),
        ("unknown", "No answer from sc://no-such-host.invalid:15002"),
        ("nobody", "Connection refused"),
        ("mute", "No Spark Connect server answers at sc://127.0.0.1:"),
        ("another", "a session is open to sc://127.0.0.1:"),
    ],
)
def test_a_wrong_address_is_one_message_in_time_without_its_token(
    cells: dict[str, list[Any]], name: str, text: str
) -> None:
    succeeded, said, seconds = cells[name]
    assert not succeeded
    assert text in said
    assert "Traceback" not in said
    assert "secret" not in said
    assert seconds < 60
