"""Spark Connect, with which nothing can be trained."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ConnectError

_WHY = (
    "a Spark Connect session (sc://...), which sends queries to a server and has no SparkContext: "
    "it has no RDDs, and cannot run the tasks that train. Connect to the cluster itself instead, "
    'tos.connect("spark://host:7077"), yarn, k8s://... or local[*], and read the data there'
)


def refuse_remote(value: Any) -> None:
    """Refuse what belongs to a Spark Connect session.

    Raises
    ------
    ConnectError
        It does.
    """
    if type(value).__module__.startswith("pyspark.sql.connect"):
        raise ConnectError(f"This {type(value).__name__} belongs to {_WHY}.")


def refuse_remote_process() -> None:
    """Refuse to start a Spark in a process that has, or is set up for, Spark Connect.

    Raises
    ------
    ConnectError
        It does.
    """
    for name in ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"):
        if name in os.environ:
            raise ConnectError(
                f"{name} is set: this process uses {_WHY}, in a process without {name}."
            )
