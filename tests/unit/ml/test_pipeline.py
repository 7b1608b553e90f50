"""Estimator and model as stages of real pipelines: trained, scored, evaluated, tuned."""

from __future__ import annotations

from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import (
    BinaryClassificationEvaluator,
    MulticlassClassificationEvaluator,
    RegressionEvaluator,
)
from pyspark.ml.feature import StandardScaler, StringIndexer, VectorAssembler
from pyspark.ml.linalg import DenseVector
from pyspark.ml.tuning import (
    CrossValidator,
    CrossValidatorModel,
    ParamGridBuilder,
    TrainValidationSplit,
)
from pyspark.sql import functions

import tos_notebook as tos
from tests.support.long import few
from tests.unit.ml.conftest import dense, two_classes
from tos_notebook import errors


@pytest.fixture(scope="module")
def assembled(flowers: Any) -> Any:
    frame = VectorAssembler(inputCols=["a", "b"], outputCol="features").transform(flowers)
    return frame.cache()


@pytest.fixture(scope="module")
def trained(assembled: Any) -> Any:
    estimator = tos.ml.TensorEstimator(model=two_classes(), epochs=3, batchSize=10)
    return estimator.fit(assembled)


def weights(model: Any) -> list[Any]:
    return [w.tolist() for w in model.model.get_weights()]


def test_the_example_of_the_documentation_works(spark: Any, tmp_path: Path) -> None:
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True)
    keras.utils.set_random_seed(0)
    order = np.random.default_rng(0).permutation(len(x))
    rows = [(*x[n].tolist(), f"species {y[n]}") for n in order]
    frame = spark.createDataFrame(
        spark.sparkContext.parallelize(rows, 1), ["a", "b", "c", "d", "species"]
    )
    guide = Path(__file__).parents[3] / "docs/how-to/pipelines.md"
    page = guide.read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    names = {"train": frame, "test": frame, "new": frame.drop("species"), "uri": str(tmp_path)}
    exec(example, names)
    assert names["accuracy"] > 0.85
    assert names["scored"].columns[-3:] == ["rawPrediction", "probability", "prediction"]


@pytest.mark.parametrize("encoded", few([True, False], True))
def test_a_column_of_bytes_is_encoded_images_or_raw_pixels(spark: Any, encoded: bool) -> None:
    pixels = [np.full((2, 2, 3), 50 * n, np.uint8) for n in range(4)]
    content = [tf.io.encode_png(p).numpy() if encoded else p.tobytes() for p in pixels]
    rows = [(bytearray(c), float(n > 1)) for n, c in enumerate(content)]
    frame = spark.createDataFrame(rows, "image binary, label double").coalesce(1)
    layers = [keras.Input((2, 2, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.layers[-1].kernel.assign([[1.0], [0.0], [0.0]])
    scorer = tos.ml.TensorModel(model=model, featuresCol="image")
    assert [row.prediction for row in scorer.transform(frame).collect()] == [0, 50, 100, 150]
    model.compile("sgd", "mse")
    estimator = tos.ml.TensorEstimator(model=model, featuresCol="image", learningRate=1e-6)
    assert estimator.fit(frame).run.status.samples == 4


def test_a_fit_leaves_the_given_model_as_it_was(assembled: Any) -> None:
    model = two_classes()
    estimator = tos.ml.TensorEstimator(model=model, batchSize=10)
    before = model.get_weights()
    model.set_weights([np.full_like(w, 5) for w in before])  # a copy was taken before
    assert weights(estimator.fit(assembled)) != [w.tolist() for w in before]
    assert all((w == 5).all() for w in model.get_weights())


@pytest.mark.long
def test_a_function_makes_the_model_and_its_first_weights_are_those_of_all_fits(
    assembled: Any,
) -> None:
    def build() -> Any:
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, "softmax")])
        model.compile("sgd", "sparse_categorical_crossentropy")
        return model

    estimator = tos.ml.TensorEstimator(model=build)
    assert weights(estimator.fit(assembled)) == weights(estimator.fit(assembled))


def test_a_model_tells_how_it_was_trained(trained: Any) -> None:
    assert trained.hasSummary
    losses = trained.summary.objectiveHistory
    assert trained.summary.totalIterations == len(losses) == 3
    assert losses[0] > losses[-1] > 0
    assert trained.run.status.samples == 450
    assert len(trained.summary.history) == trained.run.status.milestones


