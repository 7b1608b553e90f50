"""What a stage says to parameters, columns and models that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest
from pyspark.ml.feature import VectorAssembler

import tos_notebook as tos
from tests.unit.ml.conftest import dense, two_classes
from tos_notebook import errors


@pytest.fixture(scope="module")
def assembled(flowers: Any) -> Any:
    return VectorAssembler(inputCols=["a", "b"], outputCol="features").transform(flowers)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("batchSize", 0, "batchSize: expected a whole number of at least 1, got 0"),
        ("epochs", 2.5, "epochs: expected a whole number of at least 1, got 2.5"),
        ("learningRate", -1, "learningRate: expected a finite number above 0"),
        ("seed", -1, "seed: expected a whole number of at least 0"),
        ("validationFraction", 1, "validationFraction: expected a number from 0 to below 1"),
        ("stopWhen", "soon", "soon"),
        ("sync", "ssp", "sync: expected 'asp'"),
        ("modelType", "both", "modelType: expected one of auto, classification, regression"),
        ("handleInvalid", "keep", "handleInvalid: expected one of error, skip"),
        ("strategy", "allredcue", "Did you mean allreduce?"),
        ("strategy", 7, "strategy: expected a name .* or an object .*, got 7 of type int"),
        ("combiner", "best", "best"),
        ("codec", "int3", "int3"),
        ("model", 7, "model: expected a compiled Keras model, or a function"),
    ],
)
def test_a_value_out_of_range_is_refused_however_it_is_set(
    name: str, value: Any, said: str
) -> None:
    estimator = tos.ml.TensorEstimator()
    for refused in (
        lambda: tos.ml.TensorEstimator(**{name: value}),
        lambda: estimator.set(estimator.getParam(name), value),
        lambda: estimator.copy({estimator.getParam(name): value}),
    ):
        with pytest.raises(errors.TosError, match=said):
            refused()
    assert estimator.extractParamMap().get(estimator.getParam(name)) != value


def test_an_unknown_parameter_is_answered_with_the_known_ones() -> None:
    with pytest.raises(errors.ConfigError, match="steps: expected one of the parameters batchSize"):
        tos.ml.TensorEstimator().setParams(steps=1)


def unbuilt() -> Any:
    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model


def uncompiled() -> Any:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])


@pytest.mark.parametrize("make", [unbuilt, uncompiled])
def test_a_model_that_cannot_be_trained_is_refused_given_or_made(make: Any, assembled: Any) -> None:
    with pytest.raises(errors.CaptureError, match=r"no weights yet|not compiled"):
        tos.ml.TensorEstimator(model=make())
    with pytest.raises(errors.CaptureError, match=rf"{make.__name__}\(\) to return a compiled"):
        tos.ml.TensorEstimator(model=make).fit(assembled)


def test_a_missing_model_is_asked_for(assembled: Any) -> None:
    with pytest.raises(errors.ConfigError, match="it is not set"):
        tos.ml.TensorEstimator().fit(assembled)
    with pytest.raises(errors.CaptureError, match="model: expected a Keras model with weights"):
        tos.ml.TensorModel(model="model.keras")


class Twice(keras.layers.Layer):
    """A layer of the user's own that Keras does not know."""

    def call(self, x: Any) -> Any:
        return 2 * x


