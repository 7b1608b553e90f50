"""What a worker tells of errors, and whom."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.unit.worker.support import center, counting_training, join, numbers, of
from tos_notebook.archive.spec import FeedSpec
from tos_notebook.common import tracebacks
from tos_notebook.common.arrays import Array
from tos_notebook.common.tracebacks import describe
from tos_notebook.errors import (
    ConnectionClosed,
    DataError,
    NonFiniteUpdate,
    RemoteProtocolError,
    ShapeMismatch,
    WorkerError,
)
from tos_notebook.events import UpdateSkipped, WorkerFailed, WorkerLost
from tos_notebook.strategies.ps.exchange import exchange
from tos_notebook.transport.auth import new_secret
from tos_notebook.widgets.failure import failure as in_view
from tos_notebook.wire.messages import Directive, Failed, Finish, Joined, Proceed, Rows
from tos_notebook.wire.settings import WorkerSettings
from tos_notebook.worker.exchange import WorkerContext
from tos_notebook.worker.loading import fetch
from tos_notebook.worker.loop import Worker
from tos_notebook.worker.plan import Plan

USERS_CODE = """
import json

def step(number):
    if number == 2:
        inner(number)

def inner(number):
    raise ZeroDivisionError(f"batch {number}")

def rows(array):
    yield (array[:2],)
    raise KeyError("no such file")

def endless(depth=0):
    return endless(depth + 1)

def parse():
    json.loads("[")
"""


@pytest.fixture
def users(tmp_path: Path) -> ModuleType:
    """A module outside the package, in a folder that bears the package's name."""
    path = tmp_path / "tos_notebook" / "users.py"
    path.parent.mkdir()
    path.write_text(USERS_CODE)
    spec = importlib.util.spec_from_file_location("users", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["inproc", "tcp"])
def test_the_program_s_error_comes_with_the_user_s_frames_first(
    serve: Any, users: ModuleType, kind: str
) -> None:
    training, events = counting_training(rows=9)
    program = Counting()
    program.on_batch = users.step
    with pytest.raises(ZeroDivisionError):
        serve(training, kind).work(program, task=205, columns=1)

    (error,) = training.failures
    assert isinstance(error, WorkerError)
    assert error.message == "ZeroDivisionError: batch 2"
    assert (error.partition, error.attempt, error.executor) == (0, 2, "executor-205")
    at = [frame for frame in error.frames if "users.py" in frame]
    assert "in step" in at[0]
    assert "inner(number)" in at[0]
    assert "in inner" in at[1]
    assert "raise ZeroDivisionError" in at[1]
    theirs = [i for i, frame in enumerate(error.frames) if "worker/loop.py" in frame]
    assert theirs
    assert min(theirs) > max(error.frames.index(frame) for frame in at)
    (event,) = of(WorkerFailed, events)
    assert (event.message, event.frames) == (error.message, error.frames)
    # It left in order, after having told.
    assert not of(WorkerLost, events)
    assert training.machine.active


class Refusing(Counting):
    """Raises at a row's value, or once so many rows were counted."""

    def __init__(self, value: float = np.inf, rows: float = np.inf) -> None:
        super().__init__()
        self.value, self.rows = value, rows

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        if self.value in batch[0] or parameters["rows"] >= self.rows:
            raise ValueError("refused")
        return super().step(parameters, batch)


@pytest.mark.parametrize(
    ("program", "batches"),
    [(Refusing(value=8), (7, 7)), (Refusing(rows=8), (5, 9)), (Refusing(value=10), (9, 9))],
    ids=["a row", "the parameters", "the last row"],
)
def test_the_batch_that_the_program_refuses_is_found_among_those_of_a_milestone(
    serve: Any, program: Refusing, batches: tuple[int, int]
) -> None:
    training, events = counting_training(rows=12, sync_interval=5)
    with pytest.raises(ValueError, match="refused"):
        serve(training).work(program, columns=1)
    (error,) = training.failures
    assert (error.epoch, error.batches) == (0, batches)
    (event,) = of(WorkerFailed, events)
    assert (event.epoch, event.batches) == (0, batches)
    assert center(training) == {"total": 15.0, "rows": 5}


