"""Lookup tables that a program reads, and that are exported with it."""

from __future__ import annotations

import gc
from collections.abc import Container, Iterable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.trackable.resource import CapturableResource

from ...errors import CaptureError


def tables_of(functions: Iterable[Any]) -> list[Any]:
    """Return the lookup tables whose handles functions capture.

    A function knows the handle of a table, but not the table, which may be anywhere: in a layer, in
    what a layer holds, or in a variable that a Python function closes over.

    Parameters
    ----------
    functions : iterable of ConcreteFunction
        All else is passed over.

    Raises
    ------
    CaptureError
        One is that of a Keras layer that has learned no words.
    """
    graphs = [each.graph for each in functions if hasattr(each, "captured_inputs")]
    variables = {id(variable.handle) for graph in graphs for variable in graph.variables}
    wanted = {
        id(outer)
        for graph in graphs
        for outer, _ in graph.captures
        if outer.dtype == tf.resource and id(outer) not in variables
    }
    if not wanted:
        return []
    frozen = gc.get_freeze_count()
    if frozen:
        # Else they are hidden.
        gc.unfreeze()
    try:
        found = [each for each in gc.get_objects() if _is_wanted(each, wanted)]
        for table in found:
            _refuse_empty(table)
        return found
    finally:
        if frozen:
            gc.freeze()


def _is_wanted(value: Any, handles: Container[int]) -> bool:
    # Not isinstance, which asks proxies of what may be gone.
    if not issubclass(type(value), CapturableResource):
        return False
    return id(getattr(value, "_resource_handle", None)) in handles


def _refuse_empty(table: Any) -> None:
    """Refuse a table that Keras makes for a layer until the layer has a vocabulary."""
    if type(getattr(table, "_initializer", None)).__name__ != "NullInitializer":
        return
    found = [each for each in gc.get_objects() if _looks_up(each, table)]
    # A layer that splits text holds another one, which the user has not made.
    layer = max(found, key=lambda each: hasattr(each, "_lookup_layer"), default=None)
    which = "A lookup layer" if layer is None else f"{type(layer).__name__} {layer.name!r}"
    raise CaptureError(
        f"{which}: expected a vocabulary, got none. Before the model is captured or trained, call "
        'tos.adapt(layer, df, "column"), layer.adapt(values) or layer.set_vocabulary(words).'
    )


def _looks_up(value: Any, table: Any) -> bool:
    if not issubclass(type(value), keras.Layer):
        return False
    return getattr(getattr(value, "_lookup_layer", value), "lookup_table", None) is table