@pytest.mark.parametrize("logits", few([True, False], True))
def test_one_output_with_a_binary_loss_is_two_classes(assembled: Any, logits: bool) -> None:
    loss = keras.losses.BinaryCrossentropy(from_logits=logits)
    model = dense(1, None if logits else "sigmoid", loss)
    fitted = tos.ml.TensorEstimator(model=model, epochs=3, batchSize=10).fit(assembled)
    scored = fitted.transform(assembled)
    assert BinaryClassificationEvaluator().evaluate(scored) > 0.95
    rows = scored.select("rawPrediction", "probability", "prediction", "label").collect()
    assert sum(row.prediction == row.label for row in rows) > 130
    for row in rows[:5]:
        assert row.prediction == float(row.probability[1] > 0.5)
        assert sum(row.probability) == pytest.approx(1)
        if logits:
            assert row.rawPrediction[0] == -row.rawPrediction[1]


def test_another_loss_is_a_regression(assembled: Any) -> None:
    model = dense(1, None, "mse", rate=0.01)
    estimator = tos.ml.TensorEstimator(model=model, labelCol="b", epochs=5, batchSize=10)
    scored = estimator.fit(assembled).transform(assembled)
    assert scored.dtypes[-1] == ("prediction", "double")
    assert "probability" not in scored.columns
    assert RegressionEvaluator(labelCol="b").evaluate(scored, {}) < 1.0


def test_logits_of_classes_become_probabilities(spark: Any) -> None:
    layers = [keras.Input((2, 1)), keras.layers.Flatten(), keras.layers.Rescaling(2.0)]
    model = keras.Sequential(layers)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    # A flat array takes the shape of the input.
    frame = spark.createDataFrame([([0.5, 1.5],)], ["features"]).coalesce(1)
    (row,) = tos.ml.TensorModel(model=model).transform(frame).collect()
    assert row.rawPrediction == DenseVector([1.0, 3.0])
    np.testing.assert_allclose(row.probability, np.exp([1, 3]) / np.exp([1, 3]).sum(), rtol=1e-6)
    assert row.prediction == 1.0


def test_several_numbers_are_a_vector_and_columns_may_be_renamed_or_left_out(
    assembled: Any,
) -> None:
    model = dense(2, "sigmoid", "binary_crossentropy")
    numbers = tos.ml.TensorModel(model=model, predictionCol="out put").transform(assembled)
    assert numbers.collect()[0]["out put"] == DenseVector([0.5, 0.5])
    classes = tos.ml.TensorModel(
        model=model, modelType="classification", rawPredictionCol="", probabilityCol="p"
    )
    assert classes.transform(assembled).columns[-2:] == ["p", "prediction"]


def test_several_inputs_take_a_column_each(assembled: Any) -> None:
    inputs = [keras.Input((1,), name=name) for name in "ab"]
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(keras.layers.Concatenate()(inputs))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.001), "mse")
    stage = tos.ml.TensorModel(model=model).setInputCols(["a", "b"])
    row = stage.transform(assembled).collect()[0]
    assert row.prediction == pytest.approx(row.a + row.b, rel=1e-5)
    estimator = tos.ml.TensorEstimator(model=model, inputCols=["a", "b"])
    assert estimator.fit(assembled).run.status.samples == 150


def test_several_columns_of_numbers_are_one_input(flowers: Any) -> None:
    fitted = tos.ml.TensorEstimator(model=two_classes(), inputCols=["a", "b"]).fit(flowers)
    assert fitted.run.status.samples == 150
    scored = fitted.transform(flowers).first()
    expected = fitted.model.predict(np.array([[scored.a, scored.b]]), verbose=0)
    np.testing.assert_allclose(scored.probability.toArray(), expected[0], rtol=1e-5)


def test_rows_are_predicted_once_where_bad_ones_are_left_out(spark: Any, assembled: Any) -> None:
    bad = assembled.selectExpr("features", "label").limit(2)
    rows = [*bad.collect(), (DenseVector([float("nan"), 1.0]), 1.0)]
    frame = spark.createDataFrame(rows, bad.schema).coalesce(1)
    stage = tos.ml.TensorModel(model=two_classes(), handleInvalid="skip")
    scored = stage.transform(frame)
    assert scored.count() == 2
    plan = scored._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1
    estimator = tos.ml.TensorEstimator(model=two_classes(), handleInvalid="skip")
    assert estimator.fit(frame).run.status.rows_skipped == 1
    with pytest.raises(errors.TosError, match='leave such rows out: handleInvalid="skip"'):
        tos.ml.TensorEstimator(model=two_classes()).fit(frame)


