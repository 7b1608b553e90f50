"""Sends this package to executors that lack it, and lets them do all that they ever do.

    python shipped_program.py FOLDER

FOLDER has a small MNIST, and takes what is written. Prints one line of JSON: the rows of each step,
and where executors had each module from. The master is that of ``spark-defaults.conf`` in
``SPARK_CONF_DIR``.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tos_notebook as tos
from tos_notebook.tensorspark import mnist
from tos_notebook.tensorspark.partitioner import RandomPartitioner

PARTITIONS = 2
LIMIT = 120.0


def softmax() -> Any:
    """Return a compiled classifier of 784 pixels."""
    model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(10, "softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def records(sc: Any) -> Any:
    """Return images and labels as programs of TensorOnSpark read and shuffle them."""
    images = mnist.extract_images(sc, mnist.train_image_path)
    labels = mnist.extract_labels(sc, mnist.train_label_path, num_class=10, one_hot=False)
    pairs = images.join(labels, numPartitions=PARTITIONS).mapPartitions(mnist.flatten_image_label)
    return pairs.partitionBy(PARTITIONS, RandomPartitioner(PARTITIONS)).cache()


def files(folder: Path, x: Any, y: Any) -> Any:
    """Return the rows as TFRecord files, with a bad one behind them."""
    folder.mkdir()
    with tf.io.TFRecordWriter(str(folder / "rows")) as writer:
        for image, label in [*zip(x, y, strict=True), (x[0] * np.nan, 0)]:
            writer.write(image.tobytes() + np.int64(label).tobytes())
    return tos.tfrecords(folder.as_uri(), parsed, on_bad="skip")


def parsed(record: Any) -> Any:
    """Return image and label of what `files` has written."""
    image = tf.io.decode_raw(tf.strings.substr(record, 0, 784 * 4), tf.float32)
    label = tf.io.decode_raw(tf.strings.substr(record, 784 * 4, 8), tf.int64)
    return tf.ensure_shape(image, [784]), tf.reshape(label, [])


def made(context: Any) -> Any:
    """Return a partition's part of a dataset."""
    zeros = tf.zeros([100, 784]), tf.zeros([100], tf.int64)
    return tf.data.Dataset.from_tensor_slices(zeros).shard(context.partitions, context.partition)


def modules(_: Iterable[Any]) -> Iterator[dict[str, str]]:
    """Return where a worker has the modules of this package from."""
    found = dict(sys.modules)
    yield {n: str(m.__file__) for n, m in found.items() if n.partition(".")[0] == "tos_notebook"}


def steps(spark: Any, folder: Path, session: Any) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield what is to be done, by name; each returns the number of rows that it took."""
    rows = records(spark.sparkContext)
    x, y = map(np.stack, zip(*rows.collect(), strict=True))
    table = [(image.tolist(), int(label)) for image, label in zip(x, y, strict=True)]
    frame = spark.createDataFrame(table, "pixels array<float>, label int").repartition(PARTITIONS)

    def train(data: Any, **options: Any) -> int:
        return int(session.run(data, epochs=1, **options).history["samples"].sum())

    def resume() -> int:
        uri = session.run(rows, epochs=1, checkpoint_every=10).uri
        run = tos.resume(uri, rows, epochs=2, spark=spark)
        run.wait(LIMIT)
        return int(run.history["samples"].sum())

    def evaluate() -> int:
        session.program.evaluate(tos.columns(frame, "pixels", "label"))
        return len(x)

    yield "arrays", lambda: train((x, y))
    yield "by label", lambda: train(rows, partitioner=tos.partitioners.Shards(PARTITIONS))
    yield "resumed", resume
    yield "frame", lambda: train(tos.columns(frame, "pixels", "label", on_bad="skip"))
    yield "files", lambda: train(files(folder / "files", x, y))
    yield "dataset", lambda: train(made)
    yield "scored", lambda: len(session.program.predict(frame, "pixels").collect())
    yield "predicted", lambda: session.program.predict(rows).count()
    yield "evaluated", evaluate


def main(folder: Path) -> None:
    """Do it, and print what came of it."""
    spark = tos.connect(ship_package=True)
    sc = spark.sparkContext
    mnist.set_data_dir(str(folder))
    loaded: dict[str, str] = {}
    found: dict[str, int] = {}
    options = {"batch_size": 20, "sync_interval": 2, "codec": "sign+ef"}
    with tos.TrainingSession(
        spark, softmax(), checkpoint_dir=str(folder / "runs"), **options
    ) as session:
        for name, step in steps(spark, folder, session):
            found[name] = step()
            # Spark ends some workers after a step.
            for part in sc.parallelize(range(8), 8).mapPartitions(modules).collect():
                loaded |= part
    spark.stop()
    print(json.dumps({"rows": found, "loaded": loaded}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
