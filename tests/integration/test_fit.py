"""`tos.fit`: one call from a model and data to a trained model, on the Spark that runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, classifier
from tests.support.watching import Watch
from tos_notebook.errors import ConfigError
from tos_notebook.events import MilestoneCommitted

LIMIT = 120.0


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No thread outlives a run: it has a session of its own, which ends with it."""
    before = {t for t in threading.enumerate() if t.name.startswith("tos-")}
    yield
    assert not {t for t in threading.enumerate() if t.name.startswith("tos-")} - before


def test_a_model_learns_and_has_its_weights_when_the_call_returns(
    spark_context: Any, digits: tuple[np.ndarray, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    x, y, x_test, y_test = digits
    model = classifier()
    run = tos.fit(model, (x, y), 4, batch_size=32, sync="sync", validation_data=(x_test, y_test))
    assert not run.active
    assert run.state == "finished"
    assert run.history["samples"].sum() == 4 * len(x)
    _, accuracy = model.evaluate(x_test, y_test, verbose=0)
    assert accuracy > 0.8
    assert run.validation["accuracy"].iloc[-1] == pytest.approx(accuracy)
    assert "epoch 4/4" in capsys.readouterr().out


def test_classes_count_as_they_are_weighted(
    spark_context: Any, digits: tuple[np.ndarray, ...]
) -> None:
    x, y, _, _ = digits
    model = classifier()
    before = model.get_weights()
    tos.fit(model, (x, y), class_weight=dict.fromkeys(range(10), 0.0), verbose=False)
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)
    tos.fit(model, (x, y), class_weight={0: 1.0}, verbose=False)
    assert any((a != b).any() for a, b in zip(model.get_weights(), before, strict=True))


def test_a_table_of_numbers_trains_a_model_without_an_input_layer(spark_context: Any) -> None:
    """Its columns are the one input, and the model's weights are made by how many there are."""
    import keras

    spark = tos.connect(spark_context, warm_up=False)
    rows = [(n / 100, -n / 100, n % 7, int(n > 50)) for n in range(100)]
    frame = spark.createDataFrame(rows, "a double, b double, c int, y int")
    model = keras.Sequential([keras.layers.Dense(4, "relu"), keras.layers.Dense(1, "sigmoid")])
    model.compile("sgd", "binary_crossentropy")
    run = tos.fit(model, frame, 2, features=["a", "b", "c"], label="y", verbose=False)
    assert model.layers[0].kernel.shape == (3, 4)
    table = run.epochs
    assert table["samples"].tolist() == [100, 100]
    predicted = run.predict(frame, features=["a", "b", "c"]).toPandas()
    assert list(predicted) == ["a", "b", "c", "y", "prediction"]
    expected = model.predict(predicted[["a", "b", "c"]].to_numpy("float32"), verbose=0)
    np.testing.assert_allclose(np.stack(predicted["prediction"]).reshape(-1, 1), expected, 1e-5)


def test_a_dataframe_is_given_with_the_names_of_its_columns(
    spark_context: Any, digits: tuple[np.ndarray, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    x, y, _, _ = digits
    spark = tos.connect(spark_context, warm_up=False)
    rows = [(row.tolist(), int(label)) for row, label in zip(x[:200], y, strict=False)]
    frame = spark.createDataFrame(rows, "pixels array<float>, digit long")
    run = tos.fit(classifier(), frame, features="pixels", label="digit", verbose=False)
    assert run.history["samples"].sum() == 200
    assert capsys.readouterr().out == ""


def test_a_dataframe_is_evaluated_by_the_same_columns(
    spark_context: Any, digits: tuple[np.ndarray, ...]
) -> None:
    x, y, _, _ = digits
    spark = tos.connect(spark_context, warm_up=False)
    rows = [(row.tolist(), int(label)) for row, label in zip(x[:200], y, strict=False)]
    frame = spark.createDataFrame(rows, "pixels array<float>, digit long")
    options: dict[str, Any] = {"features": "pixels", "label": "digit", "verbose": False}
    run = tos.fit(captured_classifier(), frame, validation_data=frame, **options)
    assert run.validation["epoch"].iloc[-1] == 1


def test_a_place_for_checkpoints_is_used(
    spark_context: Any, digits: tuple[np.ndarray, ...], tmp_path: Path
) -> None:
    """The last one is written when the run ends. Only `checkpoint_every=None` writes none."""
    options: dict[str, Any] = {"checkpoint_dir": tmp_path, "verbose": False}
    run = tos.fit(captured_classifier(), digits[:2], **options)
    assert [saved.state for saved in tos.runs(str(tmp_path), spark=spark_context)] == ["finished"]
    assert run.uri is not None
    run = tos.fit(captured_classifier(), digits[:2], checkpoint_every=None, **options)
    assert run.uri is None
    with pytest.raises(
        ConfigError, match=r"^checkpoint_dir: expected a folder's URI or path, got 3\."
    ):
        tos.fit(captured_classifier(), digits[:2], checkpoint_dir=3)


def test_without_waiting_it_returns_a_run_that_trains(
    spark_context: Any, digits: tuple[np.ndarray, ...]
) -> None:
    watch = Watch()
    run = tos.fit(
        captured_classifier(), digits[:2], epochs=1000, wait=False, verbose=False, sinks=[watch]
    )
    watch.wait_for(MilestoneCommitted, 1)
    assert run.active
    run.stop()
    assert run.state == "stopped"


@pytest.mark.parametrize("kind", ["arrays", "rdd", "frame"])
def test_a_share_of_the_rows_is_evaluated_and_not_trained_on(
    spark_context: Any, digits: tuple[np.ndarray, ...], kind: str
) -> None:
    x, y = digits[0][:400], digits[1][:400]
    data: Any = (x, y)
    options: dict[str, Any] = {}
    rows = [(row.tolist(), int(label)) for row, label in zip(x, y, strict=True)]
    if kind == "rdd":
        data = spark_context.parallelize(list(zip(x, y, strict=True)), 2)
    elif kind == "frame":
        spark = tos.connect(spark_context, warm_up=False)
        data = spark.createDataFrame(rows, "pixels array<float>, digit long")
        options = {"features": "pixels", "label": "digit"}
    run = tos.fit(captured_classifier(), data, 2, validation_split=0.25, verbose=False, **options)
    # Of an epoch as short as this an evaluation may be left out.
    assert run.validation["epoch"].iloc[-1] == 2
    trained = run.history["samples"].sum() / 2
    assert trained == 300 if kind == "arrays" else 240 < trained < 360


def test_how_often_to_exchange_is_chosen_while_it_trains(
    spark_context: Any, digits: tuple[np.ndarray, ...]
) -> None:
    options = {"batch_size": 32, "sync_interval": "auto", "verbose": False}
    run = tos.fit(captured_classifier(), digits[:2], 40, **options)
    (note,) = [note for note in run.status.notes if note.startswith("sync_interval='auto'")]
    assert f"has chosen {run.settings.sync_interval}:" in note


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"validation_split": 0.5, "validation_data": (np.ones(1), np.ones(1))},
            "validation_split: expected it or validation_data; got both",
        ),
        ({"epoch": 3}, "fit: unknown option 'epoch'. Did you mean epochs?"),
        ({"batch_size": 0}, "batch_size: expected"),
        (
            {"features": "x"},
            "features, label: expected a DataFrame of Spark or pandas",
        ),
        ({"checkpoint_every": 5}, "checkpoint_every: expected a directory"),
        ({"max_checkpoints": 2}, "max_checkpoints: expected checkpoint_dir or checkpoint_every"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_stays(
    spark_context: Any, digits: tuple[np.ndarray, ...], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text.replace("?", r"\?")):
        tos.fit(captured_classifier(), digits[:2], **options)