def test_rows_count_by_their_weight(assembled: Any) -> None:
    """The one step from zeros, where each class has half of the probability."""
    estimator = tos.ml.TensorEstimator(model=two_classes(), weightCol="w", batchSize=150)
    found = estimator.fit(assembled).model.get_weights()
    rows = assembled.toPandas()
    x, weight = rows[["a", "b"]].to_numpy(), rows["w"].to_numpy()[:, None]
    pulled = weight * (np.eye(2)[rows["label"].astype(int)] - 0.5)
    for value, expected in zip(found, (x.T @ pulled, pulled.sum(0)), strict=True):
        np.testing.assert_allclose(value, 0.1 * expected / len(x), rtol=1e-4)


@pytest.mark.parametrize(
    "given",
    few(
        [{"validationIndicatorCol": "known"}, {"validationFraction": 0.2}],
        {"validationIndicatorCol": "known"},
    ),
)
def test_held_out_rows_validate_and_are_not_trained_on(
    assembled: Any, given: dict[str, Any]
) -> None:
    fitted = tos.ml.TensorEstimator(model=two_classes(), epochs=2, **given).fit(assembled)
    samples = fitted.run.status.samples
    assert fitted.summary.validation["samples"].iloc[-1] == samples
    trained = samples // 2
    if "validationFraction" in given:
        assert 100 < trained < 140
    else:
        assert trained == 120


def test_held_out_rows_are_of_the_same_computation_as_those_that_are_trained_on(
    spark: Any,
) -> None:
    """Computed twice, a row of random numbers could be on both sides, or on none."""
    computed = spark.sparkContext.accumulator(0)

    def seen(number: float) -> float:
        computed.add(1)
        return number

    one = functions.udf(seen, "double")
    frame = spark.range(400, numPartitions=4).select(
        functions.array(one(functions.rand()), functions.rand()).alias("features"),
        (functions.col("id") % 2).alias("label"),
    )
    estimator = tos.ml.TensorEstimator(model=two_classes(), epochs=3, validationFraction=0.3)
    before = set(persisted(spark))
    samples = estimator.fit(frame).run.status.samples
    assert computed.value == 400
    assert samples % 3 == 0
    assert set(persisted(spark)) == before


def persisted(spark: Any) -> Any:
    """Return the numbers of the RDDs that Spark keeps."""
    return spark.sparkContext._jsc.getPersistentRDDs()


def test_a_condition_ends_a_fit(assembled: Any) -> None:
    estimator = tos.ml.TensorEstimator(model=two_classes(), epochs=1000, batchSize=10)
    fitted = estimator.setStopWhen("samples > 1000").fit(assembled)
    assert 1000 < fitted.run.status.samples < 150_000


def test_rows_are_spread_over_as_many_workers_as_wanted(assembled: Any) -> None:
    estimator = tos.ml.TensorEstimator(model=two_classes(), numTrainWorkers=2, sync="bsp")
    assert sorted(estimator.fit(assembled).run.workers["partition"]) == [0, 1]


def test_what_is_saved_is_what_is_loaded(trained: Any, assembled: Any, tmp_path: Path) -> None:
    uri = (tmp_path / "model").as_uri()
    trained.write().save(uri)
    loaded = tos.ml.TensorModel.load(uri)
    assert loaded.uid == trained.uid
    assert loaded.extractParamMap() == trained.extractParamMap()
    assert weights(loaded) == weights(trained)
    assert not loaded.hasSummary
    with pytest.raises(errors.ConfigError, match="no summary"):
        loaded.summary  # noqa: B018
    assert loaded.model.compiled
    columns = ["rawPrediction", "probability", "prediction"]
    expected, found = (
        m.transform(assembled).select(columns).collect()[0] for m in (trained, loaded)
    )
    assert found == expected
    loaded.write().overwrite().save(uri)
    assert weights(tos.ml.TensorModel.load(uri)) == weights(trained)


