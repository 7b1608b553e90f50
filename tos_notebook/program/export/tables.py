"""Lookup tables that a program reads, and that are exported with it."""

from __future__ import annotations

import gc
from collections.abc import Container, Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.trackable.resource import CapturableResource


def tables_of(functions: Iterable[Any]) -> list[Any]:
    """Return the lookup tables whose handles functions capture.

    A function knows the handle of a table, but not the table, which may be anywhere: in a layer, in
    what a layer holds, or in a variable that a Python function closes over.

    Parameters
    ----------
    functions : iterable of ConcreteFunction
        All else is passed over.
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
        return [each for each in gc.get_objects() if _is_wanted(each, wanted)]
    finally:
        if frozen:
            gc.freeze()


def _is_wanted(value: Any, handles: Container[int]) -> bool:
    # Not isinstance, which asks proxies of what may be gone.
    if not issubclass(type(value), CapturableResource):
        return False
    return id(getattr(value, "_resource_handle", None)) in handles
