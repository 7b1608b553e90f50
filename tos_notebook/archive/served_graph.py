"""A TF1-style graph in a program's archive, for sessions whose variables are on servers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

GRAPH_FILE = "graph.pb"
"""Name of the graph inside the archive, as a GraphDef."""

PARTS_FILE = "graph.json"
"""Name of what `ServedGraph` says."""

VARIABLES, CONSTANTS = "variables", "constants"
"""Folders of their values, a TensorProto each, by number."""


@dataclass(frozen=True, slots=True)
class ServedGraph:
    """What a session runs of a graph, by the names of its tensors and operations.

    Parameters
    ----------
    feeds, constants, outputs : sequence of str
        Tensors: those that a batch feeds, those that are always fed the same, loss and metrics.
    needed, runs : sequence of str
        Operations of a training step, or of the gradients of a batch; and those among them that
        are run.
    variables : sequence of str
        Operations of all variables, those of the layout first and in its order.
    places : mapping of str to str
        By operation, the variable next to which it runs.
    rate : str, optional
        The variable of the learning rate.
    gradients : mapping of str to str
        By variable the tensor of its gradient, where the update is a part of its own.
    update_needed, update_runs : sequence of str
        Likewise the operations of the update.
    """

    feeds: Sequence[str]
    constants: Sequence[str]
    outputs: Sequence[str]
    needed: Sequence[str]
    runs: Sequence[str]
    variables: Sequence[str]
    places: Mapping[str, str]
    rate: str | None = None
    gradients: Mapping[str, str] = field(default_factory=dict)
    update_needed: Sequence[str] = ()
    update_runs: Sequence[str] = ()

    def to_json(self) -> bytes:
        """Serialise as UTF-8 JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> ServedGraph:
        """Rebuild from `to_json`'s bytes."""
        return cls(**json.loads(data))
