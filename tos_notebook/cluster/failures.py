"""What Java says when a call into Spark fails, without its stack."""

from __future__ import annotations


def java_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the exceptions that a call into Java raises, and others to catch with them.

    py4j's own; and PySpark's, into which it turns some kinds once there was a SparkSession.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return Py4JJavaError, PySparkException, *others


def java_text(error: BaseException) -> str:
    """Return all that is said, a Python worker's traceback included."""
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else str(java.getMessage() or java.toString())


def reason(error: BaseException) -> str:
    """Return the first line of what is said."""
    text = java_text(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
