"""Served embeddings of a model: what they are, and how its traced functions have their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ...common.served import ServedTable
from ...errors import CaptureError, UnsupportedProgram
from ...inference.servable import HeldRows
from ..export.rows import unique
from ..export.served import Served, ServedVariables, variables_for
from .served_embedding import ServedEmbedding

NO_ID = 2**63 - 1
"""In a cache's places without a row."""

_RULES = keras.optimizers
BY_VALUE = (
    *(_RULES.SGD, _RULES.Adam, _RULES.Adamax, _RULES.Nadam, _RULES.Adagrad, _RULES.Adadelta),
    *(_RULES.RMSprop, _RULES.Ftrl, _RULES.Lion),
)
"""Optimizers whose step of a value depends on that value, its gradient, and what is kept of it."""


class ServedLayers:
    """The served embeddings of a model, which may have none.

    Parameters
    ----------
    model : keras.Model
        Built; its optimizers, too.
    optimizers : sequence of keras.optimizers.Optimizer, optional
        That train it.

    Raises
    ------
    UnsupportedProgram
        An optimizer keeps something of the rows that cannot be kept by row.
    """

    def __init__(self, model: Any, optimizers: Sequence[Any] = ()) -> None:
        self._model = model
        self.layers = served_layers(model)
        if optimizers and self.layers and not _trains_more(model, self.layers):
            raise UnsupportedProgram(
                f"Model {model.name!r} has nothing but served embeddings to train. Expected a "
                "layer with other weights, such as a keras.layers.Embedding of few rows."
            )
        self._kept = [_kept(layer, optimizers) for layer in self.layers]
        self.kept = [variable for kept in self._kept for variable in kept]
        """What optimizers keep of the rows, keras.Variable."""
        with tf.init_scope():
            self._ids = [
                tf.Variable(np.full(layer.cache_rows, NO_ID), trainable=False)
                for layer in self.layers
            ]

    @property
    def tables(self) -> list[ServedTable]:
        """What they are to shards."""
        both = zip(self.layers, self._kept, strict=True)
        return [replace(layer.table, kept=tuple(map(_value, kept))) for layer, kept in both]

    @property
    def variables(self) -> list[ServedVariables]:
        """What has the rows of one call."""
        return [
            ServedVariables(ids, [layer.rows.value, *(v.value for v in kept)])
            for ids, layer, kept in zip(self._ids, self.layers, self._kept, strict=True)
        ]

    @contextmanager
    def looking_up(self, served: Sequence[ServedVariables] | None = None) -> Iterator[None]:
        """Let layers find their rows in variables, while a step is traced inside.

        Parameters
        ----------
        served : sequence of ServedVariables, optional
            By default those of which the program is trained.
        """
        with ExitStack() as stack:
            for layer, own in zip(self.layers, served or self.variables, strict=True):
                found = partial(_look_up, layer, own.ids, own.values[0])
                stack.enter_context(_calling(layer, found))
            yield

    def serving(self, inputs: Callable[..., Any]) -> Served | None:
        """Return what a model has its rows by that predicts; None if it needs none.

        Parameters
        ----------
        inputs : callable
            See `ids_of`.
        """
        if not self.layers:
            return None
        with tf.init_scope():
            variables = [variables_for(layer.output_dim) for layer in self.layers]
        return Served(self.tables, variables, self.ids_of(inputs))

    def ids_of(self, inputs: Callable[..., Any]) -> Callable[..., list[tf.Tensor]]:
        """Return what finds the rows that a batch needs; to be traced.

        Parameters
        ----------
        inputs : callable
            Makes the model's input of a batch.

        Returns
        -------
        callable
            Takes a tensor for each feed; returns int64 of rank 1 for each layer, ascending.
        """

        def ids(*batch: tf.Tensor) -> list[tf.Tensor]:
            asked: list[list[tf.Tensor]] = [[] for _ in self.layers]
            with ExitStack() as stack:
                for layer, mine in zip(self.layers, asked, strict=True):
                    stack.enter_context(_calling(layer, partial(_note, layer, mine)))
                self._model(inputs(*batch), training=False)
            graph = tf.compat.v1.get_default_graph()
            for layer, mine in zip(self.layers, asked, strict=True):
                if not mine or any(tensor.graph is not graph for tensor in mine):
                    raise CaptureError(
                        f"ServedEmbedding {layer.name!r}: expected ids that the model computes of "
                        "its inputs, outside of loops and conditions; got others. Feed the ids to "
                        "the model as an input."
                    )
            return [unique(tf.concat([tf.reshape(t, [-1]) for t in m], 0)) for m in asked]

        return ids

    def find_in(self, held: HeldRows) -> None:
        """Let layers take rows from a run when they predict in this process."""
        for number, layer in enumerate(self.layers):
            layer.find_in(held, number)

    @property
    def held(self) -> HeldRows | None:
        """The run that has trained this model last; None for none."""
        held = [layer.held for layer in self.layers]
        return held[0] if held and all(each is held[0] for each in held) else None

    @property
    def rows(self) -> Any:
        """What that run has trained; None for nothing."""
        rows = None if self.held is None else self.held.rows
        if rows is None or [*map(_shape, rows.tables)] != [*map(_shape, self.tables)]:
            return None
        # Keras may have counted other names since.
        return rows._replace(tables=tuple(self.tables))