@pytest.mark.long
def test_pipelines_are_saved_and_loaded_whole_before_and_after_the_fit(
    flowers: Any, tmp_path: Path
) -> None:
    stages = [
        StringIndexer(inputCol="kind", outputCol="class"),
        VectorAssembler(inputCols=["a", "b"], outputCol="raw"),
        StandardScaler(inputCol="raw", outputCol="features", withMean=True),
        tos.ml.TensorEstimator(model=two_classes(), labelCol="class", batchSize=10, epochs=2),
    ]
    Pipeline(stages=stages).write().save(str(tmp_path / "pipeline"))
    pipeline = Pipeline.load(str(tmp_path / "pipeline"))
    assert pipeline.getStages()[-1].extractParamMap().keys() == stages[-1].extractParamMap().keys()
    fitted = pipeline.fit(flowers)
    fitted.write().save(str(tmp_path / "fitted"))
    scored = PipelineModel.load(str(tmp_path / "fitted")).transform(flowers)
    evaluator = MulticlassClassificationEvaluator(labelCol="class", metricName="accuracy")
    assert evaluator.evaluate(scored) > 0.9


def test_a_strategy_as_an_object_trains_and_is_saved_and_loaded(
    assembled: Any, tmp_path: Path
) -> None:
    strategy = tos.strategies.AllReduce("parameters", 2, "star")
    estimator = tos.ml.TensorEstimator(model=two_classes(), batchSize=25, strategy=strategy)
    estimator.save(str(tmp_path / "estimator"))
    loaded = tos.ml.TensorEstimator.load(str(tmp_path / "estimator"))
    assert loaded.getStrategy() == estimator.getStrategy() == strategy
    run = loaded.fit(assembled).run
    assert run.settings.strategy_text == "allreduce (of parameters, algorithm star)"
    assert run.settings.sync_interval == 2
    # A class counts as an object with its defaults.
    assert loaded.setStrategy(tos.strategies.AllReduce).getStrategy() == tos.strategies.AllReduce()


def test_fits_at_the_same_time_do_not_disturb_each_other(assembled: Any) -> None:
    estimator = tos.ml.TensorEstimator(batchSize=25)
    builder = ParamGridBuilder().addGrid(estimator.model, [two_classes])
    grid = builder.addGrid(estimator.learningRate, [0.01, 0.1]).build()
    alone = {n: weights(estimator.fit(assembled, maps)) for n, maps in enumerate(grid)}
    assert alone[0] != alone[1]
    with ThreadPool(2) as pool:
        fits = estimator.fitMultiple(assembled, grid)
        together = dict(pool.map(lambda _: next(fits), grid, chunksize=1))
    # One partition, so one worker: a fit repeats itself exactly.
    assert {n: weights(model) for n, model in together.items()} == alone


@pytest.mark.long
def test_a_grid_is_searched_by_cross_validation(assembled: Any, tmp_path: Path) -> None:
    estimator = tos.ml.TensorEstimator(model=two_classes(), epochs=2, batchSize=25)
    grid = ParamGridBuilder().addGrid(estimator.learningRate, [1e-6, 0.1]).build()
    evaluator = MulticlassClassificationEvaluator(metricName="logLoss")
    search = CrossValidator(
        estimator=estimator,
        estimatorParamMaps=grid,
        evaluator=evaluator,
        numFolds=2,
        parallelism=2,
        seed=1,
    ).fit(assembled)
    useless, useful = search.avgMetrics
    assert useful < useless
    assert evaluator.evaluate(search.bestModel.transform(assembled)) < useless
    assert search.bestModel.run.status.samples == 2 * 150
    search.write().save(str(tmp_path / "search"))
    loaded = CrossValidatorModel.load(str(tmp_path / "search"))
    assert weights(loaded.bestModel) == weights(search.bestModel)


@pytest.mark.long
def test_a_split_chooses_the_better_model(assembled: Any) -> None:
    def useless() -> Any:
        return dense(2, "softmax", "sparse_categorical_crossentropy", rate=1e-9)

    estimator = tos.ml.TensorEstimator()
    grid = ParamGridBuilder().addGrid(estimator.model, [useless, two_classes]).build()
    evaluator = MulticlassClassificationEvaluator(metricName="logLoss")
    search = TrainValidationSplit(
        estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator, seed=1
    )
    useless_loss, loss = search.fit(assembled).validationMetrics
    assert loss < useless_loss == pytest.approx(np.log(2), rel=1e-3)
