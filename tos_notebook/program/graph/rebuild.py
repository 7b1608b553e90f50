"""Rebuild the part of a TF1-style graph that a step needs, as a function over eager variables.

``disable_v2_behavior`` brings reference variables back. A function cannot hold them: its graph
is rewritten here, each use of a variable to a read or to the operation's resource twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from ...common.arrays import Array
from ...errors import UnsupportedProgram

SCOPE = "graph"
"""Keeps the graph's names apart from those of the function it comes to lie in."""


REFERENCES = ("Variable", "VariableV2")
"""Types of the operations that are reference variables."""

TWINS = {
    "Assign": "AssignVariableOp",
    "AssignAdd": "AssignAddVariableOp",
    "AssignSub": "AssignSubVariableOp",
    "IsVariableInitialized": "VarIsInitializedOp",
}
"""Resource twins whose names are not just ``Resource`` and the operation's own."""


@dataclass(frozen=True)
class Part:
    """Some operations of a graph, and which of them a call runs.

    Parameters
    ----------
    needed : sequence of tf.Operation
    runs : sequence of str, optional
        Names, beside those that its outputs need.
    """

    needed: Sequence[Any]
    runs: Sequence[str] = ()


def ancestors(
    fetches: Iterable[Any],
    given: Iterable[Any] = (),
    waits: Callable[[Any], bool] = lambda _: True,
) -> list[Any]:
    """Return the operations that fetches need.

    Parameters
    ----------
    fetches : iterable of tf.Tensor or tf.Operation
    given : iterable of tf.Tensor
        What is fed, so that nothing is needed to compute it.
    waits : callable
        Whether an operation counts that only has to run before; by default each does.
    """
    fed = {tensor.name for tensor in given}
    pending = [getattr(f, "op", f) for f in fetches]
    seen: dict[str, Any] = {}
    while pending:
        op = pending.pop()
        if op.name not in seen:
            seen[op.name] = op
            pending.extend(t.op for t in op.inputs if t.name not in fed)
            pending.extend(filter(waits, op.control_inputs))
    return list(seen.values())


def as_function(
    graph: tf.Graph,
    part: Part,
    feeds: Sequence[Any],
    fixed: Mapping[Any, Array],
    variables: Mapping[str, tf.Variable],
    outputs: Iterable[Any],
) -> Callable[..., Sequence[tf.Tensor]]:
    """Make a function of a part of a graph.

    Parameters
    ----------
    graph : tf.Graph
    part : Part
    feeds : sequence of tf.Tensor
        The graph's tensors that the function's arguments stand for.
    fixed : mapping of tf.Tensor to ndarray
        The graph's tensors that are constants.
    variables : mapping of str to tf.Variable
        Eager ones, by the names of the operations they stand for.
    outputs : iterable of tf.Tensor
        The graph's tensors to return.

    Returns
    -------
    callable
        Takes a tensor for each feed; returns one for each output.
    """
    copied = _cut_out(graph, part.needed, variables)
    inputs = (name for node in copied.node for name in node.input)
    used = {i if ":" in i or i.startswith("^") else f"{i}:0" for i in inputs}
    names = [tensor.name for tensor in outputs]
    replaced = [*feeds, *fixed]
    found: list[Any] = []

    def rebuilt(*fed: tf.Tensor) -> None:
        inside: Any = tf.compat.v1.get_default_graph()
        given = dict(zip((t.name for t in replaced), fed, strict=True))
        given = {name: tensor for name, tensor in given.items() if name in used}
        for name, variable in variables.items():
            if f"{name}:0" in used:
                given[f"{name}:0"] = inside.capture(variable.handle)
        found.extend(tf.import_graph_def(copied, given, [*names, *part.runs], name=SCOPE))

    # Unlike tf.function it adds no order between operations: the graph has its own.
    whole = tf.compat.v1.wrap_function(rebuilt, [tf.TensorSpec(t.shape, t.dtype) for t in replaced])
    function = whole.prune(whole.graph.inputs[: len(replaced)], found)

    def call(*batch: tf.Tensor) -> Sequence[tf.Tensor]:
        fed = [tf.cast(b, t.dtype) for b, t in zip(batch, feeds, strict=True)]
        return function(*fed, *map(tf.constant, fixed.values()))[: len(names)]

    return call


