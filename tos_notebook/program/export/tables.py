"""Lookup tables that a program reads, and that are exported with it."""

from __future__ import annotations

import gc
from collections.abc import Iterable
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
        found = [each for each in _instances(CapturableResource) if _handle_of(each) in wanted]
        for table in found:
            _refuse_empty(table)
        return found
    finally:
        if frozen:
            gc.freeze()


def _instances(base: type) -> list[Any]:
    """Return all objects of a class and of those that inherit from it.

    Not by isinstance, which asks proxies of what may be gone, nor by a call for each of millions of
    objects: that takes seconds.
    """
    kinds: dict[int, type] = {}
    left = [base]
    while left:
        kind = left.pop()
        kinds[id(kind)] = kind
        inherited: list[type] = type.__subclasses__(kind)
        left += [each for each in inherited if id(each) not in kinds]
    return [each for each in gc.get_objects() if id(type(each)) in kinds]


def _handle_of(table: Any) -> int:
    return id(getattr(table, "_resource_handle", None))


def refuse_unlearned(layers: Iterable[Any]) -> None:
    """Refuse the first of these layers that looks up words and has learned none.

    Raises
    ------
    CaptureError
    """
    for layer in layers:
        if _is_empty(_table_of(layer)):
            raise _unlearned(f"{type(layer).__name__} {layer.name!r}")


def _refuse_empty(table: Any) -> None:
    if not _is_empty(table):
        return
    found = [each for each in _instances(keras.Layer) if _table_of(each) is table]
    # A layer that splits text holds another one, which the user has not made.
    refuse_unlearned(sorted(found, key=lambda each: not hasattr(each, "_lookup_layer")))
    raise _unlearned("A lookup layer")


def _unlearned(which: str) -> CaptureError:
    return CaptureError(
        f"{which}: expected a vocabulary, got none. Before the model is captured or trained, call "
        'tos.adapt(layer, df, "column"), layer.adapt(values) or layer.set_vocabulary(words).'
    )


def _is_empty(table: Any) -> bool:
    """Return whether a table is what Keras makes for a layer until that has a vocabulary."""
    return type(getattr(table, "_initializer", None)).__name__ == "NullInitializer"


def _table_of(layer: Any) -> Any:
    return getattr(getattr(layer, "_lookup_layer", layer), "lookup_table", None)
