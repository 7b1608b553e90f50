"""Trains through the package's own API; prints what it counted as one line of JSON.

    python native_program.py DATA DIRECTORY

Master and settings are those of ``spark-defaults.conf`` in ``SPARK_CONF_DIR``.
"""

import json
import sys
from typing import Any

import numpy as np
import tensorflow as tf

import tos_notebook as tos
from tos_notebook.events import EpochFinished, Event, WorkerJoined
from tos_notebook.tensorspark import mnist

EPOCHS, PARTITIONS = 3, 2

v1 = tf.compat.v1


def softmax_that_counts() -> Any:
    """Return softmax regression with one more parameter, which adds up the rows it is given.

    With a combiner that adds changes it ends as the exact count of rows that were applied.
    """
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 784])
        y = v1.placeholder(tf.float32, [None, 10])
        weights = v1.get_variable("weights", initializer=np.zeros((784, 10), np.float32))
        bias = v1.get_variable("bias", initializer=np.zeros(10, np.float32))
        rows = v1.get_variable("rows", initializer=np.float32(0), trainable=False)
        logits = x @ weights + bias
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(y, logits))
        hit = tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1))
        step = v1.train.GradientDescentOptimizer(0.25).minimize(loss)
        with tf.control_dependencies([v1.assign_add(rows, tf.cast(tf.shape(x)[0], tf.float32))]):
            step = tf.group(step)
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        return tos.capture(
            step,
            feeds=[x, y],
            loss=loss,
            metrics={"accuracy": tf.reduce_mean(tf.cast(hit, tf.float32))},
            params=[weights, bias, rows],
            session=session,
        )


def records(sc, images, labels):  # type: ignore[no-untyped-def]
    """Return an RDD of (image, one-hot label)."""
    pairs = mnist.extract_images(sc, images).join(
        mnist.extract_labels(sc, labels, num_class=10, one_hot=True), numPartitions=PARTITIONS
    )
    return pairs.mapPartitions(mnist.flatten_image_label)


def main(data: str, directory: str) -> None:
    """Train, and print what came of it."""
    spark = tos.connect()
    sc = spark.sparkContext
    mnist.set_data_dir(data)
    events: list[Event] = []
    train = records(sc, mnist.train_image_path, mnist.train_label_path).cache()
    test = records(sc, mnist.test_image_path, mnist.test_label_path).collect()
    session = tos.TrainingSession(
        spark, softmax_that_counts(), combiner="downpour", batch_size=50, checkpoint_dir=directory
    )
    with session:
        run = session.run(train, epochs=EPOCHS, repartition_every=2, sinks=[events.append])
        images, labels = map(np.stack, zip(*test, strict=True))
        found = {
            "master": sc.master,
            "epochs": [e.samples for e in events if isinstance(e, EpochFinished)],
            "history": run.history.groupby("epoch")["samples"].sum().tolist(),
            "rows": float(run.parameters()["rows"]),
            "accuracy": run.evaluate(images, labels)["accuracy"],
            "executors": sorted({e.executor for e in events if isinstance(e, WorkerJoined)}),
        }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