def _cut_out(graph: tf.Graph, needed: Iterable[Any], variables: Iterable[str]) -> Any:
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
    nodes = _Rewriter([node for node in whole.node if node.name in names]).rewrite()
    kept = {node.name: node for node in nodes if node.name not in outside}
    for node in kept.values():
        # What ties it to devices, and to operations that stay behind.
        node.device = ""
        node.attr.pop("_class", None)
        node.input[:] = [i for i in node.input if not i.startswith("^") or i[1:] in kept]
    return tf.compat.v1.GraphDef(node=kept.values(), versions=whole.versions, library=whole.library)


class _Rewriter:
    """Changes a graph's nodes in place, to what they are with resource variables.

    The variables themselves are left out: who uses one expects a resource of its name.
    """

    def __init__(self, nodes: Iterable[Any]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._dtypes = {n.name: n.attr["dtype"].type for n in nodes if n.op in REFERENCES}

    def rewrite(self) -> Iterable[Any]:
        # Every node's references are resolved before any node is changed.
        roots = {name: list(map(self._root, node.input)) for name, node in self._nodes.items()}
        for name, node in self._nodes.items():
            if name not in self._dtypes:
                yield from self._use(node, roots[name])

    def _root(self, name: str) -> str | None:
        """Return the variable that an input refers to, through operations that hand it on."""
        plain = name.split(":")[0]
        if plain in self._dtypes:
            return plain
        node = self._nodes.get(plain)
        if node is None or not _hands_on(node.op):
            return None
        return self._root(node.input[0])

    def _use(self, node: Any, roots: Sequence[str | None]) -> Iterable[Any]:
        definition = op_def_registry.get(node.op)
        arguments = () if definition is None else definition.input_arg
        takes = {index for index, argument in enumerate(arguments) if argument.is_ref}
        for index, variable in enumerate(roots):
            if variable is None:
                continue
            source = node.input[index].split(":")[0]
            after = [] if source == variable else [f"^{source}"]
            if index in takes:
                node.input[index] = variable
                node.input.extend(after)
                continue
            read = self._read(f"{node.name}/read_{index}", variable, node, after)
            node.input[index] = read.name
            yield read
        if takes:
            _become_twin(node)
        yield node

    def _read(self, name: str, variable: str, user: Any, after: list[str]) -> Any:
        read = tf.compat.v1.NodeDef(name=name, op="ReadVariableOp")
        # It waits for what its user waits for: an assignment, say.
        read.input.extend([variable, *(i for i in user.input if i.startswith("^")), *after])
        read.attr["dtype"].type = self._dtypes[variable]
        return read


def _hands_on(op: str) -> bool:
    definition = op_def_registry.get(op)
    return definition is not None and any(a.is_ref for a in definition.output_arg)


def _become_twin(node: Any) -> None:
    """Replace an operation on references by the one on resources, with the attributes it knows."""
    twin = TWINS.get(node.op, f"Resource{node.op}")
    definition = op_def_registry.get(twin)
    if definition is None:
        raise UnsupportedProgram(
            f"Operation {node.name!r} ({node.op}) works on a reference variable in a way that "
            "resource variables do not know. Call tf.enable_resource_variables() before building "
            "the graph."
        )
    known = {a.name for a in definition.attr}
    if "dtype" in known:
        node.attr["dtype"].type = node.attr["T"].type
    for name in set(node.attr) - known:
        if not name.startswith("_"):
            del node.attr[name]
    node.op = twin
