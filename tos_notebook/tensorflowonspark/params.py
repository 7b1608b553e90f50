"""The parameters of `TFEstimator` and `TFModel`, each with its methods to set and get it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters

from ..errors import ConfigError
from .namespace import Namespace

TENSORFLOW, SPARK = 0, 1
"""How nodes get their data: they read it, or Spark feeds it to them."""


class TFTypeConverters:
    """What Spark ML has no converter for."""

    @staticmethod
    def toDict(value: Any) -> dict[str, str]:
        """Return a mapping as a dict.

        Raises
        ------
        TypeError
            It is none; Spark ML names the parameter.
        """
        if isinstance(value, Mapping):
            return dict(value)
        raise TypeError(f"Could not convert {value!r} to a dict: expected names by names.")


_int, _bool, _str = TypeConverters.toInt, TypeConverters.toBoolean, TypeConverters.toString


def _param(name: str, doc: str, converter: Callable[[Any], Any]) -> Any:
    return Param(Params._dummy(), name, doc, typeConverter=converter)


def _methods(name: str) -> tuple[Any, Any]:
    """Return a parameter's method that sets it and returns the object, and the one to get it."""

    def set_value(self: Any, value: Any) -> Any:
        return self._set(**{name: value})

    def get_value(self: Any) -> Any:
        return self.getOrDefault(name)

    set_value.__doc__ = f"Set `{name}`, and return this object."
    get_value.__doc__ = f"Return `{name}`, or its default."
    return set_value, get_value


class HasBatchSize(Params):
    """Rows of a batch."""

    batch_size = _param("batch_size", "rows of a batch", _int)
    setBatchSize, getBatchSize = _methods("batch_size")


class HasClusterSize(Params):
    """Nodes of the cluster."""

    cluster_size = _param("cluster_size", "nodes of the cluster, each on an executor", _int)
    setClusterSize, getClusterSize = _methods("cluster_size")


class HasEpochs(Params):
    """How often all rows are fed."""

    epochs = _param("epochs", "how often all rows are fed", _int)
    setEpochs, getEpochs = _methods("epochs")


class HasGraceSecs(Params):
    """Time to finish in."""

    grace_secs = _param("grace_secs", "seconds for nodes to finish, once all rows are fed", _int)
    setGraceSecs, getGraceSecs = _methods("grace_secs")


class HasInputMapping(Params):
    """Columns that are fed."""

    input_mapping = _param(
        "input_mapping", "inputs by the columns that they are fed with", TFTypeConverters.toDict
    )
    setInputMapping, getInputMapping = _methods("input_mapping")


class HasInputMode(Params):
    """How nodes get their data."""

    input_mode = _param("input_mode", "who reads the data: 1 for Spark", _int)
    _, getInputMode = _methods("input_mode")

    def setInputMode(self, value: int) -> Any:
        """Set `input_mode`, and return this object.

        Raises
        ------
        ConfigError
            Nodes cannot read a DataFrame themselves.
        """
        if value == TENSORFLOW:
            raise ConfigError(
                "input_mode: expected InputMode.SPARK, since an estimator feeds the DataFrame to "
                "its nodes; got InputMode.TENSORFLOW. For nodes that read files use TFCluster.run."
            )
        return self._set(input_mode=value)


class HasMasterNode(Params):
    """The first node's job."""

    master_node = _param("master_node", "job of the first node: chief, master or none", _str)
    setMasterNode, getMasterNode = _methods("master_node")


class HasModelDir(Params):
    """Where checkpoints are."""

    model_dir = _param("model_dir", "path of the checkpoints", _str)
    setModelDir, getModelDir = _methods("model_dir")


class HasNumPS(Params):
    """Parameter servers of TensorFlow's."""

    num_ps = _param("num_ps", "how many nodes are parameter servers", _int)
    driver_ps_nodes = _param("driver_ps_nodes", "whether those run on the driver", _bool)
    setNumPS, getNumPS = _methods("num_ps")
    setDriverPSNodes, getDriverPSNodes = _methods("driver_ps_nodes")


class HasOutputMapping(Params):
    """Columns that are made."""

    output_mapping = _param(
        "output_mapping", "columns by the outputs that they are made of", TFTypeConverters.toDict
    )
    setOutputMapping, getOutputMapping = _methods("output_mapping")


class HasProtocol(Params):
    """How nodes talk to each other."""

    protocol = _param("protocol", "protocol of TensorFlow's servers, such as grpc", _str)
    setProtocol, getProtocol = _methods("protocol")


class HasReaders(Params):
    """Threads that read."""

    readers = _param("readers", "threads that read", _int)
    setReaders, getReaders = _methods("readers")


class HasSteps(Params):
    """When to stop."""

    steps = _param("steps", "steps after which training ends", _int)
    setSteps, getSteps = _methods("steps")


class HasTensorboard(Params):
    """TensorBoard beside the nodes."""

    tensorboard = _param("tensorboard", "whether a node starts TensorBoard", _bool)
    setTensorboard, getTensorboard = _methods("tensorboard")


class HasTFRecordDir(Params):
    """Where a DataFrame may be written for nodes to read."""

    tfrecord_dir = _param("tfrecord_dir", "path of TFRecord files made of a DataFrame", _str)
    setTFRecordDir, getTFRecordDir = _methods("tfrecord_dir")


class HasExportDir(Params):
    """Where the SavedModel is."""

    export_dir = _param("export_dir", "path or Hadoop URI of the SavedModel", _str)
    setExportDir, getExportDir = _methods("export_dir")


class HasSignatureDefKey(Params):
    """How a SavedModel is called."""

    signature_def_key = _param("signature_def_key", "which of a SavedModel's signatures", _str)
    setSignatureDefKey, getSignatureDefKey = _methods("signature_def_key")

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(signature_def_key=None)


class HasTagSet(Params):
    """Which graph of a SavedModel."""

    tag_set = _param("tag_set", "tags of one of a SavedModel's graphs, with commas", _str)
    setTagSet, getTagSet = _methods("tag_set")


class TFParams(Params):
    """Holds a program's arguments beside its parameters."""

    args: Any = None

    def merge_args_params(self) -> Namespace:
        """Return a copy of the arguments, to which the parameters were added or which they replace.

        Raises
        ------
        KeyError
            A parameter has neither a value nor a default.
        """
        merged: Namespace = copy.copy(self.args)
        vars(merged).update({param.name: self.getOrDefault(param) for param in self.params})
        return merged
