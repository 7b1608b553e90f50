"""Let preprocessing layers of Keras learn from columns of a DataFrame, where the rows lie."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from ...archive.spec import FeedSpec
from ...blocks.block import BLOCK_ROWS
from ...blocks.feeds import check_columns
from ...cluster.backend import require_jvm, spark_context
from ...cluster.calls import announced
from ...cluster.executors import task_cores
from ...cluster.jobs import spoken
from ...common import temporary
from ...common.told import told
from ...data.dataframe import FrameColumns, columns
from ...data.dataframe.quantiles import quantiles
from ...data.described import is_frame
from ...data.rdd import RddSource
from ...errors import ConfigError, DataError, ShapeMismatch
from ...inference.servable import Published, publish
from ...inference.statistics import (
    NOTHING,
    Tokenize,
    added,
    by_frequency,
    counted,
    is_token,
    is_total,
    joined,
    moments,
)
from ...inference.task import predict_published
from ...runtime.eager import eagerly
from ..export.serving import serve

logger = logging.getLogger(__name__)

SPECIAL = 2
"""Tokens that may be among the most frequent ones, but that the layer has a number for already."""


@told("Learning from the rows", "adapt")
def adapt(layer: Any, data: Any, column: Any = None) -> Any:
    """Adapt a preprocessing layer to a column of a Spark DataFrame, and return the layer.

    It is what ``layer.adapt(values)`` does, without bringing the rows to the driver: executors
    count tokens and add up values, and the driver gets sums.

    Parameters
    ----------
    layer : keras.layers.Layer or keras.utils.FeatureSpace
        A ``StringLookup``, ``IntegerLookup``, ``TextVectorization``, ``Normalization`` over the
        last axis, or ``Discretization``. Or a feature space, each of whose features has the name of
        a column.
    data : DataFrame or FrameColumns
        Of Spark. What `tos_notebook.columns` returns, of one feature, also says what becomes of bad
        rows: with ``on_bad="skip"`` a warning is logged that says how many were left out.
    column : str, Column, or sequence of them
        As `tos_notebook.columns` takes features; several for a ``Normalization`` of several
        numbers. None for a feature space.

    Raises
    ------
    ConfigError
        The layer learns nothing, or not in this way.
    DataError
        The column is missing, has bad rows, more of them than allowed or nothing else, or is of a
        type or shape that the layer does not take.
    ShapeMismatch
        Its numbers cannot be of the layer's dtype, or a layer that is built takes rows of another
        width.

    Notes
    -----
    Means and variances are those of Keras up to rounding. The boundaries of a ``Discretization``
    are quantiles of Spark, which are as close as the layer's ``epsilon`` says.

    Examples
    --------
    >>> lookup = tos.adapt(keras.layers.StringLookup(), df, "color")          # doctest: +SKIP
    """
    if isinstance(layer, keras.utils.FeatureSpace):
        return _adapt_space(layer, data)
    kind = _learner(layer, "layer")
    described = _described(data, column)
    with spoken(), eagerly(), announced(f"Spark to read column {described.names[0]!r}"):
        _ADAPT[kind](layer, described)
    return layer


def _learner(layer: Any, what: str) -> Any:
    """Return which of our kinds a layer is of; refuse one that was made with what it would learn.

    Parameters
    ----------
    layer : keras.layers.Layer
    what : str
        What the user gave it as.
    """
    kind = next((k for k in _ADAPT if isinstance(layer, k)), None)
    if kind is None:
        names = ", ".join(k.__name__ for k in (*_ADAPT, keras.utils.FeatureSpace))
        raise ConfigError(f"{what}: expected one of {names}, got {type(layer).__name__}.")
    name = type(layer).__name__
    if getattr(layer, "_has_input_vocabulary", False):
        raise ConfigError(
            f"{what}: expected a {name} without vocabulary=, which it would keep. Leave it out to "
            "let the layer learn from the rows, or use the layer by itself, without adapting it."
        )
    if isinstance(layer, layers.Normalization):
        _check_normalization(layer, what)
    if isinstance(layer, layers.Discretization):
        _check_discretization(layer, what)
    return kind


def _check_normalization(layer: Any, what: str) -> None:
    if layer.input_mean is not None:
        raise ConfigError(f"{what}: expected a Normalization without mean=, which it would keep.")
    if layer.axis not in ((-1,), ()):
        raise ConfigError(
            f"{what}: expected a Normalization with axis=-1 or None, got axis={layer.axis}. Call "
            "layer.adapt(values) with some of the rows."
        )


def _check_discretization(layer: Any, what: str) -> None:
    if layer.num_bins is None or layer.num_bins < 2:
        got = "bin_boundaries=" if layer.num_bins is None else layer.num_bins
        raise ConfigError(
            f"{what}: expected a Discretization with num_bins= of at least 2, got {got}. Only then "
            "are there boundaries to learn."
        )


def _described(data: Any, column: Any) -> FrameColumns:
    if is_frame(data):
        if column is None:
            raise ConfigError("column: expected the column of the DataFrame to adapt to, got None.")
        several = isinstance(column, list | tuple)
        data = columns(data, {"x": column} if several else column)
    if not isinstance(data, FrameColumns):
        raise DataError(
            f"data: expected a Spark DataFrame, or tos.columns(df, ...), got "
            f"{type(data).__name__}. For data in the driver call layer.adapt(values)."
        )
    if len(data.names) != 1 or data.label:
        raise ConfigError(
            f"data: expected one column and no label, got {', '.join(data.names)}. Adapt one layer "
            "to one column."
        )
    return data


def _adapt_space(space: Any, data: Any) -> Any:
    names = space._list_adaptable_preprocessors()
    # Before the first job, which may take long.
    for name in names:
        _learner(space.preprocessors[name], f"feature {name!r}")
    for name in names:
        adapt(space.preprocessors[name], data, name)
    # What its own adapt does afterwards.
    space._is_adapted = True
    with eagerly():
        space.get_encoded_features()
    space.built = space._sublayers_built = True
    return space


def _source(data: FrameColumns, dtype: str | None = None) -> RddSource:
    feeds = [FeedSpec("x", dtype, None)]
    source = data.source(spark_context(data.frame.sparkSession), feeds)
    check_columns(source.columns, feeds)
    return source


def _check_rows(source: RddSource, name: str, any_left: bool) -> None:
    """Say how many rows the jobs over a column have left out; refuse too many, and no others."""
    source.check_skipped()
    skipped = sum(left_out.rows for left_out in source.skipped)
    if skipped:
        logger.warning("adapt: %d bad rows of column %r were left out.", skipped, name)
    if not any_left:
        raise DataError(f"Column {name!r}: expected at least one value, got none.")


def _adapt_lookup(layer: Any, data: FrameColumns) -> None:
    _learn(layer, data, _tokens_of(layer, data), None)


def _adapt_text(layer: Any, data: FrameColumns) -> None:
    lookup = layer._lookup_layer
    source = _tokens_of(lookup, data)
    shape = source.columns[0].shape
    if shape not in ((), (1,)):
        raise DataError(
            f"Column {data.names[0]!r}: expected one string a row for this layer, got arrays of "
            f"shape {shape}. Join them in Spark, such as with F.concat_ws, or give their strings "
            "as they are to a StringLookup."
        )

    def tokens(text: tf.Tensor) -> dict[str, tf.Tensor]:
        found = layer._preprocess(tf.reshape(text, [-1]))
        dense = found.to_tensor(b"") if isinstance(found, tf.RaggedTensor) else found
        return {"tokens": tf.reshape(dense, [tf.shape(text)[0], -1])}

    sc = spark_context(data.frame.sparkSession)
    with temporary.directory("tos-adapt-") as folder:
        target = Path(folder, "tokens.zip")
        serve(tokens, [("text", tf.TensorSpec([None, *shape], tf.string))], [], target)
        model = Published(publish(sc, target))
        tokenize = partial(predict_published, model, task_cores(sc), BLOCK_ROWS)
    _learn(lookup, data, source, tokenize)


def _tokens_of(lookup: Any, data: FrameColumns) -> RddSource:
    """Return the rows that a lookup counts."""
    is_text = data.columns[data.names[0]].is_text
    if is_text != (lookup.vocabulary_dtype == "string"):
        wanted = "text" if lookup.vocabulary_dtype == "string" else "integers"
        raise DataError(f"Column {data.names[0]!r}: expected {wanted} for this layer.")
    return _source(data, None if is_text else "int64")


def _learn(lookup: Any, data: FrameColumns, source: RddSource, tokenize: Tokenize | None) -> None:
    """Give a lookup the counts that its own adapt would make of the rows."""
    require_jvm(data.frame.sparkSession, f"adapt of a {type(lookup).__name__}")
    by_row = lookup.output_mode == "tf_idf"
    blocks = source.tasks(spark_context(data.frame.sparkSession))
    pairs = blocks.mapPartitions(partial(counted, tokenize, by_row)).reduceByKey(added).persist()
    try:
        tokens = pairs.filter(is_token)
        rows = sum(count for _, (count, _) in pairs.filter(is_total).collect())
        most = lookup.max_tokens
        found = tokens.collect() if most is None else tokens.top(most + SPECIAL, by_frequency)
    finally:
        pairs.unpersist()
    _check_rows(source, data.names[0], bool(found))
    lookup.reset_state()
    keys = tf.constant([token for token, _ in found], lookup.vocabulary_dtype)
    lookup.token_counts.insert(keys, tf.constant([n for _, (n, _) in found], tf.int64))
    if by_row:
        lookup.token_document_counts.insert(keys, tf.constant([n for _, (_, n) in found], tf.int64))
        lookup.num_documents.assign(rows)
    lookup.finalize_state()


def _adapt_normalization(layer: Any, data: FrameColumns) -> None:
    source = _source(data, "float64")
    name, shape = data.names[0], source.columns[0].shape or (1,)
    if layer.built:
        _check_width(layer, name, shape[-1])
    blocks = source.tasks(spark_context(data.frame.sparkSession))
    parts = blocks.mapPartitions(partial(moments, not layer.axis))
    count, mean, squares = parts.treeAggregate(NOTHING, joined, joined)
    _check_rows(source, name, count > 0)
    if not layer.built:
        layer.build((None, *shape))
    layer.adapt_mean.assign(np.reshape(mean, layer.adapt_mean.shape))
    layer.adapt_variance.assign(np.reshape(squares / count, layer.adapt_variance.shape))
    layer.finalize_state()


def _check_width(layer: Any, name: str, width: int) -> None:
    wanted = layer.adapt_mean.shape
    if layer.axis and wanted != (width,):
        raise ShapeMismatch(
            f"Column {name!r}: expected {wanted[0]} values in the last axis, for which the layer "
            f"is built, got {width}. Adapt a new layer, or give it columns of that width."
        )


def _adapt_discretization(layer: Any, data: FrameColumns) -> None:
    name = data.names[0]
    if data.columns[name].is_text:
        raise DataError(f"Column {name!r}: expected numbers for this layer.")
    source = _source(data, "float64")
    spark = data.frame.sparkSession
    require_jvm(spark, "adapt of a Discretization")
    shares = [number / layer.num_bins for number in range(1, layer.num_bins)]
    blocks = source.tasks(spark_context(spark))
    boundaries = quantiles(spark, blocks, shares, layer.epsilon)
    _check_rows(source, name, len(boundaries) == len(shares))
    layer.bin_boundaries = boundaries


_ADAPT: dict[Any, Callable[[Any, FrameColumns], None]] = {
    layers.StringLookup: _adapt_lookup,
    layers.IntegerLookup: _adapt_lookup,
    layers.TextVectorization: _adapt_text,
    layers.Normalization: _adapt_normalization,
    layers.Discretization: _adapt_discretization,
}
