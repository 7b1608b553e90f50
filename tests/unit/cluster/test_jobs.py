"""What ends a Spark job becomes one of our errors, without Java's stack."""

from __future__ import annotations

from pickle import PicklingError
from typing import Any
from unittest.mock import Mock

import pytest

from tos_notebook.cluster.jobs import cancel, cancellation, job_error, run_job, spoken
from tos_notebook.errors import (
    ClusterUnreachable,
    DataError,
    TosError,
    UnsupportedProgram,
    WorkerEnvironment,
    WorkerError,
)

LOST = (
    "Job aborted due to stage failure: Task 1 in stage 32.0 failed 4 times, most recent failure: "
    "Lost task 1.3 in stage 32.0 (TID 9) (10.0.0.7 executor 4): "
    "org.apache.spark.api.python.PythonException: "
)
TRACEBACK = """Traceback (most recent call last):
  File "/opt/venv/site-packages/pyspark/core/rdd.py", line 5292, in pipeline_func
    return func(split, prev_func(split, iterator))
                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ann/notebook.py", line 110, in open_nothing
    raise FileNotFoundError("no such file")
FileNotFoundError: no such file

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1097)
"""


def test_a_traceback_becomes_a_worker_error_with_the_users_frames_only() -> None:
    error = job_error(RuntimeError(LOST + TRACEBACK))
    assert isinstance(error, WorkerError)
    assert error.message == "FileNotFoundError: no such file"
    assert (error.executor, error.host, error.partition, error.attempt) == ("4", "10.0.0.7", 1, 3)
    assert "open_nothing" in error.frames[0]
    # Neither Java's, nor how PySpark has called it.
    assert len(error.frames) == 1


def test_a_traceback_without_its_task_is_still_a_worker_error() -> None:
    error = job_error(RuntimeError("\n  An exception was thrown:\n" + TRACEBACK))
    assert isinstance(error, WorkerError)
    assert error.partition == -1
    assert "[on an executor]" in str(error)


def test_the_task_is_known_although_pyspark_has_put_the_error_into_its_own_words() -> None:
    error = RuntimeError("\n  An exception was thrown from the Python worker.\n" + TRACEBACK)
    error._stackTrace = "org.apache.spark.SparkException: " + LOST  # type: ignore[attr-defined]
    found = job_error(error)
    assert isinstance(found, WorkerError)
    assert (found.executor, found.host, found.partition, found.attempt) == ("4", "10.0.0.7", 1, 3)


@pytest.mark.parametrize("cls", [ClusterUnreachable, WorkerEnvironment])
def test_our_own_errors_keep_their_class_and_text(cls: type[TosError]) -> None:
    text = TRACEBACK.replace("FileNotFoundError: no", f"tos_notebook.errors.{cls.__name__}: no")
    error = job_error(RuntimeError(LOST + text))
    assert type(error) is cls
    assert str(error) == "no such file"


def test_a_missing_package_is_named_with_what_to_do() -> None:
    text = "ModuleNotFoundError: No module named 'tos_notebook'"
    with pytest.raises(WorkerEnvironment, match="Install it there"):
        raise job_error(RuntimeError(LOST + text))


def test_a_module_of_this_package_that_was_not_sent_is_named() -> None:
    text = "ModuleNotFoundError: No module named 'tos_notebook.theory'"
    with pytest.raises(WorkerEnvironment, match=r"tos_notebook\.theory\. .*install this release"):
        raise job_error(RuntimeError(LOST + text))


DIVIDED = (
    "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return "
    "NULL instead. SQLSTATE: 22012\n== SQL (line 1, position 1) ==\n100 div (id-60)\n^^^^^^"
)


@pytest.mark.parametrize(
    ("text", "cls", "words"),
    [
        pytest.param(
            LOST.replace("PythonException", "x") + DIVIDED,
            DataError,
            "Spark could not make the rows: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to "
            "tolerate divisor being 0 and return NULL instead.",
            id="a condition",
        ),
        pytest.param(
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file f.parquet. "
            "File does not exist. SQLSTATE: KD001",
            DataError,
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file f.parquet.",
            id="a file that vanished",
        ),
        pytest.param(
            "Input path does not exist: file:/nowhere/x",
            DataError,
            "Spark could not read the data: Input path does not exist: file:/nowhere/x",
            id="no such path",
        ),
        pytest.param(
            "org.apache.arrow.memory.OutOfMemoryException: Failure allocating buffer.",
            DataError,
            "spark.sql.execution.arrow.maxRecordsPerBatch",
            id="Arrow's memory",
        ),
        pytest.param(
            "Could not serialize object: PySparkRuntimeError: [CONTEXT_ONLY_VALID_ON_DRIVER] It "
            "appears that you are attempting to reference SparkContext",
            UnsupportedProgram,
            "which exists on the driver only",
            id="a SparkSession in a closure",
        ),
        pytest.param(
            "Could not serialize object: TypeError: cannot pickle '_thread.lock' object",
            UnsupportedProgram,
            "cannot pickle '_thread.lock' object",
            id="a lock in a closure",
        ),
    ],
)
def test_what_spark_says_of_data_and_functions_is_no_fault_of_the_cluster(
    text: str, cls: type[TosError], words: str
) -> None:
    error = job_error(RuntimeError(text + "\n\tat org.apache.spark.x(Y.scala:1)"))
    assert type(error) is cls
    assert words in str(error)
    assert "scala" not in str(error)


class Java:
    """A Java exception, as py4j hands it out."""

    def __init__(self, message: str, cause: Java | None = None) -> None:
        self.message, self.cause = message, cause

    def getMessage(self) -> str:
        return self.message

    def getCause(self) -> Java | None:
        return self.cause


