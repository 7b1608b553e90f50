"""Let Spark's executors predict the rows of a DataFrame by a saved model.

python examples/predict.py --model digits.keras --output predictions
"""

import argparse
import sys
from typing import Any

from pyspark.sql import SparkSession, functions

import tos_notebook as tos
from tos_notebook.demo import bundled_digits


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Predict digits by a saved model.")
    parser.add_argument("--master", help="by default that of spark-submit, or else local[*]")
    parser.add_argument("--model", default="digits.keras", metavar="URI", help="(%(default)s)")
    parser.add_argument("--output", default="predictions", metavar="URI", help="(%(default)s)")
    return parser.parse_args()


def images(spark: SparkSession) -> Any:
    """Return a DataFrame of images, as raw bytes, and their digits."""
    pixels, labels = bundled_digits().test
    rows = [(row.tobytes(), int(label)) for row, label in zip(pixels, labels, strict=True)]
    return spark.createDataFrame(rows, "pixels binary, digit long")


def main() -> None:
    """Write the digit that the model sees in each image, and say how many are right."""
    given = options()
    spark = tos.connect(given.master)
    rows = tos.columns(images(spark), "pixels", shapes={"pixels": (64,)})
    scored = tos.load_model(given.model).predict(rows)
    # The class with the highest probability; Spark counts places in an array from 1.
    found = functions.expr("array_position(prediction, array_max(prediction)) - 1 AS found")
    scored.select("digit", found).write.mode("overwrite").parquet(given.output)
    written = spark.read.parquet(given.output)
    right = written.where("digit = found").count()
    print(f"{right} of {written.count()} digits are right, predictions in {given.output}")


if __name__ == "__main__":
    sys.exit(tos.run_script(main))
