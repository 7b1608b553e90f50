"""Rebuild the part of a TF1-style graph that a step needs, as a function over eager variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from .references import without_references

SCOPE = "graph"
"""Keeps the graph's names apart from those of the function it comes to lie in."""


def ancestors(fetches: Iterable[Any], given: Iterable[Any] = (), control: bool = True) -> list[Any]:
    """Return the operations that fetches need.

    Parameters
    ----------
    fetches : iterable of tf.Tensor or tf.Operation
    given : iterable of tf.Tensor
        What is fed, so that nothing is needed to compute it.
    control : bool
        Whether what only has to run before counts too.
    """
    fed = {tensor.name for tensor in given}
    pending = [getattr(f, "op", f) for f in fetches]
    seen: dict[str, Any] = {}
    while pending:
        op = pending.pop()
        if op.name not in seen:
            seen[op.name] = op
            pending.extend(t.op for t in op.inputs if t.name not in fed)
            pending.extend(op.control_inputs if control else ())
    return list(seen.values())


def cut_out(graph: tf.Graph, needed: Iterable[Any], variables: Iterable[str]) -> Any:
    """Return a part of a graph as a `GraphDef` that lacks its variables.

    Parameters
    ----------
    graph : tf.Graph
    needed : iterable of tf.Operation
        What to keep.
    variables : iterable of str
        Names of the variables' operations. They become resources, if they are none.
    """
    whole = graph.as_graph_def()
    names = {op.name for op in needed}
    outside = set(variables)
    nodes = without_references([node for node in whole.node if node.name in names])
    kept = {node.name: node for node in nodes if node.name not in outside}
    for node in kept.values():
        # What ties it to devices, and to operations that stay behind.
        node.device = ""
        node.attr.pop("_class", None)
        node.input[:] = [i for i in node.input if not i.startswith("^") or i[1:] in kept]
    return tf.compat.v1.GraphDef(node=kept.values(), versions=whole.versions, library=whole.library)


def as_function(
    part: Any,
    feeds: Sequence[Any],
    variables: Mapping[str, tf.Variable],
    outputs: Sequence[str],
    runs: Sequence[str],
) -> Callable[..., Sequence[tf.Tensor]]:
    """Make a function of a part of a graph.

    Parameters
    ----------
    part : GraphDef
        What `cut_out` returned.
    feeds : sequence of tf.Tensor
        The graph's tensors that the function's arguments stand for.
    variables : mapping of str to tf.Variable
        Eager ones, by the names of the operations they stand for.
    outputs : sequence of str
        Names of the tensors to return.
    runs : sequence of str
        Names of the operations to run.

    Returns
    -------
    callable
        Takes a tensor for each feed; returns one for each output.
    """
    used = {_tensor_name(i) for node in part.node for i in node.input}
    found: list[Any] = []

    def rebuilt(*fed: tf.Tensor) -> None:
        inside: Any = tf.compat.v1.get_default_graph()
        given = dict(zip((f.name for f in feeds), fed, strict=True))
        given |= {f"{name}:0": inside.capture(v.handle) for name, v in variables.items()}
        given = {name: tensor for name, tensor in given.items() if name in used}
        found.extend(tf.import_graph_def(part, given, [*outputs, *runs], name=SCOPE))

    # Unlike tf.function it adds no order between operations: the graph has its own.
    whole = tf.compat.v1.wrap_function(rebuilt, [tf.TensorSpec(f.shape, f.dtype) for f in feeds])
    function = whole.prune(whole.graph.inputs[: len(feeds)], found)
    return lambda *fed: function(*fed)[: len(outputs)]


def _tensor_name(name: str) -> str:
    return name if ":" in name or name.startswith("^") else f"{name}:0"
