"""Where in the user's code each operation was made.

An executor runs a graph and knows only the names of its operations. The driver saw the Python
code that made them, so the archive brings its lines along.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..common.tracebacks import PACKAGE, is_users

FRAMES_FILE = "frames.json"
"""Name of the frames inside a program's archive."""

_NODE = re.compile(r"\{\{node ([^}]+)\}\}|Detected at node (\S+) defined|Node: '([^']+)'")


Place = tuple[str, int, str]
"""File name, line number and function."""


def graphs(graph: Any) -> Iterator[Any]:
    """Yield a graph, and those of the functions it calls, from the outside in."""
    yield graph
    for function in graph._functions.values():
        inner = getattr(function, "graph", None)
        if inner is not None and inner is not graph:
            yield from graphs(inner)


def operations(graph: Any) -> Iterator[tuple[str, str]]:
    """Yield (type, name) of every operation, those inside called functions included."""
    definition = graph.as_graph_def()
    functions = {f.signature.name: f.node_def for f in definition.library.function}
    pending = [definition.node]
    while pending:
        for node in pending.pop():
            yield node.op, node.name
            called = (functions.pop(name, None) for name in _calls(node))
            pending.extend(filter(None, called))


def _calls(node: Any) -> Iterator[str]:
    """Yield the names of the functions that a node may call."""
    yield node.op
    for value in node.attr.values():
        yield from (f.name for f in [value.func, *value.list.func])


def named_operations(graphs: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, operation) of what graphs hold."""
    for graph in graphs:
        yield from ((op.name, op) for op in graph.get_operations())


def ends_of(node: str) -> Iterator[str]:
    """Yield a node's name and its ever shorter ends: loops and inlined functions prefix names."""
    parts = node.split("/")
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def collect(named: Iterable[tuple[str, Any]], layers: Sequence[str] = ()) -> bytes:
    """Return the user's frames of operations, for `Frames`.

    Parameters
    ----------
    named : iterable of (str, tf.Operation)
        Operations with the names they have in the program. Of two with one name the first counts.
    layers : sequence of str
        Names of layers, to name where an operation has no frames of the user's.

    Returns
    -------
    bytes
        UTF-8 JSON: distinct frames, distinct stacks of them, the stack of each operation.
    """
    frames: dict[Place, int] = {}
    stacks: dict[tuple[int, ...], int] = {}
    nodes: dict[str, int] = {}
    for name, op in named:
        stack = tuple(frames.setdefault(place, len(frames)) for place in _users(op.traceback))
        if stack:
            nodes.setdefault(name, stacks.setdefault(stack, len(stacks)))
    lines = traceback.format_list([traceback.FrameSummary(*place) for place in frames])
    found = {
        "frames": [line.rstrip() for line in lines],
        "stacks": list(stacks),
        "nodes": nodes,
        "layers": list(layers),
    }
    return json.dumps(found).encode()


def _users(stack: Any) -> list[Place]:
    """Return the places in a traceback that are the user's, innermost last."""
    places: list[Place] = []
    for frame in reversed(stack or ()):  # Gradients of loops have no traceback.
        if frame.filename.startswith(PACKAGE):
            break  # What lies further out called the export, and has nothing to do with it.
        if is_users(frame.filename):
            places.append((frame.filename, frame.lineno, frame.name))
    return places[::-1]


class Frames:
    """The frames of a program's operations, by name.

    Parameters
    ----------
    content : bytes
        What `collect` returned.
    """

    def __init__(self, content: bytes) -> None:
        found = json.loads(content)
        self._frames: list[str] = found["frames"]
        self._stacks: list[list[int]] = found["stacks"]
        self._nodes: dict[str, int] = found["nodes"]
        self._layers = frozenset(found["layers"])

    def of(self, node: str) -> list[str]:
        """Return the frames of an operation, innermost last; none if it has none."""
        stack = self._stacks[self._nodes[node]] if node in self._nodes else []
        return [self._frames[i] for i in stack]

    def place(self, node: str, kind: str) -> str:
        """Return a line that says which layer, or else which operation, a node belongs to."""
        for part in reversed(node.split("/")[:-1]):
            # Entering a layer's scope again gave it a number.
            for name in (re.sub(r"_\d+$", "", part), part):
                if name in self._layers:
                    return f"  in layer {name!r} ({kind})"
        return f"  in operation {node!r} ({kind})"


def nodes_in(message: str) -> list[str]:
    """Return the names of the nodes that TensorFlow's message blames, first named first."""
    found = (next(filter(None, match)) for match in _NODE.findall(message))
    return list(dict.fromkeys(name.strip(",") for name in found))