def with_own_layer() -> Any:
    model = keras.Sequential([keras.Input((2,)), Twice(), keras.layers.Dense(2, "softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def test_layers_of_ones_own_train_as_they_are_and_are_registered_to_be_loaded(
    assembled: Any, tmp_path: Path
) -> None:
    tos.ml.TensorEstimator(model=with_own_layer).fit(assembled)
    fitted = tos.ml.TensorEstimator(model=with_own_layer()).fit(assembled)
    assert fitted.run.status.samples == 150
    assert fitted.transform(assembled).select("prediction").count() == 150
    fitted.write().save(f"file://{tmp_path}/model")
    with pytest.raises(errors.CaptureError, match="register_keras_serializable"):
        tos.ml.TensorModel.load(f"file://{tmp_path}/model")


def test_a_schedule_has_no_learning_rate_to_set(assembled: Any) -> None:
    model = dense(2, "softmax", "sparse_categorical_crossentropy")
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    model.compile(keras.optimizers.SGD(schedule), "sparse_categorical_crossentropy")
    with pytest.raises(errors.ConfigError, match=r"learningRate: .*with a schedule"):
        tos.ml.TensorEstimator(model=model, learningRate=0.1).fit(assembled)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"featuresCol": "feature"}, r"no column 'feature'. Did you mean features"),
        ({"featuresCol": "kind"}, r"(?s)featuresCol=\['kind'\].*is a string: expected numbers"),
        ({"labelCol": "lable"}, r"labelCol='lable': .*Did you mean label"),
        ({"labelCol": "kind"}, r"labelCol='kind': .*StringIndexer"),
        ({"weightCol": "weight"}, r"weightCol='weight': .*no column 'weight'"),
        ({"inputCols": ["a", "b", "label"]}, "inputCols.*as many columns as 'x' .* 2; got 3"),
        ({"validationIndicatorCol": "w"}, "validationIndicatorCol='w': expected a boolean"),
        (
            {"validationIndicatorCol": "known", "validationFraction": 0.5},
            "expected either it or validationIndicatorCol",
        ),
    ],
)
def test_columns_that_do_not_fit_are_named_with_their_parameter(
    assembled: Any, given: dict[str, Any], said: str
) -> None:
    kinds = errors.DataError, errors.ConfigError, errors.ShapeMismatch
    with pytest.raises(kinds, match=said):
        tos.ml.TensorEstimator(model=two_classes(), **given).fit(assembled)


def test_a_vector_of_another_length_is_named(assembled: Any) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(errors.DataError, match="'features': expected arrays of 3 values"):
        tos.ml.TensorEstimator(model=model).fit(assembled)


def test_classes_where_one_hot_values_are_expected_are_explained(assembled: Any) -> None:
    model = dense(2, "softmax", "categorical_crossentropy")
    with pytest.raises(errors.DataError, match=r"labelCol='label': .*sparse_categorical"):
        tos.ml.TensorEstimator(model=model).fit(assembled)


def test_a_model_with_several_outputs_is_refused(assembled: Any) -> None:
    x = keras.Input((2,))
    model = keras.Model(x, [keras.layers.Dense(1, name=name)(x) for name in ("one", "two")])
    model.compile("sgd", ["mse", "mse"])
    with pytest.raises(errors.UnsupportedProgram, match=r"one output, got .* one, two"):
        tos.ml.TensorEstimator(model=model).fit(assembled)


def test_a_column_that_is_there_already_is_not_replaced(assembled: Any) -> None:
    model = tos.ml.TensorModel(model=two_classes(), predictionCol="label")
    with pytest.raises(errors.ConfigError, match=r"predictionCol: .*'label' already"):
        model.transform(assembled)


def test_there_is_nothing_to_load_where_nothing_was_saved(assembled: Any, tmp_path: Any) -> None:
    frame = assembled.sparkSession.createDataFrame
    stage = tos.ml.TensorModel(model=two_classes())
    stage.save(str(tmp_path / "model"))
    (tmp_path / "model" / "model.keras").unlink()
    with pytest.raises(errors.CheckpointError, match=r"model\.keras"):
        tos.ml.TensorModel.load(str(tmp_path / "model"))
    with pytest.raises(errors.DataError, match="nothing to look at"):
        tos.ml.TensorEstimator(model=two_classes()).fit(frame([], assembled.schema))


def test_a_label_that_is_no_class_ends_the_fit_with_its_row(assembled: Any) -> None:
    model = dense(1, "sigmoid", "binary_crossentropy")
    frame = assembled.selectExpr("features", "label / 2 as label")
    with pytest.raises(errors.DataError, match=r"'label', partition 0, row 1:.*label 0.5 of 2"):
        tos.ml.TensorEstimator(model=model).fit(frame)