def test_an_error_of_the_data_is_told_like_one_of_the_program(
    serve: Any, users: ModuleType
) -> None:
    training, _ = counting_training()
    with pytest.raises(KeyError):
        serve(training).work(Counting(), blocks=users.rows(numbers(4)))
    (error,) = training.failures
    assert error.message == "KeyError: 'no such file'"
    assert error.batches == ()
    assert "in rows" in next(frame for frame in error.frames if "users.py" in frame)


def test_an_error_of_ours_that_the_data_raised_is_told_too(serve: Any) -> None:
    def blocks() -> Iterator[Any]:
        raise ShapeMismatch("record 3 has another shape")
        yield

    training, _ = counting_training()
    with pytest.raises(ShapeMismatch):
        serve(training).work(Counting(), blocks=blocks())
    assert training.failures[0].message == "ShapeMismatch: record 3 has another shape"


def test_bad_rows_are_an_error_of_the_data_whatever_process_saw_them_first(serve: Any) -> None:
    training, events = counting_training()

    def blocks() -> Any:
        raise DataError("Column 'n', partition 0, row 3: expected float64, got nan.")
        yield

    served = serve(training)
    for task in (0, 1):
        with pytest.raises(DataError):
            served.work(Counting(), task=task, blocks=blocks())
    error = training.error
    assert isinstance(error, DataError)
    assert str(error).startswith("Column 'n', partition 0, row 3: expected float64, got nan.  [on ")
    assert isinstance(error.__cause__, WorkerError)
    assert error.__cause__.message.startswith("DataError: Column 'n'")
    # Not where this package raised it.
    assert not any("tos_notebook" in frame for frame in error.__cause__.frames)
    assert (
        failure_of(events)
        == "DataError: Column 'n', partition 0, row 3: expected float64, got nan."
    )


def failure_of(events: list[Any]) -> str:
    """Return what a view shows of the last failure, and that it knows where it was."""
    event = of(WorkerFailed, events)[-1]
    shown = in_view(event, event.message.partition(": ")[2] + "  [on executor 1]")
    assert shown["where"]
    return str(shown["message"])


def test_the_same_failure_twice_in_one_partition_ends_the_run(
    serve: Any, users: ModuleType
) -> None:
    cancelled: list[str] = []
    training, _ = counting_training(
        partitions=2, rows=20, on_failure=lambda: cancelled.append("job")
    )
    served = serve(training)
    for partition, task in ((0, 0), (1, 1)):
        program = Counting()
        program.on_batch = users.step
        with pytest.raises(ZeroDivisionError):
            served.work(program, partition, task=task, columns=1)
        assert training.machine.active
    # Two batches were committed before: the second attempt fails at its first one.
    again = Counting()
    again.on_batch = lambda number: users.inner(2)
    with pytest.raises(ZeroDivisionError):
        served.work(again, 1, task=102, columns=1)
    assert training.machine.state == "failed"
    assert isinstance(training.error, WorkerError)
    assert (training.error.partition, training.error.attempt) == (1, 1)
    assert cancelled == ["job"]


def test_a_server_that_is_gone_does_not_hide_the_user_s_error(serve: Any) -> None:
    training, _ = counting_training(rows=3)
    served = serve(training)
    connection = served.connect()

    def fail(number: int) -> None:
        connection.abort()
        raise ValueError("the user's")

    program = Counting()
    program.on_batch = fail
    with pytest.raises(ValueError, match="the user's"):
        served.work(program, columns=1, connection=connection)


def test_a_lost_connection_is_no_failure_of_the_program(serve: Any) -> None:
    training, _ = counting_training(rows=3)
    served = serve(training)
    connection = served.connect()
    program = Counting()
    program.on_batch = lambda number: connection.abort()
    with pytest.raises(ConnectionClosed):
        served.work(program, columns=1, connection=connection)
    assert not training.failures


@pytest.mark.parametrize("kind", ["inproc", "tcp"])
def test_an_update_that_is_not_finite_ends_the_run_and_leaves_the_center(
    serve: Any, kind: str
) -> None:
    training, _ = counting_training(rows=4)
    program = Diverging(value=3)
    serve(training, kind).work(program, blocks=[(numbers(4),)])
    assert training.machine.state == "failed"
    assert isinstance(training.error, NonFiniteUpdate)
    assert "'total'" in str(training.error)
    assert "Lower the learning rate" in str(training.error)
    assert center(training) == {"total": 3.0, "rows": 2}
    assert len(program.batches) == 3