def served_layers(model: Any) -> list[Any]:
    """Return the served embeddings of a model."""
    return [e for e in model._flatten_layers() if isinstance(e, ServedEmbedding) and e.built]


def _trains_more(model: Any, layers: Sequence[ServedEmbedding]) -> bool:
    mine = {id(layer.rows) for layer in layers}
    return any(id(weight) not in mine for weight in model.trainable_weights)


def _kept(layer: ServedEmbedding, optimizers: Sequence[Any]) -> list[Any]:
    """Return what optimizers keep of each value in a layer's rows."""
    found: list[Any] = []
    for optimizer in optimizers:
        whole = optimizer.use_ema or (optimizer.gradient_accumulation_steps or 1) > 1
        if whole or not isinstance(optimizer, BY_VALUE):
            names = ", ".join(kind.__name__ for kind in BY_VALUE)
            raise UnsupportedProgram(
                f"ServedEmbedding {layer.name!r}: expected an optimizer that trains each value by "
                f"itself, without use_ema and gradient_accumulation_steps: {names}; got "
                f"{type(optimizer).__name__}."
            )
        mine = f"{layer.rows.path.replace('/', '_')}_"
        found += [v for v in optimizer.variables if v.path.rpartition("/")[2].startswith(mine)]
    return found


def _shape(table: ServedTable) -> tuple[int, int, int]:
    return table.rows, table.width, len(table.kept)


def _value(variable: Any) -> float:
    return float(np.asarray(variable.value[0, 0]))


@contextmanager
def _calling(layer: Any, call: Callable[..., Any]) -> Iterator[None]:
    """Let a layer do something else inside; may be nested."""
    before = vars(layer).get("call")
    layer.call = call
    try:
        yield
    finally:
        if before is None:
            del layer.call
        else:
            layer.call = before


def _look_up(
    layer: ServedEmbedding,
    ids: tf.Variable,
    rows: tf.Variable,
    inputs: Any,
    training: Any = None,
) -> Any:
    """Return rows of those that are there; fail if one is not."""
    wanted = tf.cast(inputs, tf.int64)
    flat = tf.reshape(wanted, [-1])
    places = tf.minimum(tf.searchsorted(ids, flat), tf.shape(ids)[0] - 1)
    check = tf.debugging.assert_equal(
        tf.gather(ids, places),
        flat,
        f"ServedEmbedding {layer.name!r} is asked for ids in training that the model does not ask "
        "for in prediction",
    )
    with tf.control_dependencies([check]):
        chosen = tf.gather(rows, places)
    shape = tf.concat([tf.shape(wanted), [layer.output_dim]], 0)
    found = tf.ensure_shape(tf.reshape(chosen, shape), [*wanted.shape, layer.output_dim])
    return tf.cast(found, layer.compute_dtype)


def _note(layer: ServedEmbedding, asked: list[tf.Tensor], inputs: Any, training: Any = None) -> Any:
    """Take note of the ids, and return something of the right shape."""
    wanted = tf.cast(inputs, tf.int64)
    asked.append(wanted)
    shape = tf.concat([tf.shape(wanted), [layer.output_dim]], 0)
    found = tf.zeros(shape, layer.compute_dtype)
    return tf.ensure_shape(found, [*wanted.shape, layer.output_dim])
