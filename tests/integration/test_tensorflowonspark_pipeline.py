"""A pipeline's estimator trains with Keras 3 on two nodes; its model computes columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tos_notebook.errors import ConfigError, DataError
from tos_notebook.nodes.context import NodeContext
from tos_notebook.tensorflowonspark.pipeline import TFEstimator, TFModel

WEIGHTS = np.array([2.0, -0.5])


@pytest.fixture(scope="module")
def spark(spark_context: Any) -> SparkSession:
    return SparkSession(spark_context)


def train(args: Any, ctx: NodeContext) -> None:
    """Learn a sum of two numbers, all workers in step, and let the chief export it."""
    import keras
    import tensorflow as tf

    from tos_notebook.tensorflowonspark import compat

    compat.patch_keras_fit()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.1), "mse")
    feed = ctx.get_data_feed(input_mapping=args.input_mapping)

    def rows() -> Any:
        while not feed.should_stop():
            batch = feed.next_batch(args.batch_size)
            yield from zip(batch["x"], batch["y"], strict=True)

    spec = tf.TensorSpec([2], tf.float32), tf.TensorSpec([1], tf.float32)
    options = tf.data.Options()
    compat.disable_auto_shard(options)
    dataset = tf.data.Dataset.from_generator(rows, output_signature=spec).with_options(options)
    model.fit(dataset.batch(args.batch_size), steps_per_epoch=args.steps, verbose=0)
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    feed.terminate()


def test_it_learns_exports_and_predicts(spark: SparkSession, tmp_path: Path) -> None:
    import tensorflow as tf

    x = np.random.default_rng(0).random((800, 2))
    data = [(row.tolist(), [float(row @ WEIGHTS)]) for row in x]
    # Two partitions, one for each node.
    table = spark.createDataFrame(spark.sparkContext.parallelize(data, 2), ["given", "wanted"])
    folder = str(tmp_path / "export")
    estimator = TFEstimator(train, {}).setInputMapping({"given": "x", "wanted": "y"})
    estimator.setClusterSize(2).setExportDir(folder).setBatchSize(4).setEpochs(3).setSteps(250)
    model = estimator.fit(table)
    assert isinstance(model, TFModel)
    signature = tf.saved_model.load(folder).signatures["serving_default"]
    (taken,), (made,) = signature.structured_input_signature[1], signature.structured_outputs
    model.setInputMapping({"given": taken}).setOutputMapping({made: "sum"})
    rows = model.transform(table.limit(5)).collect()
    assert np.allclose([row["sum"][0] for row in rows], x[:5] @ WEIGHTS, atol=0.05)
    with pytest.raises(ConfigError, match=made):
        model.setOutputMapping({"other": "sum"}).transform(table)


def test_what_is_not_set_or_not_there_is_said_before_anything_starts(spark: SparkSession) -> None:
    table = spark.createDataFrame([(1.0,)], ["a"])
    with pytest.raises(ConfigError, match="input_mapping"):
        TFEstimator(train, {}).fit(table)
    with pytest.raises(DataError, match="no column b"):
        TFEstimator(train, {}).setInputMapping({"b": "x"}).fit(table)
    with pytest.raises(ConfigError, match="export_dir"):
        TFModel({}).setInputMapping({"a": "x"}).transform(table)
    with pytest.raises(ConfigError, match="export_fn"):
        TFEstimator(train, {}, export_fn=print)  # type: ignore[arg-type]
