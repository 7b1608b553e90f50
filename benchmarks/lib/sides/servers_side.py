"""TensorFlow's `ParameterServerStrategy` trains: two workers, a parameter server, a coordinator."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import sys
from contextlib import closing
from time import perf_counter
from typing import Any

import numpy as np
from network import network

WORKERS = 2
TOGETHER = 10
"""Steps of a call: an update and a read of the parameters for each, without Python between."""


def main(path: str, batch_size: str) -> None:
    """Train whenever a number of epochs comes."""
    cluster = {
        "worker": [f"localhost:{_free_port()}" for _ in range(WORKERS)],
        "ps": [f"localhost:{_free_port()}"],
    }
    context = multiprocessing.get_context("spawn")
    tasks = [(kind, index) for kind, places in cluster.items() for index in range(len(places))]
    for task in tasks:
        context.Process(target=_serve, args=(cluster, *task), daemon=True).start()
    train = _trainer(cluster, np.load(path), int(batch_size))
    for line in sys.stdin:
        print(json.dumps(train(int(line))), flush=True)


def _serve(cluster: dict[str, list[str]], kind: str, index: int) -> None:
    import tensorflow as tf

    # As executors of ours have one core each.
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    spec = tf.train.ClusterSpec(cluster)
    tf.distribute.Server(spec, job_name=kind, task_index=index, protocol="grpc").join()


def _trainer(cluster: dict[str, list[str]], data: Any, batch_size: int) -> Any:
    import tensorflow as tf

    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": cluster, "task": {"type": "chief", "index": 0}}
    )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = [tf.Variable(array) for array in network().get_weights()]
    x, y = data["x"], data["y"].astype(np.int64)

    def rows() -> Any:
        found = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).repeat()
        return found.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    def probabilities(images: Any) -> Any:
        first, one, second, two, third, three = weights
        hidden = tf.nn.relu(images @ first + one)
        return tf.nn.relu(hidden @ second + two) @ third + three

    @tf.function
    def steps(batches: Any) -> None:
        for _ in tf.range(TOGETHER):
            images, labels = next(batches)
            with tf.GradientTape() as tape:
                found = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels, probabilities(images)
                )
                loss = tf.reduce_mean(found)
            for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_sub(0.1 * gradient)

    batches = iter(coordinator.create_per_worker_dataset(rows))

    def train(epochs: int) -> dict[str, float]:
        for weight, array in zip(weights, network().get_weights(), strict=True):
            weight.assign(array)
        began = perf_counter()
        for _ in range(epochs * len(x) // (batch_size * TOGETHER)):
            coordinator.schedule(steps, (batches,))
        coordinator.join()
        seconds = perf_counter() - began
        guesses = tf.argmax(probabilities(data["x_test"]), 1)
        right = tf.reduce_mean(tf.cast(guesses == data["y_test"].astype(np.int64), tf.float32))
        return {"seconds": seconds, "accuracy": float(right)}

    return train


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        port: int = sock.getsockname()[1]
        return port


if __name__ == "__main__":
    main(*sys.argv[1:])
