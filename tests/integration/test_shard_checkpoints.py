"""Checkpoints of a run with shards: written in parts, and a resumed run trains each batch once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter
from tests.integration.test_shards import SHARDED, VALUES
from tests.support.watching import Watch
from tos_notebook.events import CheckpointFailed, CheckpointWritten
from tos_notebook.persist.sealed import Sealed, decode
from tos_notebook.strategies.ps.shards.group import Group
from tos_notebook.training.checkpoint.folder import Folder

Train = Callable[..., tos.TrainingSession]

EPOCHS = 2
MILESTONES = EPOCHS * len(VALUES) // SHARDED["batch_size"]


def _train(train: Train, place: Path) -> tuple[tos.Run, Watch]:
    watch = Watch()
    session = train(counter(), checkpoint_dir=f"file:{place}", **SHARDED)
    run = session.start((VALUES,), partitions=1, epochs=EPOCHS, checkpoint_every=200, sinks=[watch])
    run.wait(120)
    assert not watch.of(CheckpointFailed)
    assert len(watch.of(CheckpointWritten)) > 1
    return run, watch


def _checkpoints(place: Path) -> dict[Path, Sealed]:
    """Return the checkpoints of a folder, in their order."""
    found = sorted(place.glob("checkpoint-*.tos"))
    return {path: decode(path.read_bytes(), path.name) for path in found}


def _leave_first(checkpoints: Iterable[Path]) -> None:
    """Let a run continue in mid-epoch."""
    _, *later = checkpoints
    for path in later:
        path.unlink()


def _resumed_total(place: Path, spark_context: Any) -> list[float]:
    resumed = tos.resume(f"file:{place}", (VALUES,), spark=spark_context)
    resumed.wait(120)
    total: list[float] = resumed.parameters()["total"].tolist()
    return total


def test_shards_write_parts_and_a_run_continues_from_them(
    train: Train, tmp_path: Path, spark_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the run trains, no parameters come into the driver for a checkpoint."""
    sent: list[int] = []
    command = Group.command

    def counted(group: Group, what: str, *given: Any) -> Any:
        answers = command(group, what, *given)
        # Another thread makes copies in the driver's memory.
        if threading.current_thread().name.startswith("tos-checkpoint"):
            sent.extend(len(payload) for _, payload in answers if payload is not None)
            assert what != "send"
        return answers

    monkeypatch.setattr(Group, "command", counted)
    run, _ = _train(train, tmp_path)
    place = tmp_path / run.run_id
    assert not [note for note in run.status.notes if "driver" in note]
    assert max(sent) < 1000
    checkpoints = _checkpoints(place)
    *_, last = checkpoints.values()
    # With the last milestone the shards end, and what they had is in the driver.
    during = [c for c in checkpoints.values() if c.summary["milestones"] < MILESTONES]
    assert during
    assert all("parts" in checkpoint.value for checkpoint in during)
    assert last.summary["milestones"] == MILESTONES
    assert "parts" not in last.value
    _leave_first(checkpoints)
    both = [EPOCHS * VALUES.sum(), float(EPOCHS * len(VALUES))]
    assert _resumed_total(place, spark_context) == both == run.parameters()["total"].tolist()


def test_a_folder_that_executors_do_not_share_gets_checkpoints_from_the_driver(
    train: Train,
    tmp_path: Path,
    spark_context: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = Folder.place

    def elsewhere(folder: Folder, number: int, claim: str) -> Any:
        return here(folder, number, claim)._replace(folder=f"file:{tmp_path}/of-another-host")

    monkeypatch.setattr(Folder, "place", elsewhere)
    run, _ = _train(train, tmp_path)
    place = tmp_path / run.run_id
    said = (
        "Checkpoints go through the driver: Shard 1 cannot write its part of a checkpoint. Executor"
    )
    (note,) = [note for note in run.status.notes if said in note]
    assert "Cannot read 'owner-00000000.tos'" in note
    assert len([record for record in caplog.records if said in record.getMessage()]) == 1
    assert not (tmp_path / "of-another-host").exists()
    assert not list(place.glob("part-*"))
    checkpoints = _checkpoints(place)
    assert not any("parts" in checkpoint.value for checkpoint in checkpoints.values())
    _leave_first(checkpoints)
    both = np.multiply(EPOCHS, [VALUES.sum(), len(VALUES)])
    assert _resumed_total(place, spark_context) == both.tolist()