def test_what_one_of_java_s_threads_raised_for_another_is_what_counts() -> None:
    error = RuntimeError("An error occurred while calling o327.collectToPython.")
    lost = Java("Input path does not exist: x")
    error.java_exception = Java("Exception thrown in awaitResult: ", lost)  # type: ignore[attr-defined]
    assert str(job_error(error)) == "Spark could not read the data: Input path does not exist: x"


def test_bad_rows_are_a_data_error_with_the_worker_that_has_seen_them_as_its_cause() -> None:
    text = TRACEBACK.replace("FileNotFoundError: no", "tos_notebook.errors.DataError: no")
    error = job_error(RuntimeError(LOST + text))
    assert type(error) is DataError
    assert isinstance(error.__cause__, WorkerError)
    assert (error.__cause__.executor, error.__cause__.partition) == ("4", 1)


def test_bad_rows_have_a_worker_as_their_cause_although_spark_does_not_say_which() -> None:
    text = TRACEBACK.replace("FileNotFoundError: no", "tos_notebook.errors.DataError: no")
    error = job_error(RuntimeError("\n  An exception was thrown:\n" + text))
    cause = error.__cause__
    assert type(error) is DataError
    assert isinstance(cause, WorkerError)
    assert (cause.message, cause.partition) == ("DataError: no such file", -1)
    assert "open_nothing" in cause.frames[0]


def test_a_call_into_spark_raises_our_errors_only() -> None:
    with pytest.raises(UnsupportedProgram, match="open file"), spoken():
        raise PicklingError("Could not serialize object: TypeError: cannot pickle 'file'")
    with pytest.raises(KeyError), spoken():
        raise KeyError("the user's own")


def test_anything_else_is_the_first_line_that_spark_says() -> None:
    error = job_error(RuntimeError("Job 3 cancelled because SparkContext was shut down\n\tat x"))
    assert isinstance(error, ClusterUnreachable)
    assert str(error).endswith("Job 3 cancelled because SparkContext was shut down")


@pytest.mark.parametrize(
    "said",
    [
        "Job 0 cancelled as part of cancellation of all jobs",
        "Job 21 cancelled part of cancelled job group run-1",
        "Job 2 cancelled",
        "Job 5 cancelled because Stage 3 was cancelled",
        "Job 5 cancelled killed via the Web UI",
    ],
)
def test_a_job_that_was_cancelled_is_told_apart_in_spark_s_words(said: str) -> None:
    """As Spark 3 says it, and Spark 4."""
    assert cancellation(RuntimeError(said)) == said
    assert cancellation(RuntimeError(f"[SPARK_JOB_CANCELLED] {said} SQLSTATE: XXKDA")) == said


def test_a_call_whose_job_was_cancelled_is_no_fault_of_the_cluster() -> None:
    said = "Job 0 cancelled as part of cancellation of all jobs"
    error = job_error(RuntimeError(f"[SPARK_JOB_CANCELLED] {said} SQLSTATE: XXKDA\n\tat x"))
    assert type(error) is TosError
    assert str(error).startswith("The Spark job was canceled from outside")
    assert str(error).endswith(f"Spark says: {said}.")


def test_what_tensorflow_says_below_its_first_line_is_what_was_raised() -> None:
    said = (
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:\n\n"
        "Detected at node emb/GatherV2 defined at (most recent call last):\n"
        '  File "/home/ann/notebook.py", line 17, in build\n\n'
        "indices[0,0] = 50 is not in [0, 10)\n\t [[{{node emb/GatherV2}}]] [Op:__inference_3]\n"
    )
    text = TRACEBACK.replace("FileNotFoundError: no such file\n", said)
    error = job_error(RuntimeError(LOST + text))
    assert isinstance(error, WorkerError)
    assert error.message == "InvalidArgumentError: indices[0,0] = 50 is not in [0, 10)"


@pytest.mark.parametrize(
    "said", [LOST, LOST + TRACEBACK, "Job 3 cancelled because SparkContext was shut down"]
)
def test_what_else_ends_a_job_is_no_cancellation(said: str) -> None:
    assert cancellation(RuntimeError(said)) is None


def test_jobs_that_making_the_rdd_takes_can_be_cancelled_too() -> None:
    """They are begun when the group has been named."""
    calls = Mock()
    run_job(calls.sc, calls.make, calls.task, "run-1", "epoch 1")
    names = [name for name, *_ in calls.mock_calls]
    assert names[:2] == ["sc.setJobGroup", "make"]
    calls.make().mapPartitionsWithIndex.assert_called_once_with(calls.task)


class Stopped:
    """A Spark context of which only Java knows that it has stopped."""

    def __init__(self) -> None:
        self._jsc = self

    def sc(self) -> Stopped:
        return self

    def isStopped(self) -> bool:
        return True


def test_a_context_that_has_stopped_has_no_job_to_cancel() -> None:
    sc: Any = Stopped()
    cancel(sc, "group")
    sc._jsc = None
    cancel(sc, "group")


def test_what_a_failure_was_caused_by_is_told_with_it() -> None:
    text = (
        "Job aborted.\n\tat a\nCaused by: b.Worker: gone\n\tat c\nCaused by: d.End: no more\n\tat e"
    )
    assert str(job_error(ValueError(text))) == (
        "The Spark job failed: Job aborted. Caused by: d.End: no more"
    )


def test_what_spark_says_of_rows_is_a_data_error_with_the_worker_that_has_seen_them() -> None:
    error = job_error(RuntimeError(LOST + "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"))
    assert type(error) is DataError
    assert isinstance(error.__cause__, WorkerError)
    assert (error.__cause__.executor, error.__cause__.partition) == ("4", 1)
