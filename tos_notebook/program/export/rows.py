"""Which rows of a table a traced step changes."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

READS = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"})
WRITES = frozenset({"ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterUpdate"})
"""Operations on a variable; these write rows, whose numbers are their second input."""


def rows_written(tables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """Return the numbers of the rows that the graph writes of each table, as it is traced.

    Parameters
    ----------
    tables : sequence of tf.Variable

    Returns
    -------
    list of tf.Tensor, int64, of rank 1
        A row may be there several times. Empty if the graph may write a table in another way.
    """
    graph = tf.compat.v1.get_default_graph()
    inner = {id(outer): placeholder for outer, placeholder in graph.captures}
    found: list[tf.Tensor] = []
    for table in tables:
        handle = inner.get(id(table.handle))
        users = [] if handle is None else handle.consumers()
        writes = [operation for operation in users if operation.type in WRITES]
        if not writes or any(u.type not in READS | WRITES for u in users):
            return []
        ids = [tf.cast(tf.reshape(w.inputs[1], [-1]), tf.int64) for w in writes]
        found.append(tf.concat(ids, 0))
    return found


def unique(ids: tf.Tensor) -> tf.Tensor:
    """Return numbers in ascending order, each once."""
    return tf.unique(tf.sort(ids)).y
