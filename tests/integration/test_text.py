"""Keras' guides on structured data and on text, trained on real DataFrames of strings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tos_notebook as tos
from tests.support.long import few
from tos_notebook.errors import DataError, ShapeMismatch

pytestmark = pytest.mark.usefixtures("seed")

Train = Callable[..., tos.TrainingSession]
COLUMNS = ["thal", "sex", "age", "chol"]
WORDS = ["good", "fine", "bad", "awful", "movie", "film", "plot"]


@pytest.fixture(scope="module")
def patients(spark: Any) -> Any:
    """Rows like those of the guide's heart disease data; the target follows from two columns."""
    random = np.random.default_rng(0)
    rows = 1500
    thal = random.choice(["fixed", "normal", "reversible"], rows)
    age = random.normal(55, 9, rows).astype(np.float32)
    table = pd.DataFrame(
        {
            "thal": thal,
            "sex": random.integers(0, 2, rows),
            "age": age,
            "chol": random.normal(240, 50, rows).astype(np.float32),
            "target": ((thal == "fixed") | (age > 62)).astype(np.int32),
        }
    )
    return spark.createDataFrame(table)


@pytest.fixture(scope="module")
def reviews(spark: Any) -> Any:
    """Reviews of twenty words, good where more words are good than bad; some do not say a thing."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, 20)) + " é!" for _ in range(800)]
    good = [sum(t.count(w) for w in WORDS[:2]) > sum(t.count(w) for w in WORDS[2:4]) for t in texts]
    return spark.createDataFrame(pd.DataFrame({"text": texts, "label": np.int32(good)}))


def arrays_of(frame: Any, *names: str) -> dict[str, Any]:
    table = frame.toPandas()
    return {name: table[name].to_numpy()[:, None] for name in names}


def structured(patients: Any) -> Any:
    """Return the guide's model: a lookup or a normalization for each column."""
    import keras
    from keras import layers

    known = arrays_of(patients, *COLUMNS)
    inputs = {
        name: keras.Input((1,), name=name, dtype=dtype)
        for name, dtype in zip(COLUMNS, ["string", "int64", "float32", "float32"], strict=True)
    }
    lookups = {
        "thal": layers.StringLookup(output_mode="multi_hot"),
        "sex": layers.IntegerLookup(output_mode="multi_hot"),
    }
    encoded = []
    for name, column in inputs.items():
        layer = lookups.get(name) or layers.Normalization()
        layer.adapt(known[name])
        encoded.append(layer(column))
    hidden = layers.Dropout(0.1)(layers.Dense(32, activation="relu")(layers.concatenate(encoded)))
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    return model


def test_the_guide_on_structured_data(patients: Any, train: Train, tmp_path: Path) -> None:
    """It trains, measures, predicts and is saved, with its vocabularies."""
    import keras

    model = structured(patients)
    data = tos.columns(patients, COLUMNS, "target")
    run = train(model, batch_size=32, sync_interval=5).run(data, epochs=8, validation_split=0.2)
    assert run.validation["accuracy"].iloc[-1] > 0.9
    fed = arrays_of(patients, *COLUMNS)
    expected = keras.ops.convert_to_numpy(model(_tensors(fed), training=False)).ravel()
    predicted = tos.load_model(model).predict(patients, COLUMNS).toPandas()["prediction"]
    np.testing.assert_allclose(predicted, expected, atol=1e-5)
    np.testing.assert_allclose(run.predict(fed).ravel(), expected, atol=1e-5)
    labels = patients.toPandas()["target"].to_numpy()
    assert run.evaluate(fed, labels)["accuracy"] == pytest.approx(
        np.mean((expected > 0.5) == labels), abs=1e-3
    )
    assert run.evaluate(data)["accuracy"] == pytest.approx(run.evaluate(fed, labels)["accuracy"])
    run.save(str(tmp_path / "model.keras"))
    again = keras.models.load_model(tmp_path / "model.keras")
    found = keras.ops.convert_to_numpy(again(_tensors(fed), training=False)).ravel()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def _tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf

    return {name: tf.constant(values.tolist()) for name, values in arrays.items()}


