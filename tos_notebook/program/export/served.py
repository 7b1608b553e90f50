"""Functions of a program that put rows of served tables in place, and take them back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ...common.served import ServedTable
from .tracing import traced


class ServedVariables(NamedTuple):
    """What has the rows of one served table, for one call."""

    ids: tf.Variable
    """Shape (capacity,), int64: the numbers of the rows, ascending, then the largest number."""
    values: Sequence[tf.Variable]
    """Each of shape (capacity, width): what the model sees, and what an optimizer keeps of it."""


class Served(NamedTuple):
    """Served tables of a model that predicts or measures, with rows for as many as it needs."""

    tables: Sequence[ServedTable]
    variables: Sequence[ServedVariables]
    ids: Callable[..., Sequence[tf.Tensor]]
    """Takes a batch and returns which rows it needs; to be traced."""


def variables_for(width: int) -> ServedVariables:
    """Return what has rows of one table, any number of them."""
    ids = tf.Variable(np.zeros(1, np.int64), shape=[None], trainable=False)
    rows = tf.Variable(np.zeros((1, width), np.float32), shape=[None, width], trainable=False)
    return ServedVariables(ids, [rows])


def add_served(module: tf.Module, served: Served, columns: Sequence[tf.TensorSpec]) -> None:
    """Add what finds the rows that a batch needs, and what puts them in place.

    Parameters
    ----------
    module : tf.Module
        See `tos_notebook.runtime.served.ServedRows`.
    served : Served
    columns : sequence of tf.TensorSpec
        Of a batch.
    """

    def place(ids: list[tf.Tensor], rows: list[tf.Tensor]) -> None:
        for variables, numbers, given in zip(served.variables, ids, rows, strict=True):
            variables.ids.assign(numbers)
            variables.values[0].assign(given)

    ids = [tf.TensorSpec([None], tf.int64) for _ in served.tables]
    rows = [tf.TensorSpec([None, table.width], tf.float32) for table in served.tables]
    module.served_variables = [v for own in served.variables for v in (own.ids, *own.values)]
    module.served_ids = traced(served.ids, *columns)
    module.place_rows = traced(place, ids, rows)


def place_function(served: Sequence[ServedVariables]) -> Callable[..., Any]:
    """Return what puts rows in place; it takes numbers and rows of each table."""

    def place(ids: list[tf.Tensor], rows: list[tf.Tensor]) -> None:
        for variables, numbers, given in zip(served, ids, rows, strict=True):
            room = variables.ids.shape[0] - tf.shape(numbers)[0]
            rest = tf.fill([room], tf.int64.max)
            variables.ids.assign(tf.concat([numbers, rest], 0))
            parts = tf.split(given, len(variables.values), axis=1)
            for variable, part in zip(variables.values, parts, strict=True):
                variable[: tf.shape(numbers)[0]].assign(part)

    return place


def take_function(served: Sequence[ServedVariables]) -> Callable[..., Any]:
    """Return what returns the first rows of each table; it takes how many."""

    def take(counts: list[tf.Tensor]) -> list[tf.Tensor]:
        return [
            tf.concat([variable[:count] for variable in variables.values], 1)
            for variables, count in zip(served, counts, strict=True)
        ]

    return take
