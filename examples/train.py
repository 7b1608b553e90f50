"""Train a network on digits with Spark, and save it.

python examples/train.py --epochs 20 --checkpoint-dir runs
spark-submit --master spark://host:7077 examples/train.py
"""

import argparse
import sys
from typing import Any

import keras

import tos_notebook as tos
from tos_notebook.demo import bundled_digits


def build_model() -> Any:
    """Return a compiled classifier of images with 8 x 8 pixels, the same each time."""
    keras.utils.set_random_seed(0)
    layers = [
        keras.Input((64,), dtype="uint8"),
        keras.layers.Rescaling(1 / 16),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
    model = keras.Sequential(layers)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a network on digits with Spark.")
    parser.add_argument("--master", help="by default that of spark-submit, or else local[*]")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--workers", type=int, help="by default one for each core of Spark")
    parser.add_argument("--checkpoint-dir", metavar="URI", help="a folder that outlives a crash")
    parser.add_argument("--model", default="digits.keras", metavar="URI", help="(%(default)s)")
    return parser.parse_args()


def main() -> None:
    """Train, save the model, and say how good it is."""
    given = options()
    digits = bundled_digits()
    run = tos.fit(
        build_model(),
        digits.train,
        given.epochs,
        spark=tos.connect(given.master),
        batch_size=32,
        num_workers=given.workers,
        validation_data=digits.test,
        checkpoint_dir=given.checkpoint_dir,
    )
    saved = run.save(given.model)
    accuracy = run.evaluate(*digits.test)["accuracy"]
    print(f"{run.state}: test accuracy {accuracy:.3f}, model in {saved}")


if __name__ == "__main__":
    sys.exit(tos.run_script(main))