class Diverging(Counting):
    """Learns infinity from a row that is finite itself."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        if self.value in batch[0]:
            parameters["total"] += np.inf
        return super().step(parameters, batch)


@pytest.mark.parametrize("kind", ["inproc", "tcp"])
def test_a_row_that_is_not_finite_is_named_in_place_of_the_learning_rate(
    serve: Any, kind: str
) -> None:
    rows = numbers(12)
    rows[[7, 9]] = np.nan, np.inf
    training, _ = counting_training(partitions=2, columns=(rows,), sync_interval=2)
    serve(training, kind).work(Counting(), 1, columns=1, shuffle=True, batch_size=3)
    assert isinstance(training.error, DataError)
    assert "Row 7 of the arrays (partition 1, row 1), feed 'row'" in str(training.error)
    assert "got nan (as in 1 more rows of this milestone)" in str(training.error)
    assert "learning rate" not in str(training.error)
    cause = training.error.__cause__
    assert isinstance(cause, WorkerError)
    assert (cause.partition, cause.epoch) == (1, 0)
    assert cause.message == f"DataError: {training.error}"


def test_a_row_that_has_no_number_of_the_user_s_is_named_by_its_values(serve: Any) -> None:
    training, _ = counting_training()
    assert training.state.span is not None
    training.state.span.source.number = lambda partition, row: None  # type: ignore[method-assign]
    rows = np.array([1.0, np.nan, 3.0]), np.arange(30.0).reshape(3, 10)
    program = Counting()
    wide = FeedSpec("wide", "float64", (10,))
    program.spec = replace(program.spec, feeds=(*program.spec.feeds, wide))
    serve(training).work(program, blocks=[rows])
    error = str(training.error)
    assert (
        "Partition 0, row 1 of the rows as dealt to the worker, perhaps not in your order" in error
    )
    assert "got nan in the record row=nan, wide=[10., 11., 12., ..., 17., 18., 19.]" in error


def test_a_number_too_large_for_the_program_is_named_as_such(serve: Any) -> None:
    training, _ = counting_training()
    program = Diverging(1e300)
    program.spec = replace(program.spec, feeds=(FeedSpec("row", "float32", ()),))
    serve(training).work(program, blocks=[(np.array([1.0, 1e300]),)])
    with pytest.raises(DataError, match=r"row 1\), .* got 1e\+300, too large for float32"):
        raise training.error or AssertionError


@pytest.mark.parametrize("kind", ["inproc", "tcp"])
def test_or_it_is_left_out_and_training_goes_on_from_the_center(serve: Any, kind: str) -> None:
    training, events = counting_training(rows=4, non_finite="skip")
    rows = np.array([1, np.inf, 3, np.nan, 5])
    serve(training, kind).work(Counting(), blocks=[(rows,)])
    assert center(training) == {"total": 9.0, "rows": 3}
    skipped = of(UpdateSkipped, events)
    assert [event.sequence for event in skipped] == [1, 3]
    for event, number, value in zip(skipped, (1, 3), ("inf", "nan"), strict=True):
        found = f"finite numbers, got {value} in the record row={value}."
        assert f"row {number}), feed 'row': expected {found}" in event.reason
    assert training.error is None


@pytest.mark.parametrize("rows", [[0, 0], [0, 3]])
def test_a_run_whose_partitions_are_all_empty_ends_with_an_error(
    serve: Any, rows: list[int]
) -> None:
    training, _ = counting_training(partitions=2, epochs=2)
    served = serve(training)
    for partition, count in enumerate(rows):
        served.work(Counting(), partition, partition, blocks=[(numbers(count),)])
    if any(rows):
        assert training.error is None
        return
    assert isinstance(training.error, DataError)
    assert "Epoch 1: expected at least one row to train on, got none" in str(training.error)


# -- describe ---------------------------------------------------------------------------


def _error(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("it did not raise")


def test_frames_of_the_standard_library_are_not_the_user_s(users: ModuleType) -> None:
    message, frames = describe(_error(users.parse))
    assert message.startswith("JSONDecodeError: Expecting value")
    last = [frame for frame in frames if "users.py" in frame][-1]
    assert "json.loads" in last
    assert all(
        str(Path(json.__file__).parent) in frame for frame in frames[frames.index(last) + 1 :]
    )
    assert len(frames) > frames.index(last) + 1


def test_an_endless_recursion_still_fits_into_a_message(users: ModuleType) -> None:
    message, frames = describe(_error(users.endless))
    assert message.startswith("RecursionError")
    assert len(frames) <= tracebacks.OWN + tracebacks.DETAILS
    assert "endless(depth + 1)" in frames[0]


def test_a_text_without_end_is_cut(users: ModuleType) -> None:
    message, _ = describe(ValueError("x" * 10_000_000))
    assert message == "ValueError: " + "x" * (tracebacks.MAX_TEXT - len("ValueError: "))


# -- a server that breaks the protocol --------------------------------------------------


class Scripted:
    """A connection that answers as it was told to."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.heard: list[Any] = []

    def request(
        self, message: Any, payload: Any = None, into: Any = None, meanwhile: Any = None
    ) -> Any:
        self.heard.append(message)
        answer = self._answers.pop(0)
        if into is not None and answer[1] is not None:
            into[:] = 0
        return answer

    def close(self) -> None:
        self._answers.clear()

    abort = close


