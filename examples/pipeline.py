"""Train and apply a network as a stage of a Spark ML pipeline.

python examples/pipeline.py --output pipeline
"""

import argparse
import sys
from typing import Any

import keras
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import StandardScaler, VectorAssembler

import tos_notebook as tos
from tos_notebook.demo import bundled_digits

PIXELS = [f"pixel_{number}" for number in range(64)]


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a pipeline on digits.")
    parser.add_argument("--master", help="by default that of spark-submit, or else local[*]")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--output", default="pipeline", metavar="URI", help="(%(default)s)")
    return parser.parse_args()


def build_model() -> Any:
    """Return a compiled classifier of 64 numbers, the same each time."""
    keras.utils.set_random_seed(0)
    layers = [
        keras.Input((64,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
    model = keras.Sequential(layers)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def frame(spark: Any, images: Any, labels: Any) -> Any:
    """Return a DataFrame with a column for each pixel, and the label."""
    rows = ([*image, label] for image, label in zip(images.tolist(), labels.tolist(), strict=True))
    return spark.createDataFrame(list(rows), [*PIXELS, "label"])


def main() -> None:
    """Fit the pipeline, save it, and say how good it is where it is loaded again."""
    given = options()
    digits = bundled_digits()
    spark = tos.connect(given.master)
    stages = [
        VectorAssembler(inputCols=PIXELS, outputCol="raw"),
        StandardScaler(inputCol="raw", outputCol="features", withMean=True),
        tos.ml.TensorEstimator(model=build_model(), epochs=given.epochs, batchSize=32),
    ]
    fitted = Pipeline(stages=stages).fit(frame(spark, *digits.train))
    fitted.write().overwrite().save(given.output)
    scored = PipelineModel.load(given.output).transform(frame(spark, *digits.test))
    accuracy = MulticlassClassificationEvaluator(metricName="accuracy").evaluate(scored)
    print(f"Test accuracy {accuracy:.3f}, pipeline in {given.output}")


if __name__ == "__main__":
    sys.exit(tos.run_script(main))