@pytest.mark.long
def test_a_feature_space_trains_on_columns_by_their_names(patients: Any, train: Train) -> None:
    import keras
    import tensorflow as tf

    kinds = keras.utils.FeatureSpace
    space = kinds(
        features={
            "thal": kinds.string_categorical(num_oov_indices=0),
            "sex": kinds.integer_categorical(num_oov_indices=0),
            "age": kinds.float_discretized(num_bins=10),
            "chol": kinds.float_normalized(),
        },
        crosses=[kinds.cross(feature_names=("sex", "age"), crossing_dim=16)],
        output_mode="concat",
    )
    known = {name: values.ravel() for name, values in arrays_of(patients, *COLUMNS).items()}
    known["thal"] = known["thal"].astype(str)
    space.adapt(tf.data.Dataset.from_tensor_slices(known))
    hidden = keras.layers.Dense(32, activation="relu")(space.get_encoded_features())
    model = keras.Model(space.get_inputs(), keras.layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    data = tos.columns(patients, {name: name for name in COLUMNS}, "target")
    run = train(model, batch_size=32, sync_interval=5).run(data, epochs=8, validation_data=data)
    assert run.validation["accuracy"].iloc[-1] > 0.85


def classifier(reviews: Any, shape: tuple[int, ...] = (1,)) -> Any:
    """Return the text guide's model end to end, smaller: it takes raw text."""
    import keras
    from keras import layers

    vectorize = layers.TextVectorization(max_tokens=50, output_sequence_length=24)
    vectorize.adapt(reviews.toPandas()["text"].tolist())
    text = keras.Input(shape, dtype="string", name="text")
    hidden = layers.Embedding(50, 8)(vectorize(text))
    hidden = layers.Conv1D(8, 3, activation="relu", padding="same")(hidden)
    hidden = layers.GlobalAveragePooling1D()(hidden)
    model = keras.Model(text, layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"])
    return model


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["allreduce", "treeaggregate"])
def test_the_guide_on_text(reviews: Any, train: Train, strategy: str) -> None:
    model = classifier(reviews)
    session = train(model, strategy=strategy, batch_size=32)
    data = tos.columns(reviews, "text", "label")
    before = session.program.evaluate(data)["loss"]
    run = session.run(data, epochs=20 if strategy == "treeaggregate" else 8)
    found = run.evaluate(data)
    assert found["loss"] < before
    if strategy != "treeaggregate":
        # It makes one step in an epoch.
        assert found["accuracy"] > 0.9


@pytest.mark.parametrize("kind", few(["records", "arrays", "dataset"], "records"))
def test_text_trains_wherever_it_lies(
    reviews: Any, train: Train, spark_context: Any, kind: str
) -> None:
    table = reviews.toPandas()
    texts, labels = table["text"].tolist(), table["label"].tolist()
    data: Any = np.array(texts), np.array(labels)
    if kind == "records":
        data = spark_context.parallelize([*zip(texts, labels, strict=True)], 2)
    elif kind == "dataset":

        def data(context: Any) -> Any:
            import tensorflow as tf

            whole = tf.data.Dataset.from_tensor_slices((texts, labels))
            return whole.shard(context.partitions, context.partition)

    session = train(classifier(reviews, ()), batch_size=32)
    # Rows move between partitions, too.
    options = {} if kind == "dataset" else {"repartition_every": 1}
    run = session.run(data, epochs=3, **options)
    assert run.history["samples"].sum() == 3 * len(texts)
    assert run.history["loss"].iloc[-1] < run.history["loss"].iloc[0]


@pytest.mark.long
def test_a_model_without_weights_is_built_from_a_column_of_text(reviews: Any, train: Train) -> None:
    import keras
    from keras import layers

    vectorize = layers.TextVectorization(max_tokens=50, output_sequence_length=24)
    vectorize.adapt(reviews.toPandas()["text"].tolist())
    pooled = [layers.Embedding(50, 8), layers.GlobalAveragePooling1D(), layers.Dense(1, "sigmoid")]
    model = keras.Sequential([vectorize, *pooled])
    model.compile("adam", "binary_crossentropy")
    run = train(model).run(tos.columns(reviews, "text", "label"))
    assert run.history["samples"].sum() == reviews.count()


@pytest.mark.long
def test_a_table_of_tensorflow_travels_with_what_prepares_the_input(
    patients: Any, train: Train
) -> None:
    import keras
    import tensorflow as tf

    entries = tf.lookup.KeyValueTensorInitializer(["fixed", "normal"], [1.0, 2.0])
    table = tf.lookup.StaticHashTable(entries, 0.0)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    program = tos.capture(model, preprocess=lambda text: table.lookup(text)[:, None])
    run = train(program).run(tos.columns(patients, "thal", "target"))
    weight, bias = (float(w.numpy().item()) for w in model.weights)
    thal = arrays_of(patients, "thal")["thal"][:3].ravel()
    numbers = [{"fixed": 1.0, "normal": 2.0}.get(value, 0.0) for value in thal]
    found = run.predict(np.array(thal.tolist())).ravel()
    np.testing.assert_allclose(found, np.array(numbers) * weight + bias, rtol=1e-5)


def test_bad_rows_of_text_are_named_or_left_out(reviews: Any, train: Train) -> None:
    from pyspark.sql import functions

    nulls = reviews.withColumn("text", functions.expr("if(length(text) % 7 > 0, text, null)"))
    left = nulls.where("text is not null").count()
    session = train(classifier(reviews), batch_size=32)
    run = session.run(tos.columns(nulls, "text", "label", on_bad="skip"))
    assert run.history["samples"].sum() == left
    with pytest.raises(DataError, match=r"Column 'text', partition .*expected string.*got null"):
        session.run(tos.columns(nulls, "text", "label"))


def test_text_where_the_model_takes_numbers_says_what_to_do(patients: Any, train: Train) -> None:
    import keras

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    session = train(model)
    with pytest.raises(ShapeMismatch, match=r"StringIndexer, or in the model.*StringLookup"):
        session.start(tos.columns(patients, "thal", "target"))
    with pytest.raises(ShapeMismatch, match=r"'thal'.*StringIndexer"):
        session.start(tos.columns(patients, "age", "thal"))
