"""A run without Spark is killed while it saves itself, and continues: every batch counts once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.long import few
from tests.unit.training.checkpoint import dying
from tests.unit.training.checkpoint.test_writer import Disk
from tests.unit.worker.support import center, counting_training, numbers
from tos_notebook.errors import CheckpointError
from tos_notebook.steering.sync import as_sync
from tos_notebook.training.checkpoint.folder import Folder
from tos_notebook.training.checkpoint.reading import last

LIMIT = 300.0
"""Seconds, on a machine that is busy."""
ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("sync", few(["asp", "ssp:1", "bsp"], "bsp"))
def test_a_run_killed_at_any_byte_that_it_writes_continues_with_every_batch_once(
    tmp_path: Path, sync: str
) -> None:
    """Within a checkpoint or a part of the history, at bytes drawn once and for all.

    With and without pushes that only the combiner's state has.
    """
    instants = [*sorted(random.Random(sync).sample(range(1, 40_000), 12)), 300_000, 300_001]
    assert {dying.rule(instant).name for instant in instants[:-2]} == {"downpour", "slowmo"}
    subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.unit.training.checkpoint.dying",
            tmp_path,
            sync,
            *map(str, instants),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        timeout=LIMIT,
    )
    continued = [_continued(tmp_path / str(instant), sync) for instant in instants]
    # One that is killed early may have no checkpoint yet.
    assert continued[-2:] == [True, True]


def _continued(folder: Path, sync: str) -> bool:
    """Train a killed run to the end of another epoch; return whether it had a checkpoint."""
    try:
        _, saved = last(Folder(Disk(folder)))
    except CheckpointError:
        assert not (folder / "checkpoint-00000002.tos").exists()
        return False
    reached = saved.progress.reached.epoch
    # A partition may be epochs ahead of the other.
    epochs = 2 + max([reached, *(epoch for epoch, *_ in saved.progress.ledger["records"])])
    rule = saved.settings_with().strategy.combiner
    assert rule.name == dying.rule(int(folder.name)).name
    training, _ = counting_training(
        dying.PARTITIONS, epochs, rule, 2, dying.ROWS, sync=as_sync(sync), first=reached
    )
    training.restore(saved.progress)
    dying.train(training)
    assert center(training) == {
        "total": epochs * numbers(dying.ROWS).sum(),
        "rows": epochs * dying.ROWS,
    }
    return True
