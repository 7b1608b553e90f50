"""Rows that a later attempt finds must be those of the first one, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.unit.worker.support import Frail, center, counting_training, join, numbers
from tos_notebook.blocks.block import Columns
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.common.arrays import Array
from tos_notebook.common.content import content_of
from tos_notebook.coordination.job_span import DataLayout
from tos_notebook.data.arrays import ArraySource
from tos_notebook.data.stream import Stream
from tos_notebook.errors import DataError, RemoteProtocolError, TransportError
from tos_notebook.wire.messages import Directive, Loaded

ROWS, EPOCHS, BATCH = 11, 2, 2
PUSHES = 6
"""Of an epoch, one for each batch."""
EXACT = {"total": EPOCHS * numbers(ROWS).sum(), "rows": EPOCHS * ROWS}

OTHERS = {
    "order": numbers(ROWS)[::-1],
    "values": numbers(ROWS) + np.eye(1, ROWS, 7)[0],
    "fewer": numbers(ROWS)[:-1],
    "more": numbers(ROWS + 1),
    "none": numbers(0),
    "dtype": numbers(ROWS).astype(np.float32),
}
KINDS = ("held", "streamed")


@dataclass(frozen=True)
class Given(Stream):
    """A stream of given rows, without TensorFlow."""

    rows: Array

    def batches(self, epoch: int, seed: int, batch_size: int) -> Iterator[Columns]:
        for start in range(0, len(self.rows), batch_size):
            yield (self.rows[start : start + batch_size],)


def blocks(kind: str, rows: Array) -> list[Any]:
    """Return rows as Spark would hand them over."""
    return [(rows,)] if kind == "held" else [Given(lambda _: None, 0, 1, (), (), rows)]


def work(served: Any, kind: str, rows: Array, task: int = 0, **options: Any) -> Counting:
    program = Counting()
    served.work(program, task=task, blocks=blocks(kind, rows), batch_size=BATCH, **options)
    return program


def interrupted(serve: Any, kind: str, number: int) -> tuple[Any, Any]:
    """Return a run whose first attempt has died at a push, and its server."""
    training, _ = counting_training(rows=ROWS, epochs=EPOCHS)
    served = serve(training)
    with pytest.raises(TransportError):
        work(served, kind, numbers(ROWS), connection=Frail(served.connect(), number, True))
    return training, served


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(EPOCHS * PUSHES))
def test_an_attempt_that_finds_the_same_rows_continues(serve: Any, kind: str, number: int) -> None:
    training, served = interrupted(serve, kind, number)
    work(served, kind, numbers(ROWS), task=1)
    assert center(training) == EXACT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", OTHERS)
def test_an_attempt_that_finds_other_rows_ends_the_run_before_it_trains(
    serve: Any, kind: str, other: str
) -> None:
    training, served = interrupted(serve, kind, PUSHES - 1)
    before = center(training)
    assert before["rows"] == ROWS
    program = work(served, kind, OTHERS[other], task=1)
    assert program.batches == []
    assert center(training) == before
    assert isinstance(training.error, DataError)
    assert "Partition 0, epoch 1: expected" in str(training.error)
    assert not training.failures


def test_the_error_tells_rows_and_digests_and_what_to_do(serve: Any) -> None:
    training, served = interrupted(serve, "held", 0)
    span = training.state.span
    assert span is not None
    span.source.remedy = "Cache the data."
    work(served, "held", OTHERS["fewer"], task=1)
    expected, got = content_of((numbers(11),)), content_of((OTHERS["fewer"],))
    assert str(training.error) == (
        f"Partition 0, epoch 1: expected 11 rows with digest {expected.digest[:8]}, "
        f"got 10 rows with digest {got.digest[:8]}. A partition must hold the same rows in the "
        "same order at every attempt, in every epoch and after a resume. Cache the data."
    )


def test_another_tail_of_a_stream_is_found_by_its_count(serve: Any) -> None:
    """Its committed rows are the same: what comes later is new."""
    training, served = interrupted(serve, "streamed", PUSHES + 1)
    work(served, "streamed", numbers(ROWS + 1), task=1)
    assert "epoch 2: expected" in str(training.error)
    assert "expected 11 rows, got 12 rows" in str(training.error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_job_over_the_same_layout_must_bring_the_same_rows(serve: Any, kind: str) -> None:
    training, _ = counting_training(rows=ROWS, epochs=1)
    served = serve(training)
    work(served, kind, numbers(ROWS))
    training.begin_span(ArraySource((numbers(ROWS),), 1), 1, 1)
    work(served, kind, OTHERS["order"], task=1)
    # What a stream brings in another epoch is its own affair.
    assert (training.error is None) is (kind == "streamed")


def test_another_layout_may_bring_other_rows(serve: Any) -> None:
    training, _ = counting_training(rows=ROWS, epochs=1)
    served = serve(training)
    work(served, "held", numbers(ROWS))
    layout = DataLayout(1, RandomPartitioner(1), 1)
    training.begin_span(ArraySource((numbers(ROWS),), 1), 1, 1, layout)
    work(served, "held", OTHERS["order"], task=1)
    assert training.error is None
    assert center(training) == EXACT


def test_arrays_that_are_changed_in_place_end_the_run_at_the_next_attempt(serve: Any) -> None:
    training, _ = counting_training(rows=ROWS, epochs=1)
    served = serve(training)
    with pytest.raises(TransportError):
        served.work(Counting(), columns=1, connection=Frail(served.connect(), 0, True))
    span = training.state.span
    assert span is not None
    span.source.rows(0)[0][:] /= 255
    again = Counting()
    served.work(again, task=1, columns=1)
    assert again.batches == []
    assert "Do not change the arrays while the run trains on them." in str(training.error)


@pytest.mark.parametrize("message", [Loaded(-1, "0" * 32, False), Loaded(1, "0" * 31, False)])
def test_what_cannot_be_the_content_of_rows_is_refused(message: Loaded) -> None:
    training, _ = counting_training()
    member, _ = training.join(join(), False)
    with pytest.raises(RemoteProtocolError, match="Loaded: expected rows from 0 and 32 digits"):
        training.loaded(member, message)
    assert training.loaded(member, Loaded(1, "0" * 32, False)).directive is Directive.WAIT
