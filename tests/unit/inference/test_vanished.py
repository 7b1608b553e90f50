"""What Spark says of data that it cannot read is one of our errors, without Java's stack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tos_notebook.errors import DataError
from tos_notebook.inference import dataframe, dispatch, evaluate

MODEL = Mock(feeds=(), inputs=())


def _predict_rdd(data: Any, target: Path) -> None:
    dispatch.predict(MODEL, data, (), None, 16, target)


def _predict_frame(data: Any, target: Path) -> None:
    dataframe.predict_frame(MODEL, data, None, 16, target)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda data, target: evaluate.evaluate(MODEL, data, 16), id="evaluate"),
        pytest.param(_predict_rdd, id="rdd"),
        pytest.param(_predict_frame, id="frame"),
    ],
)
def test_files_that_vanished_are_an_error_of_the_data(
    use: Callable[[Any, Path], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    text = "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file f.parquet."
    vanished = Mock(side_effect=PySparkException(f"{text}\n\tat org.apache.spark.x(Y.scala:1)"))
    for module in (evaluate, dispatch):
        monkeypatch.setattr(module, "active_context", Mock())
        monkeypatch.setattr(module, "as_rows", vanished)
    data = Mock(known=Mock(return_value=None), looked_at=vanished, on_bad="raise")
    data.expressions.return_value = []
    with pytest.raises(DataError, match="could not make the rows") as caught:
        use(data, tmp_path)
    assert text in str(caught.value)
    assert "scala" not in str(caught.value)
