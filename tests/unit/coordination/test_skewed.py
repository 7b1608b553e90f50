"""What the server says of partitions whose labels differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.unit.worker.support import Served, counting_training, join, numbers, of
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.job_span import DataLayout
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.events import LabelsSkewed
from tos_notebook.wire.messages import Labelled


def tell(training: Coordinator, *counts: tuple[list[int], list[int]]) -> None:
    for partition, own in enumerate(counts):
        member, _ = training.join(join(partition, task=partition), False)
        training.labelled(member, Labelled(*own))


def test_partitions_with_other_labels_are_told_once() -> None:
    training, events = counting_training(partitions=3)
    tell(training, ([0], [100]), ([1], [100]), ([2], [100]))
    assert [event.text for event in of(LabelsSkewed, events)] == list(training.notes)
    assert "repartition_every=1" in training.notes[0]


def test_partitions_with_the_same_labels_are_not_told() -> None:
    training, events = counting_training(partitions=2)
    tell(training, ([0, 1], [50, 48]), ([0, 1], [49, 51]))
    assert (training.notes, of(LabelsSkewed, events)) == ((), [])


def test_what_was_said_is_withdrawn_when_the_rows_are_laid_out_anew() -> None:
    training, _ = counting_training(partitions=2)
    tell(training, ([0], [100]), ([1], [100]))
    assert training.notes
    training.begin_span(
        ArraySource((numbers(100),), 2), 1, 1, DataLayout(2, RandomPartitioner(2), 1)
    )
    assert training.notes == ()


@pytest.mark.parametrize("wrong", [([1], []), ([1], [0]), (list(range(1001)), [1] * 1001)])
def test_counts_that_cannot_be_are_refused(wrong: Any) -> None:
    training, _ = counting_training()
    with pytest.raises(RemoteProtocolError, match="Labelled: expected at most 1000 labels"):
        tell(training, wrong)


@pytest.mark.parametrize("counted", [True, False])
def test_a_worker_counts_labels_where_it_is_told_to(counted: bool) -> None:
    training, events = counting_training(partitions=2)
    served = Served(training)
    try:
        for partition in range(2):
            rows = numbers(60), np.full(60, partition)
            served.work(Counting(), partition, partition, [rows], count_labels=counted)
    finally:
        served.close()
    assert len(of(LabelsSkewed, events)) == counted


@pytest.mark.parametrize("labels", [(-1, 1), (-(2**63), 2**63 - 1), (-7, -5)])
def test_a_worker_trains_whatever_numbers_its_labels_are(labels: tuple[int, int]) -> None:
    training, events = counting_training(partitions=2)
    served = Served(training)
    try:
        for partition, label in enumerate(labels):
            rows = numbers(60), np.full(60, label)
            served.work(Counting(), partition, partition, [rows], count_labels=True)
    finally:
        served.close()
    (told,) = of(LabelsSkewed, events)
    assert f"have label {labels[0]}" in told.text or f"have label {labels[1]}" in told.text
