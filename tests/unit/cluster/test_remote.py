"""Rows, groups and notes of Spark Connect, over a server that is a list of partitions."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.cluster.backend import backend_of, spark_context
from tos_notebook.cluster.jobs import cancel, cancellation, run_job
from tos_notebook.cluster.remote.address import address_of
from tos_notebook.cluster.remote.context import RemoteContext
from tos_notebook.cluster.remote.rows import RemoteRows, _spark_hash, lanes_to
from tos_notebook.errors import ClusterUnreachable


class Frame:
    """A DataFrame: partitions of Arrow batches, made when they are asked for."""

    def __init__(self, session: Session, make: Callable[[], list[list[Any]]]) -> None:
        self.session, self.make = session, make
        self.stored = False

    def mapInArrow(self, call: Any, schema: Any) -> Frame:
        def made() -> list[list[Any]]:
            found = []
            for number, batches in enumerate(self.make()):
                self.session.partition = number
                found.append(list(call(iter(batches))))
            return found

        return Frame(self.session, made)

    def repartition(self, partitions: int, column: str) -> Frame:
        def made() -> list[list[Any]]:
            targets: list[list[Any]] = [[] for _ in range(partitions)]
            for batches in self.make():
                for batch in batches:
                    for row in range(batch.num_rows):
                        lane = batch.column(column)[row].as_py()
                        targets[_spark_hash(lane) % partitions].append(batch.slice(row, 1))
            # As a shuffle delivers: in any order.
            return [list(reversed(each)) for each in targets]

        return Frame(self.session, made)

    def persist(self, level: Any) -> Frame:
        self.stored = True
        self.session.stored.add(self)
        return self

    def unpersist(self, blocking: bool = False) -> Frame:
        self.session.stored.discard(self)
        return self

    def toArrow(self) -> Any:
        self.session.jobs.append(set(self.session.tags))
        self.session.running()
        batches = [batch for each in self.make() for batch in each]
        kinds = [("lane", pa.int32()), ("note", pa.bool_()), ("value", pa.binary())]
        return pa.Table.from_batches(batches, pa.schema(kinds))


class Session:
    """A session of Spark Connect, as far as `RemoteContext` uses one."""

    def __init__(self) -> None:
        self.partition = 0
        self.tags: set[str] = set()
        self.jobs: list[set[str]] = []
        self.interrupted: list[str] = []
        self.stored: set[Frame] = set()
        self.is_stopped = False
        self.running: Callable[[], object] = lambda: None
        builder = type("Builder", (), {"endpoint": "h:15002", "secure": False})()
        self.client = type("Client", (), {"_builder": builder})()

    def range(self, start: int, end: int, step: int, partitions: int) -> Frame:
        batches = [[pa.RecordBatch.from_pydict({"id": [n]})] for n in range(start, end)]
        return Frame(self, lambda: batches)

    def addTag(self, tag: str) -> None:
        self.tags.add(tag)

    def removeTag(self, tag: str) -> None:
        self.tags.discard(tag)

    def interruptTag(self, tag: str) -> None:
        self.interrupted.append(tag)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    made = Session()
    place = type("Place", (), {"partitionId": lambda self: made.partition})()
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: place)
    return made


@pytest.fixture
def context(session: Session) -> RemoteContext:
    return RemoteContext(session)


def test_the_context_answers_for_itself_and_knows_where_its_server_is(
    context: RemoteContext,
) -> None:
    assert backend_of(context) is context
    assert spark_context(context) is context
    assert (context.master, context.host, context.port) == ("sc://h:15002", "h", 15002)
    assert address_of("[::1]:7") == ("::1", 7)
    assert address_of("h") == ("h", 15002)


def test_values_and_calls_are_those_of_an_rdd(context: RemoteContext) -> None:
    rows = context.parallelize(range(7), 3)
    assert rows.getNumPartitions() == 3
    assert rows.map(lambda n: n * n).collect() == [n * n for n in range(7)]
    assert rows.mapPartitions(lambda values: [list(values)]).collect() == [
        *([0, 1], [2, 3], [4, 5, 6])
    ]
    assert rows.mapPartitionsWithIndex(lambda p, values: [p]).collect() == [0, 1, 2]
    assert rows.flatMap(range).count() == sum(range(7))
    assert rows.treeAggregate(0, lambda a, b: a + b, lambda a, b: a + b) == 21
    assert context.runJob(rows, lambda values: [sum(values)], [2, 0]) == [15, 1]


@given(st.integers(1, 40))
def test_a_lane_leads_to_its_partition(partitions: int) -> None:
    lanes = lanes_to(partitions)
    assert [_spark_hash(lane) % partitions for lane in lanes] == list(range(partitions))


def test_the_hash_is_sparks() -> None:
    """What ``SELECT hash(0), hash(1)`` says."""
    assert [_spark_hash(number) for number in (0, 1)] == [933211791, -559580957]


def test_pairs_are_where_they_are_to_be_and_stay_until_they_are_released(
    context: RemoteContext, session: Session
) -> None:
    pairs = context.parallelize(range(20), 4).map(lambda n: (n % 3, n))
    found = pairs.partitionBy(3, int)
    assert len(session.stored) == 1
    each = found.mapPartitionsWithIndex(lambda p, values: [(p, sorted(n for _, n in values))])
    assert each.collect() == [(p, list(range(p, 20, 3))) for p in range(3)]
    found.unpersist()
    assert not session.stored


def test_partitions_of_a_users_frame_are_counted_once_and_stored(
    context: RemoteContext, session: Session
) -> None:
    frame = session.range(0, 3, 1, 3)
    rows = RemoteRows(context, frame).mapPartitions(
        lambda batches: [n for batch in batches for n in batch.column("id").to_pylist()]
    )
    assert rows.getNumPartitions() == rows.getNumPartitions() == 3
    assert (len(session.jobs), len(session.stored)) == (1, 1)
    assert rows.collect() == [0, 1, 2]
    rows.unpersist()
    assert not session.stored


class Union:
    """Joins what tasks have told."""

    def addInPlace(self, one: set[int], other: set[int]) -> set[int]:
        return one | other


def test_what_tasks_tell_arrives_also_from_behind_a_shuffle(context: RemoteContext) -> None:
    told = context.accumulator(set(), Union())

    def telling(partition: int, values: Any) -> Iterator[Any]:
        told_there = pickle.loads(pickle.dumps(told))
        yield from values
        told_there.add({partition})

    rows = context.parallelize(range(4), 2).mapPartitionsWithIndex(telling)
    assert rows.collect() == [0, 1, 2, 3]
    assert told.value == {0, 1}
    told.value = set()
    assert rows.map(lambda n: (n % 2, n)).partitionBy(2, int).count() == 4
    assert told.value == {0, 1}


def test_a_small_value_goes_with_its_function(context: RemoteContext) -> None:
    sent = context.broadcast([1, 2])
    assert context.parallelize(range(2), 2).map(lambda n: sent.value[n]).collect() == [1, 2]
    sent.destroy()


def test_a_group_is_a_tag_of_its_own_jobs_only(context: RemoteContext, session: Session) -> None:
    rows = context.parallelize(range(2), 2)
    run_job(context, lambda: rows, lambda p, values: values, "run-1", "")  # type: ignore[arg-type]
    context.setLocalProperty("spark.jobGroup.id", None)
    rows.collect()
    of_group, other = session.jobs
    assert "run-1" in of_group
    assert not other
    assert not session.tags


def test_a_canceled_group_is_interrupted_and_runs_nothing_more(
    context: RemoteContext, session: Session
) -> None:
    rows, began, heard = context.parallelize(range(2), 2), threading.Event(), threading.Event()

    def interrupt(tag: str) -> None:
        session.interrupted.append(tag)
        heard.set()

    def running() -> None:
        began.set()
        assert heard.wait(10)
        raise RuntimeError("the server says that it is canceled")

    session.interruptTag = interrupt  # type: ignore[method-assign]
    session.running = running
    errors: list[Exception] = []

    def job() -> None:
        for _ in range(2):
            try:
                run_job(context, lambda: rows, lambda p, v: v, "run-1", "")  # type: ignore[arg-type]
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=job)
    thread.start()
    assert began.wait(10)
    cancel(context, "run-1")  # type: ignore[arg-type]
    thread.join(10)
    assert session.interrupted[:1] == ["run-1"]
    assert [cancellation(error) is not None for error in errors] == [True, True]
    assert len(session.jobs) == 1


def test_a_task_that_is_killed_ends_its_job_once_by_an_error_that_says_why(
    context: RemoteContext, session: Session
) -> None:
    """A second kill does not end the job that has come in its place."""
    rows, heard = context.parallelize(range(2), 2), threading.Event()

    def interrupt(tag: str) -> None:
        session.interrupted.append(tag)
        heard.set()

    def running() -> None:
        context.kill(7, "run-1", "it stood still", 5.0)
        assert heard.wait(10)
        raise RuntimeError("the server says that it is canceled")

    session.interruptTag = interrupt  # type: ignore[method-assign]
    session.running = running
    with pytest.raises(ClusterUnreachable, match="ended task 7: it stood still"):
        run_job(context, lambda: rows, lambda p, v: v, "run-1", "")  # type: ignore[arg-type]
    session.running = lambda: context.kill(7, "run-1", "it stood still", 5.0)
    interrupted = len(session.interrupted)
    run_job(context, lambda: rows, lambda p, v: v, "run-1", "")  # type: ignore[arg-type]
    assert len(session.interrupted) == interrupted
    # However late it comes.
    assert session.jobs[0].isdisjoint(session.jobs[1] - {"run-1"})
    assert session.jobs[1].isdisjoint(session.interrupted)
