"""What Java says when a call into Spark fails, without its stack."""

from __future__ import annotations

WAITED = "Exception thrown in awaitResult"


CAUSE = "Caused by: "


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
    while java is not None:
        text, cause = str(java.getMessage() or java.toString()), java.getCause()
        if cause is None or not text.startswith(WAITED):
            return text
        # Java's own threads wrap what one of them raised.
        java = cause
    return str(error)


def reason(error: BaseException) -> str:
    """Return the first line of what is said, and what it was caused by in the first place."""
    lines = java_text(error).strip().splitlines()
    causes = [line for line in lines[1:] if line.startswith(CAUSE)]
    return " ".join([*lines[:1], *causes[-1:]]) or type(error).__name__
