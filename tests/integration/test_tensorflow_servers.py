"""Programs drive a cluster of idle TensorFlow servers from the notebook."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from pyspark.sql import SparkSession

from tests.support.python_workers import own_python_workers
from tos_notebook.errors import ConfigError
from tos_notebook.nodes.ports import _outer_addresses
from tos_notebook.nodes.servers import TensorFlowCluster, tensorflow_cluster


@pytest.fixture(scope="module")
def spark(spark_context: Any) -> Iterator[SparkSession]:
    with own_python_workers(spark_context) as sc:
        yield SparkSession(sc)


@pytest.fixture(scope="module")
def local(spark: SparkSession) -> Iterator[TensorFlowCluster]:
    with tensorflow_cluster(spark, {"local": 2}) as cluster:
        yield cluster


def test_a_calculator_runs_each_part_on_the_task_that_is_named(local: TensorFlowCluster) -> None:
    with tf.Graph().as_default():
        with tf.device("/job:local/task:0"):
            added = tf.constant(6.0) + tf.constant(2.0)
        with tf.device("/job:local/task:1"):
            result = added * tf.constant(3.0)
        with tf.compat.v1.Session(local.target("local", 0)) as session:
            devices = {device.name for device in session.list_devices()}
            assert session.run(result) == 24.0
    assert {f"/job:local/replica:0/task:{task}/device:CPU:0" for task in (0, 1)} <= devices


def test_a_mean_is_mapped_to_two_tasks_and_reduced_in_one(local: TensorFlowCluster) -> None:
    numbers = np.arange(100, dtype=np.float64)
    with tf.Graph().as_default():
        fed = tf.compat.v1.placeholder(tf.float64, [100])
        parts = []
        for task in (0, 1):
            with tf.device(f"/job:local/task:{task}"):
                parts.append(tf.reduce_mean(fed[50 * task : 50 * (task + 1)]))
        with tf.device("/job:local/task:1"):
            mean = tf.add_n(parts) / 2
        with tf.compat.v1.Session(local.target("local", 1)) as session:
            assert session.run(mean, {fed: numbers}) == numbers.mean()


def test_other_spark_jobs_run_beside_the_servers(
    local: TensorFlowCluster, spark: SparkSession
) -> None:
    assert spark.sparkContext.parallelize(range(100), 4).sum() == 4950
    local.check()


def test_servers_answer_this_host_only(local: TensorFlowCluster) -> None:
    port = int(local.spec["local"][0].rpartition(":")[2])
    outer = [address[:2] for _, address in _outer_addresses(port) if "fe80" not in address[0]]
    for address in [("127.0.0.1", port), *outer]:
        with socket.create_connection(address, 5) as client:
            client.settimeout(5.0 if address[0] == "127.0.0.1" else 0.5)
            # The beginning of HTTP/2, which gRPC speaks.
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            if address[0] == "127.0.0.1":
                assert client.recv(9)
            else:
                with pytest.raises(TimeoutError):
                    client.recv(9)


def test_servers_are_gone_when_the_cluster_is_left(spark: SparkSession) -> None:
    with tensorflow_cluster(spark, {"worker": 1}) as cluster:
        host, _, port = cluster.spec["worker"][0].rpartition(":")
        socket.create_connection((host, int(port)), 5).close()
        assert cluster.target("worker") == f"grpc://{host}:{port}"
        with pytest.raises(ConfigError, match=r"worker:0-0; got worker:1"):
            cluster.target("worker", 1)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)), 5)


@pytest.mark.parametrize("jobs", [{}, {"ps": 0}, {"a b": 1}, {"ps": True}, {1: 1}], ids=str)
def test_jobs_that_do_not_fit_are_refused(spark: SparkSession, jobs: Any) -> None:
    with pytest.raises(ConfigError, match="jobs: expected"):
        tensorflow_cluster(spark, jobs)


def test_servers_open_to_a_network_need_to_be_asked_for(spark: SparkSession) -> None:
    spark.sparkContext._conf.set("spark.tos.server.host", "192.0.2.7")
    try:
        with pytest.raises(ConfigError, match="insecure_network=True"):
            tensorflow_cluster(spark, {"worker": 1})
    finally:
        spark.sparkContext._conf.set("spark.tos.server.host", "127.0.0.1")
