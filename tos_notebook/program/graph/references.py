"""Turn TF1's reference variables into resource variables.

``disable_v2_behavior`` brings reference variables back. A function cannot hold them: its graph
is rewritten here, each use of a variable to a read or to the operation's resource twin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from ...errors import UnsupportedProgram

REFERENCES = ("Variable", "VariableV2")
"""Types of the operations that are reference variables."""

TWINS = {
    "Assign": "AssignVariableOp",
    "AssignAdd": "AssignAddVariableOp",
    "AssignSub": "AssignSubVariableOp",
    "IsVariableInitialized": "VarIsInitializedOp",
}
"""Resource twins whose names are not just ``Resource`` and the operation's own."""


def without_references(nodes: Sequence[Any]) -> list[Any]:
    """Return a graph's nodes as they are with resource variables.

    Parameters
    ----------
    nodes : sequence of NodeDef
        Changed in place; names stay as they are.

    Returns
    -------
    list of NodeDef
        The variables themselves left out: who uses one expects a resource of its name.

    Raises
    ------
    UnsupportedProgram
        A variable is used in a way that resource variables do not know.
    """
    return list(_Rewriter(nodes).rewrite())


class _Rewriter:
    def __init__(self, nodes: Iterable[Any]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._dtypes = {n.name: n.attr["dtype"].type for n in nodes if n.op in REFERENCES}

    def rewrite(self) -> Iterable[Any]:
        # Every node's references are resolved before any node is changed.
        roots = {name: self._roots(node) for name, node in self._nodes.items()}
        for name, node in self._nodes.items():
            if name not in self._dtypes:
                yield from self._use(node, roots[name])

    def _roots(self, node: Any) -> dict[int, tuple[str, str]]:
        """Return (variable, node that hands it on) for each input that is a reference."""
        found = {}
        for index, name in enumerate(node.input):
            root = self._root(name)
            if root is not None:
                found[index] = (root, name.split(":")[0])
        return found

    def _root(self, name: str) -> str | None:
        """Return the variable that an input refers to, through operations that hand it on."""
        plain = name.split(":")[0]
        if plain in self._dtypes:
            return plain
        node = self._nodes.get(plain)
        if node is None or not _hands_on(node.op):
            return None
        return self._root(node.input[0])

    def _use(self, node: Any, roots: Mapping[int, tuple[str, str]]) -> Iterable[Any]:
        takes = _references(node.op)
        for index, (variable, source) in roots.items():
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


def _references(op: str) -> frozenset[int]:
    """Return the positions of the inputs that an operation takes by reference."""
    definition = op_def_registry.get(op)
    arguments = () if definition is None else definition.input_arg
    return frozenset(i for i, argument in enumerate(arguments) if argument.is_ref)


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
