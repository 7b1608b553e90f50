"""The Spark that a call is given, by its parameter ``spark``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ConnectError
from .connect import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def given_spark(spark: Any) -> SparkSession:
    """Return the session that a call is given, or that is active; errors name the parameter.

    Parameters
    ----------
    spark : SparkSession, SparkContext or str; None
        See `connect`.

    Raises
    ------
    ConnectError
        See `connect`.
    """
    try:
        return connect(spark, warm_up=False)
    except ConnectError as error:
        text = str(error)
        if text.startswith("Expected "):
            error.args = (f"spark: {text[0].lower()}{text[1:]}",)
        raise
