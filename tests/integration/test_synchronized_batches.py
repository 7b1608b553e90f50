"""Nodes that make each step together train every row once, however uneven their partitions are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tos_notebook.nodes.context import NodeContext
from tos_notebook.tensorflowonspark import TFCluster
from tos_notebook.tensorflowonspark.TFCluster import InputMode

FEATURES, BATCH, RATE = 4, 8, 0.1


def train(folder: str, ctx: NodeContext) -> None:
    """Fit a linear model on all nodes at once; write the weights, and the rows of each step."""
    import json

    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.zeros([FEATURES, 1], tf.float64))

    def of_one(features: Any, targets: Any) -> None:
        context = tf.distribute.get_replica_context()
        error = features @ weights - targets
        rows = context.all_reduce("SUM", tf.cast(tf.shape(features)[0], tf.float64))
        gradient = context.all_reduce("SUM", tf.transpose(features) @ error)
        weights.assign_sub(RATE * gradient / rows, read_value=False)

    either = tf.TensorSpec([None, FEATURES], tf.float64), tf.TensorSpec([None, 1], tf.float64)
    step = tf.function(lambda x, y: strategy.run(of_one, (x, y)), input_signature=either)
    made = []
    for rows in ctx.get_data_feed().synchronized_batches(BATCH):
        given = np.reshape([row[1:] for row in rows], (-1, FEATURES + 1))
        step(tf.constant(given[:, :-1]), tf.constant(given[:, -1:]))
        made.append([row[0] for row in rows])
    found = {"rows": made, "weights": weights.numpy().tolist()}
    Path(folder, f"{ctx.worker_num}.json").write_text(json.dumps(found))


def test_uneven_partitions_train_as_one_process_does_with_the_same_rows(
    spark_context: Any, tmp_path: Path
) -> None:
    import json

    random = np.random.default_rng(0)
    data = random.normal(size=(203, FEATURES + 1))
    rows = [(number, *row) for number, row in enumerate(data.tolist())]
    # More than half of the rows are one node's, and a partition has none.
    parts = [
        spark_context.parallelize(part, 1) for part in (rows[:150], rows[150:160], [], rows[160:])
    ]
    cluster = TFCluster.run(
        spark_context, train, str(tmp_path), 2, 0, input_mode=InputMode.SPARK, master_node="chief"
    )
    try:
        cluster.train(spark_context.union(parts), num_epochs=1)
        cluster.shutdown(timeout=120)
    finally:
        cluster._cluster.stop()
    found = [json.loads(Path(tmp_path, f"{number}.json").read_text()) for number in (0, 1)]
    steps = [first + second for first, second in zip(*(f["rows"] for f in found), strict=True)]
    assert sorted(row for step in steps for row in step) == list(range(203))
    weights = np.zeros((FEATURES, 1))
    for step in steps:
        features, targets = data[step, :-1], data[step, -1:]
        weights -= RATE * features.T @ (features @ weights - targets) / len(step)
    for each in found:
        np.testing.assert_allclose(each["weights"], weights, rtol=1e-9)
