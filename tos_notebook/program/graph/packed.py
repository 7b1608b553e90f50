"""Pack a TF1-style graph as it is, for sessions whose variables are on TensorFlow's servers."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ...archive.served_graph import CONSTANTS, GRAPH_FILE, PARTS_FILE, VARIABLES, ServedGraph
from ...archive.spec import SPEC_FILE, ProgramSpec
from ...archive.stack_frames import FRAMES_FILE
from ...common.arrays import Array
from .optimizer_state import variable_of


def places_of(operations: Iterable[Any]) -> dict[str, str]:
    """Return by operation the variable next to which it has to run: it takes the variable itself.

    Parameters
    ----------
    operations : iterable of tf.Operation
    """
    found: dict[str, str] = {}
    for op in operations:
        arguments = list(op.op_def.input_arg)
        for index, tensor in enumerate(op.inputs):
            takes = tensor.dtype.name == "resource" or op.type == "Identity"
            if takes or (index < len(arguments) and arguments[index].is_ref):
                name = variable_of(op, index)
                if name is not None:
                    found.setdefault(op.name, name)
    return found


def pack(
    graph: tf.Graph,
    parts: ServedGraph,
    spec: ProgramSpec,
    frames: bytes,
    values: Mapping[str, Array],
    constants: Sequence[Array],
    target: Path,
) -> None:
    """Write the archive.

    Parameters
    ----------
    graph : tf.Graph
    parts : ServedGraph
    spec : ProgramSpec
    frames : bytes
        What `tos_notebook.archive.stack_frames.collect` found.
    values : mapping of str to ndarray
        Of the variables.
    constants : sequence of ndarray
        Of what is always fed the same.
    target : Path
        Becomes a zip archive.
    """
    whole = graph.as_graph_def()
    kept = {*parts.needed, *parts.update_needed, *parts.variables}
    nodes = [node for node in whole.node if node.name in kept]
    for node in nodes:
        # Where it runs is said by `ServedGraph.places`.
        node.device = ""
        node.attr.pop("_class", None)
        node.input[:] = [i for i in node.input if not i.startswith("^") or i[1:] in kept]
    packed = tf.compat.v1.GraphDef(node=nodes, versions=whole.versions, library=whole.library)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(SPEC_FILE, spec.to_json())
        archive.writestr(FRAMES_FILE, frames)
        archive.writestr(PARTS_FILE, parts.to_json())
        archive.writestr(GRAPH_FILE, packed.SerializeToString())
        for index, name in enumerate(parts.variables):
            archive.writestr(f"{VARIABLES}/{index}", _proto(values[name]))
        for index, value in enumerate(constants):
            archive.writestr(f"{CONSTANTS}/{index}", _proto(value))


def _proto(value: Array) -> bytes:
    made: bytes = tf.make_tensor_proto(value).SerializeToString()
    return made