def _joined(directive: Directive = Directive.WAIT) -> Joined:
    settings = WorkerSettings(1, None, {"pushes": "delta", "codec": "fp32"})
    return Joined(0, 0, 0, 0, settings, 0, directive, shared=False)


GO = Proceed(Directive.GO, 0, None, version=0)
KNOWN = Proceed(Directive.WAIT, 0, None)
"""What is said to the rows of a worker."""


def worker(connection: Scripted) -> Worker:
    moves = exchange(connection, Counting().spec.layout, WorkerContext(join(), new_secret()))  # type: ignore[arg-type]
    return Worker(connection, moves, Counting(), Plan("run", 0, False, 1, 0), join())


def _run(connection: Scripted) -> None:
    worker(connection).run([(numbers(1),)])


@pytest.mark.parametrize(
    "answers",
    [
        [(GO, None)],
        [(_joined(Directive.GO), None)],
        [(_joined(), None), (_joined(), None)],
        [(_joined(), None), (KNOWN, None), (_joined(), None)],
        [(_joined(), None), (KNOWN, None), (GO, None)],
        [(_joined(), None), (KNOWN, None), (GO, memoryview(bytes(16))), (_joined(), None)],
    ],
    ids=[
        "no Joined",
        "no time to load",
        "no word on rows",
        "no Proceed",
        "no parameters",
        "no Reply",
    ],
)
def test_an_answer_out_of_place_is_an_error_that_the_server_need_not_hear(answers: Any) -> None:
    connection = Scripted(*answers)
    with pytest.raises(RemoteProtocolError, match="Expected"):
        _run(connection)
    assert not any(isinstance(message, Failed) for message in connection.heard)


@pytest.mark.parametrize("directive", [Directive.STOP, Directive.LEAVE])
def test_a_worker_that_may_not_begin_does_not_read_its_data(directive: Directive) -> None:
    connection = Scripted((_joined(directive), None))

    def unread() -> Iterator[Any]:
        raise AssertionError("read")
        yield

    worker(connection).run(unread())
    assert not any(isinstance(message, Finish) for message in connection.heard)


class Telling:
    """A connection whose server answers everything with one column."""

    def __init__(self, rows: Rows, payload: bytes) -> None:
        self._answer = rows, memoryview(payload)

    def request(self, message: Any, *_: Any, **__: Any) -> Any:
        return self._answer


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"),
    [
        ("<f4", [3], 8),
        ("<f4", [2], 7),
        ("<f3", [1], 3),
        (",", [1], 4),
        ("|O8", [1], 8),
        ("", [1], 8),
    ],
)
def test_a_column_that_is_none_is_the_servers_fault(
    dtype: str, shape: list[int], nbytes: int
) -> None:
    connection: Any = Telling(Rows(dtype, shape), bytes(nbytes))
    with pytest.raises(RemoteProtocolError, match="Column 5"):
        fetch(connection, 5)
