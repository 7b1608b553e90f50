"""A cluster of TensorFlow's, and a SavedModel, as stages of a Spark ML pipeline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.ml import Estimator, Model

from ..cluster.executors import task_cores
from ..common import temporary
from ..common.checks import at_least_one
from ..data.dataframe.kinds import quoted
from ..errors import ConfigError, DataError, UnsupportedProgram
from ..inference.servable import publish
from . import util
from .namespace import Namespace
from .params import (
    SPARK,
    HasBatchSize,
    HasClusterSize,
    HasEpochs,
    HasExportDir,
    HasGraceSecs,
    HasInputMapping,
    HasInputMode,
    HasMasterNode,
    HasModelDir,
    HasNumPS,
    HasOutputMapping,
    HasProtocol,
    HasReaders,
    HasSignatureDefKey,
    HasSteps,
    HasTagSet,
    HasTensorboard,
    HasTFRecordDir,
    TFParams,
    TFTypeConverters,
)
from .scoring import Scorer, yield_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from ..archive.spec import Port

__all__ = [
    "HasBatchSize",
    "HasClusterSize",
    "HasEpochs",
    "HasExportDir",
    "HasGraceSecs",
    "HasInputMapping",
    "HasInputMode",
    "HasMasterNode",
    "HasModelDir",
    "HasNumPS",
    "HasOutputMapping",
    "HasProtocol",
    "HasReaders",
    "HasSignatureDefKey",
    "HasSteps",
    "HasTFRecordDir",
    "HasTagSet",
    "HasTensorboard",
    "Namespace",
    "TFEstimator",
    "TFModel",
    "TFParams",
    "TFTypeConverters",
    "single_node_env",
    "yield_batch",
]


class TFEstimator(
    Estimator,
    TFParams,
    HasInputMapping,
    HasClusterSize,
    HasNumPS,
    HasInputMode,
    HasMasterNode,
    HasProtocol,
    HasGraceSecs,
    HasTensorboard,
    HasModelDir,
    HasExportDir,
    HasTFRecordDir,
    HasBatchSize,
    HasEpochs,
    HasReaders,
    HasSteps,
):
    """Trains by a function that runs on each node of a cluster, which Spark feeds with a DataFrame.

    Parameters
    ----------
    train_fn : callable
        Takes the arguments, with the parameters among them, and a node's context.
    tf_args : dict, argparse.Namespace, list of str, or Namespace
        The function's own arguments; a list of words is all that it gets.
    export_fn : None
        Of TensorFlow 1. Export the model in `train_fn`.

    Raises
    ------
    ConfigError
        There is an `export_fn`, or `tf_args` are of another type.
    """

    def __init__(
        self, train_fn: Callable[[Any, Any], object], tf_args: Any, export_fn: None = None
    ) -> None:
        super().__init__()
        if export_fn is not None:
            raise ConfigError(
                "export_fn: TensorFlow 2 has no sessions to export. Call "
                "compat.export_saved_model(model, args.export_dir, ctx.job_name == 'chief') at the "
                "end of train_fn."
            )
        self.train_fn = train_fn
        self.args = Namespace(tf_args)
        self._setDefault(
            input_mapping={},
            cluster_size=1,
            num_ps=0,
            driver_ps_nodes=False,
            input_mode=SPARK,
            master_node="chief",
            protocol="grpc",
            tensorboard=False,
            model_dir=None,
            export_dir=None,
            tfrecord_dir=None,
            batch_size=100,
            epochs=1,
            readers=1,
            steps=1000,
            grace_secs=30,
        )

    def _fit(self, dataset: DataFrame) -> TFModel:
        from . import TFCluster

        columns = sorted(self.getInputMapping())
        _check_columns(dataset, columns)
        args = self.merge_args_params()
        cluster = TFCluster.run(
            dataset.sparkSession.sparkContext,
            self.train_fn,
            self.args.argv or args,
            args.cluster_size,
            args.num_ps,
            args.tensorboard,
            TFCluster.InputMode.SPARK,
            master_node=args.master_node,
            driver_ps_nodes=args.driver_ps_nodes,
        )
        try:
            # Nodes take the columns in the order of their names, whatever the mapping's own is.
            cluster.train(dataset.select(*map(quoted, columns)).rdd, args.epochs)
            cluster.shutdown(grace_secs=self.getGraceSecs())
        finally:
            # After an error, too: nodes that take no rows would not end by themselves.
            cluster.close()
        return self._copyValues(TFModel(self.args))


class TFModel(
    Model,
    TFParams,
    HasInputMapping,
    HasOutputMapping,
    HasBatchSize,
    HasModelDir,
    HasExportDir,
    HasSignatureDefKey,
    HasTagSet,
):
    """Computes columns by a SavedModel, which each Python process on the executors loads once.

    Parameters
    ----------
    tf_args : dict, argparse.Namespace, list of str, or Namespace
        Arguments; `num_gpus` among them says how many GPUs a task is to see, 1 by default.
    """

    def __init__(self, tf_args: Any) -> None:
        super().__init__()
        self.args = Namespace(tf_args)
        self._setDefault(
            input_mapping={},
            output_mapping={},
            batch_size=100,
            model_dir=None,
            export_dir=None,
            signature_def_key=None,
            tag_set=None,
        )

    def _transform(self, dataset: DataFrame) -> DataFrame:
        from pyspark.sql.types import StructField, StructType

        from ..program.saved_models import SavedModel, load_model

        args = self.merge_args_params()
        at_least_one("batch_size", args.batch_size)
        if not args.export_dir:
            raise ConfigError("export_dir: expected the folder of a SavedModel; it is not set.")
        tags = args.tag_set.split(",") if args.tag_set else ()
        model = load_model(args.export_dir, signature=args.signature_def_key, tags=tags)
        if not isinstance(model, SavedModel):
            raise ConfigError(
                f"export_dir: expected the folder of a SavedModel, got {args.export_dir}. "
                "tos_notebook.load_model predicts by .keras files."
            )
        inputs, outputs = sorted(args.input_mapping.items()), sorted(args.output_mapping.items())
        _check_columns(dataset, [column for column, _ in inputs])
        taken = tuple(name for _, name in inputs)
        _check_names("input_mapping", taken, [port.name for port in model.inputs])
        known = {port.name: port for port in model.outputs}
        made = tuple(name for name, _ in outputs)
        _check_names("output_mapping", made, known, complete=False)
        sc = dataset.sparkSession.sparkContext
        with temporary.directory("tos-transform-") as folder:
            archive = Path(folder, "model.zip")
            model.serve([], archive)
            name = publish(sc, archive)
        gpus = util.requested_gpus(self.args)
        task = Scorer(name, taken, made, args.batch_size, task_cores(sc), gpus)
        rows = dataset.select(*(quoted(column) for column, _ in inputs)).rdd.mapPartitions(task)
        schema = StructType([StructField(column, _type(known[name])) for name, column in outputs])
        return dataset.sparkSession.createDataFrame(rows, schema, verifySchema=False)


def _check_columns(dataset: DataFrame, columns: Collection[str]) -> None:
    """Refuse a mapping of no columns, or of those that are not there."""
    if not columns:
        raise ConfigError(
            "input_mapping: expected inputs by columns, such as setInputMapping({'image': 'x'}); "
            "got none."
        )
    absent = [column for column in columns if column not in dataset.columns]
    if absent:
        raise DataError(
            f"input_mapping: the DataFrame has no column {', '.join(absent)}. It has "
            f"{', '.join(dataset.columns)}."
        )


def _check_names(
    param: str, given: Collection[str], known: Collection[str], complete: bool = True
) -> None:
    """Refuse names that are not the model's, or twice; and too few of them, if all are needed."""
    wanted = set(known)
    if len(set(given)) == len(given) and (
        set(given) == wanted if complete else given and set(given) <= wanted
    ):
        return
    amount = "each" if complete else "one or more"
    raise ConfigError(
        f"{param}: expected {amount} of the SavedModel's names {', '.join(known)}; got "
        f"{', '.join(given) or 'none'}. TensorFlow's saved_model_cli show also lists them."
    )


def _type(port: Port) -> DataType:
    """Return the type of a column of Python's values of an output."""
    from pyspark.sql.types import ArrayType, BinaryType, BooleanType, DoubleType, LongType

    kinds = {"float": DoubleType, "bfloat": DoubleType, "int": LongType, "uint": LongType}
    kinds |= {"bool": BooleanType, "string": BinaryType}
    kind = kinds.get((port.dtype or "").rstrip("0123456789"))
    if kind is None:
        raise UnsupportedProgram(
            f"Output {port.name!r}: expected numbers, booleans or strings, got {port.dtype}."
        )
    found: DataType = kind()
    for _ in port.shape or ():
        found = ArrayType(found)
    return found


def single_node_env(args: Any) -> None:
    """Prepare this process for TensorFlow by itself.

    Parameters
    ----------
    args : object
        A program's arguments: words of a command line become ``sys.argv``, `num_gpus` says how many
        GPUs TensorFlow is to see.
    """
    words = args if isinstance(args, list) else getattr(args, "argv", None)
    if words:
        sys.argv = words
    util.single_node_env(util.requested_gpus(args))
