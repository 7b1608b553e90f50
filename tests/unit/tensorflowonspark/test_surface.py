"""What programs call is there, with the arguments that TensorFlowOnSpark 2.2.5 takes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tos_notebook.tensorflowonspark import (
    TFCluster,
    TFManager,
    TFNode,
    TFParallel,
    TFSparkNode,
    compat,
    dfutil,
    gpu_info,
    pipeline,
    reservation,
)

MODES = TFCluster.InputMode

RUN = {
    "sc": ...,
    "map_fun": ...,
    "tf_args": ...,
    "num_executors": ...,
    "num_ps": ...,
    "tensorboard": False,
    "input_mode": MODES.TENSORFLOW,
    "log_dir": None,
    "driver_ps_nodes": False,
    "master_node": None,
    "reservation_timeout": 600,
    "queues": ("input", "output", "error"),
    "eval_node": False,
    "release_port": True,
}
FEED = {"train_mode": True, "qname_in": "input", "qname_out": "output", "input_mapping": None}
CONTEXT = {
    "executor_id": 0,
    "job_name": "",
    "task_index": 0,
    "cluster_spec": None,
    "defaultFS": "file://",
    "working_dir": ".",
    "mgr": None,
    "tmp_socket": None,
}

SIGNATURES: list[tuple[Any, dict[str, Any]]] = [
    (TFCluster.run, RUN),
    (
        TFCluster.TFCluster.train,
        {"dataRDD": ..., "num_epochs": 0, "feed_timeout": 600, "qname": "input"},
    ),
    (TFCluster.TFCluster.inference, {"dataRDD": ..., "feed_timeout": 600, "qname": "input"}),
    (TFCluster.TFCluster.shutdown, {"ssc": None, "grace_secs": 0, "timeout": 259200}),
    (TFCluster.TFCluster.tensorboard_url, {}),
    (TFSparkNode.TFNodeContext.__init__, CONTEXT),
    (TFSparkNode.TFNodeContext.absolute_path, {"path": ...}),
    (TFSparkNode.TFNodeContext.get_data_feed, FEED),
    (TFSparkNode.TFNodeContext.release_port, {}),
    (TFSparkNode.TFNodeContext.start_cluster_server, {"num_gpus": 1, "rdma": False}),
    (
        TFSparkNode.TFNodeContext.export_saved_model,
        {"sess": ..., "export_dir": ..., "tag_set": ..., "signatures": ...},
    ),
    (TFNode.hdfs_path, {"ctx": ..., "path": ...}),
    (TFNode.DataFeed.__init__, {"mgr": ..., **FEED}),
    (TFNode.DataFeed.next_batch, {"batch_size": ...}),
    (TFNode.DataFeed.should_stop, {}),
    (TFNode.DataFeed.batch_results, {"results": ...}),
    (TFNode.DataFeed.terminate, {}),
    (TFManager.start, {"authkey": ..., "queues": ..., "mode": "local"}),
    (
        TFParallel.run,
        {"sc": ..., "map_fn": ..., "tf_args": ..., "num_executors": ..., "use_barrier": True},
    ),
    (compat.export_saved_model, {"model": ..., "export_dir": ..., "is_chief": False}),
    (compat.disable_auto_shard, {"options": ...}),
    (compat.is_gpu_available, {}),
    (dfutil.saveAsTFRecords, {"df": ..., "output_dir": ...}),
    (dfutil.loadTFRecords, {"sc": ..., "input_dir": ..., "binary_features": ()}),
    (dfutil.isLoadedDF, {"df": ...}),
    (dfutil.toTFExample, {"dtypes": ...}),
    (dfutil.fromTFExample, {"iter": ..., "binary_features": ()}),
    (dfutil.infer_schema, {"example": ..., "binary_features": ()}),
    (gpu_info.get_gpus, {"num_gpu": 1, "worker_index": -1, "format": gpu_info.AS_STRING}),
    (pipeline.TFEstimator.__init__, {"train_fn": ..., "tf_args": ..., "export_fn": None}),
    (pipeline.TFModel.__init__, {"tf_args": ...}),
    (reservation.Server.__init__, {"count": ...}),
    (reservation.Server.await_reservations, {"sc": ..., "status": None, "timeout": 600}),
    (reservation.Client.__init__, {"server_addr": ...}),
]


@pytest.mark.parametrize(("call", "expected"), SIGNATURES)
def test_it_takes_what_it_took(call: Any, expected: dict[str, Any]) -> None:
    parameters = inspect.signature(call).parameters.values()
    found = {p.name: ... if p.default is p.empty else p.default for p in parameters}
    found.pop("self", None)
    assert list(found.items()) == list(expected.items())


def test_a_feed_is_of_the_kind_that_was_named() -> None:
    assert (MODES.TENSORFLOW, MODES.SPARK) == (0, 1)


@pytest.mark.usefixtures("spark")
def test_stages_of_a_pipeline_have_the_defaults_that_they_had() -> None:
    estimator = pipeline.TFEstimator(lambda args, ctx: None, {})
    found = {param.name: estimator.getOrDefault(param) for param in estimator.params}
    assert found == {
        "input_mapping": {},
        "cluster_size": 1,
        "num_ps": 0,
        "driver_ps_nodes": False,
        "input_mode": MODES.SPARK,
        "master_node": "chief",
        "protocol": "grpc",
        "tensorboard": False,
        "model_dir": None,
        "export_dir": None,
        "tfrecord_dir": None,
        "batch_size": 100,
        "epochs": 1,
        "readers": 1,
        "steps": 1000,
        "grace_secs": 30,
    }
    model = pipeline.TFModel({})
    found = {param.name: model.getOrDefault(param) for param in model.params}
    assert found == {
        "input_mapping": {},
        "output_mapping": {},
        "batch_size": 100,
        "model_dir": None,
        "export_dir": None,
        "signature_def_key": None,
        "tag_set": None,
    }
