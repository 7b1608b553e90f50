"""A SparkSession for DataFrames."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()
