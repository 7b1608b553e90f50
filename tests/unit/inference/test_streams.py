"""A streaming DataFrame gets predictions as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tos_notebook.errors import DataError

SCHEMA = "id int, x array<float>"


@pytest.fixture
def stream(spark: Any, rows: Any, tmp_path: Path) -> Any:
    """Rows that come from files, two at most in each batch of the stream."""
    records = [(i, row.tolist()) for i, row in enumerate(rows)]
    frame = spark.createDataFrame(spark.sparkContext.parallelize(records, 3), SCHEMA)
    frame.write.parquet(str(tmp_path / "files"))
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2)
    return reader.parquet(str(tmp_path / "files"))


@pytest.fixture
def written(spark: Any) -> Iterator[Any]:
    """Write a stream to memory until no more comes, and return its rows."""
    queries = []

    def write(frame: Any) -> Any:
        sink = frame.writeStream.format("memory").queryName("scored")
        query = sink.trigger(availableNow=True).start()
        queries.append(query)
        query.awaitTermination()
        return spark.table("scored").orderBy("id").collect()

    yield write
    for query in queries:
        query.stop()
    spark.catalog.dropTempView("scored")


def test_a_stream_gets_a_column_of_predictions(
    stream: Any, written: Any, classifier: Any, rows: Any
) -> None:
    scored = tos.capture(classifier).predict(stream, "x")
    assert scored.isStreaming
    found = written(scored)
    assert [row.id for row in found] == list(range(len(rows)))
    expected = classifier.predict(rows, verbose=0)
    np.testing.assert_allclose([row.prediction for row in found], expected, rtol=1e-5)


def test_a_bad_row_of_a_stream_is_predicted_null(
    stream: Any, written: Any, classifier: Any
) -> None:
    holes = stream.selectExpr("id", "if(id % 10 = 0, null, x) as x")
    scored = tos.capture(classifier).predict(tos.columns(holes, "x", on_bad="skip"))
    found = written(scored)
    assert [row.id for row in found if row.prediction is None] == [0, 10, 20, 30, 40]


def test_a_stream_trains_and_measures_nothing(stream: Any, classifier: Any) -> None:
    data = tos.columns(stream, "x", "id")
    with pytest.raises(DataError, match="a DataFrame with an end, got a streaming one"):
        tos.capture(classifier).evaluate(data)


def test_a_stream_does_not_tell_lengths_or_means(stream: Any) -> None:
    import keras

    model = keras.Sequential([keras.Input((None,), name="x"), keras.layers.Lambda(lambda x: x)])
    with pytest.raises(DataError, match=r"have not come yet.*shapes=\{'x': \(28,\)\} or pad="):
        tos.load_model(model).predict(stream, "x")
    with pytest.raises(DataError, match="expected numbers for a streaming DataFrame"):
        tos.columns(stream, "id", fill={"id": "mean"})
