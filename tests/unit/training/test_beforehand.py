"""What a model that is built cannot be trained with is refused before Spark starts."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import tos_notebook as tos
from tos_notebook.data.chosen import chosen
from tos_notebook.errors import ConfigError, DataError, ShapeMismatch
from tos_notebook.training.beforehand import require_trainable
from tos_notebook.training.options import SessionOptions, for_one_run

X, Y = np.zeros((4, 2), np.float32), np.zeros(4, np.int64)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})


def model(*metrics: Any, **compiled: Any) -> Any:
    made = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, activation="softmax")])
    made.compile("sgd", "sparse_categorical_crossentropy", metrics=[*metrics], **compiled)
    return made


def doubled(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.mean(y_pred) * 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keep_best": "val_acc:max"}, "keep_best: .* val_loss, val_accuracy; got 'val_acc'"),
        ({"stop_when": "acuracy > 0.9"}, "stop_when: expected one of loss, accuracy, .*'acuracy'"),
        ({"stop_when": "val_recall > 0.9"}, "stop_when: expected one of val_loss, val_accuracy;"),
        (
            {"callbacks": [keras.callbacks.EarlyStopping("val_acc")]},
            r"callbacks: EarlyStopping\(monitor='val_acc'\): expected one of",
        ),
    ],
)
@pytest.mark.parametrize("validation", [{"validation_data": (X, Y)}, {"validation_split": 0.5}])
def test_a_metric_that_the_model_was_not_compiled_with_is_refused_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    message: str,
    validation: dict[str, Any],
) -> None:
    monkeypatch.setattr("tos_notebook.surface.active_context", lambda: None)
    monkeypatch.setattr("tos_notebook.surface.connect", lambda **_: pytest.fail("It starts."))
    with pytest.raises(ConfigError, match=f"^{message}"):
        tos.fit(model("accuracy"), (X, Y), verbose=False, **given, **validation)


def unbuilt() -> Any:
    made = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    made.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return made


@pytest.mark.parametrize(
    ("data", "given", "error", "message"),
    [
        ((X, Y[:2]), {}, ShapeMismatch, "Expected arrays with the same number of rows"),
        (X, {}, ShapeMismatch, "Expected records of 2 fields"),
        (3, {}, DataError, "Expected training data as"),
        ((X, Y + 3), {}, DataError, "Row 0"),
        ((X, Y), {"validation_data": 3}, DataError, "validation_data: expected rows as"),
        (
            (X, Y),
            {"validation_data": (X,)},
            ShapeMismatch,
            "validation_data: expected records of 2",
        ),
        ((X, Y), {"validation_data": (X[:, :1], Y)}, ShapeMismatch, "validation_data: feed"),
        (
            (X, Y),
            {"validation_data": (X, Y), "validation_on": "executors"},
            ConfigError,
            "validation_on: expected an RDD or columns of a DataFrame for 'executors', got arrays",
        ),
        ((X, Y), {"stop_when": "nope > 3"}, ConfigError, "stop_when: expected one of loss"),
        ((X, Y), {"learning_rate": lambda: 1}, ConfigError, "learning_rate: expected a number"),
        (
            (X, Y),
            {"partitioner": tos.partitioners.RandomPartitioner(2), "partitions": 3},
            ConfigError,
            r"partitions: expected 2, as many as partitioner=RandomPartitioner\(2, .*; got 3",
        ),
    ],
)
@pytest.mark.parametrize("make", [lambda: model("accuracy"), unbuilt])
def test_rows_that_the_driver_holds_are_looked_at_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
    make: Any,
    data: Any,
    given: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    """So are the options of a model whose weights only such rows can make."""
    monkeypatch.setattr("tos_notebook.surface.active_context", lambda: None)
    monkeypatch.setattr("tos_notebook.surface.connect", lambda **_: pytest.fail("It starts."))
    with pytest.raises(error, match=f"^{message}"):
        tos.fit(make(), data, verbose=True, **given)


def test_other_rows_are_left_to_spark() -> None:
    made = unbuilt()
    assert require_trainable(made, {}, lambda context: None).program is made


TEXT = np.array(["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("data", "given", "error", "message"),
    [
        (([[0.0, 1.0]], [0, 1]), {}, ShapeMismatch, "Expected arrays with the same number of rows"),
        (([[0.0, 1.0], [2.0]], [0, 1]), {}, ShapeMismatch, "Feed .*: expected rows of one shape"),
        (([[0.0, None]], [0]), {}, DataError, "Feed .*: expected numbers or text in each row"),
        (([[0.0, 1.0]], [7]), {}, DataError, "Row 0"),
        ((TEXT, Y), {}, ShapeMismatch, "Feed .*: expected rows of float32"),
        ((X, TEXT[:2]), {}, ShapeMismatch, "Expected arrays with the same number of rows"),
        (FRAME, {"label": "nope"}, DataError, "The data have no column 'nope'"),
        (FRAME, {"features": ["a"], "label": "y"}, ShapeMismatch, "Feed .*: expected rows of"),
        (tf.data.Dataset.from_tensor_slices(X), {}, ShapeMismatch, "Expected records of 2 fields"),
        (
            tf.data.Dataset.from_tensor_slices((X[:, :1], Y)).batch(2),
            {},
            ShapeMismatch,
            "Feed .*: expected rows of float32",
        ),
        (tf.data.Dataset.from_tensors((X[0], Y[0])).repeat(), {}, DataError, "Expected a dataset "),
        ((X, Y), {"validation_data": ([[1.0]], [0])}, ShapeMismatch, "validation_data: feed"),
        (
            (X, Y),
            {"validation_data": tf.data.Dataset.from_tensor_slices((X[:, :1], Y))},
            ShapeMismatch,
            "validation_data: feed",
        ),
    ],
)
def test_lists_tables_text_and_datasets_are_looked_at_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
    data: Any,
    given: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.setattr("tos_notebook.surface.active_context", lambda: None)
    monkeypatch.setattr("tos_notebook.surface.connect", lambda **_: pytest.fail("It starts."))
    with pytest.raises(error, match=f"^{message}"):
        tos.fit(model("accuracy"), data, verbose=True, **given)


def test_rows_that_the_driver_holds_are_converted_once() -> None:
    lists = require_trainable(model(), {}, (X.tolist(), Y.tolist()))
    table = require_trainable(model(), {}, chosen(FRAME, ["a", "b"], "y"))
    for known in (lists, table):
        assert [type(part) for part in known.data] == [np.ndarray] * 2
        np.testing.assert_array_equal(known.data[0], X)
    arrays = require_trainable(model(), {"validation_data": (X, Y)}, (X, Y))
    assert arrays.data[0] is X
    assert arrays.validation[0] is X


@pytest.mark.parametrize(
    ("metrics", "names"),
    [
        ((), ("loss",)),
        (("acc", doubled), ("loss", "acc", "doubled")),
        ((keras.metrics.SparseCategoricalAccuracy(name="off"),), ("loss", "off")),
        (("mse", "mse"), None),
    ],
)
def test_names_are_those_that_keras_gives(metrics: tuple[Any, ...], names: Any) -> None:
    made = model(*metrics)
    assert tos.capture(made).expected_names() == names
    if names is not None:
        made.evaluate(X, Y, verbose=0)
        assert tuple(made.get_metrics_result()) == names
        assert tos.capture(made).expected_names() == names


def test_names_that_only_keras_makes_are_not_guessed() -> None:
    assert tos.capture(model("acc", weighted_metrics=["acc"])).expected_names() is None
    assert tos.capture(model(keras.metrics.SparseCategoricalAccuracy)).expected_names() is None


def test_an_option_of_one_run_replaces_the_sessions() -> None:
    asked = SessionOptions(combiner="easgd", sync="ssp:3", codec="int8", batch_size=7)
    found = for_one_run(asked, {"batch_size": 9, "sync_interval": 4})
    assert (found.batch_size, found.sync_interval, found.combiner.name) == (9, 4, "easgd")
    other = for_one_run(asked, {"strategy": "allreduce"})
    assert (str(other.sync), other.combiner, str(other.codec)) == ("bsp", None, "int8")
    assert for_one_run(asked, {"strategy": "ps"}).combiner.name == "easgd"
    with pytest.raises(ConfigError, match="combiner"):
        for_one_run(asked, {"strategy": "allreduce", "combiner": "easgd"})
