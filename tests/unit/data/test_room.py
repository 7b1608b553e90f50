"""Rows that do not fit into memory are refused with the column and what to change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.blocks.block import Columns
from tos_notebook.blocks.sparse import SparseRows
from tos_notebook.common.content import content_of
from tos_notebook.data import room
from tos_notebook.errors import DataError
from tos_notebook.worker.batches import InMemoryBatches, PartitionRows

MIB = 2**20
FEEDS = [FeedSpec("x", "float32", (1024,)), FeedSpec("y", "int64", ())]


def blocks(count: int) -> list[Columns]:
    """Return blocks of 1 MiB in the first column, and little in the second."""
    return [(np.full((256, 1024), n, np.float32), np.arange(256)) for n in range(count)]


def left(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    monkeypatch.setattr(room, "room", lambda: nbytes)


def test_a_partition_that_does_not_fit_is_refused_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left(monkeypatch, 2 * MIB)
    monkeypatch.setattr(room, "STEP", 0)
    unread = iter(blocks(9))
    with pytest.raises(DataError) as caught:
        room.gathered(unread, ["x", "y"], "Partition 3")
    assert "Partition 3, column 'x': the first 768 rows take 3.0 MiB" in str(caught.value)
    assert "only 2.0 MiB left. Cut the data into more partitions" in str(caught.value)
    assert len(list(unread)) == 6


def test_rows_that_fit_are_joined_and_one_block_needs_no_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left(monkeypatch, 2 * MIB)
    x, y = room.gathered(blocks(2), ["x", "y"], "Partition 0")
    assert (x.shape, y.shape) == ((512, 1024), (512,))
    left(monkeypatch, 0)
    (block,) = blocks(1)
    assert room.gathered([block], ["x", "y"], "Partition 0") is block
    assert room.gathered([], ["x", "y"], "Partition 0") == ()


def test_wide_sparse_rows_that_do_not_fit_once_they_are_dense_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = 1000
    sparse = SparseRows(
        np.arange(rows + 1), np.zeros(rows, np.int32), np.ones(rows, np.float32), (2**16,)
    )
    labels = np.zeros(rows, np.int64)
    columns: Columns = (sparse, labels)  # type: ignore[assignment]
    content = content_of((labels,))
    held = InMemoryBatches(PartitionRows(columns, 0, content, FEEDS), 0, True, 100)
    left(monkeypatch, 100 * MIB)
    with pytest.raises(DataError) as caught:
        held.feed(0, 0)(0, 10)
    wanted = "Feed 'x': the rows of one milestone (10 batches of 100) take 250.0 MiB"
    assert wanted in str(caught.value)
    assert "Lower batch_size or sync_interval" in str(caught.value)
    assert held.feed(0, 0)(0, 1)[0].shape == (100, 2**16)


def test_what_is_left_is_never_more_than_the_system_has_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free = tmp_path / "meminfo"
    free.write_text("MemTotal: 900 kB\nMemAvailable: 3 kB\nSwapFree: 1 kB\nHugePages_Free: 0\n")
    monkeypatch.setattr(room, "MEMORY", free)
    assert room.room() == 4096
    monkeypatch.setattr(room, "available", lambda: 0)
    assert room.room() == 0
    monkeypatch.setattr(room, "MEMORY", tmp_path / "none")
    monkeypatch.setattr(room, "RESIDENT", tmp_path / "none")
    monkeypatch.setattr(room, "available", lambda: 7)
    assert room.room() == 7
