"""What belongs to an optimizer in a TF1-style graph: its state, and powers that count steps.

The optimizer itself is gone once the graph is built: what is left are the operations by which it
updates parameters. Most have a type of their own, which takes the state as further variables:
``ApplyAdam(var, m, v, ...)``. Some of sparse gradients are made of assignments; then a variable
of the state is known by its name, the parameter's followed by the optimizer's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from .rebuild import REFERENCES, ancestors

VARIABLES = ("VarHandleOp", *REFERENCES)
"""Types of the operations that are variables."""

_APPLY = re.compile(r"(?:Resource|Sparse)*Apply\w+")
_WRITE = re.compile(r".*(?:Apply|Assign|Scatter).*")
_POWER = re.compile(r"(?:.*/)?beta[12]_power(?:_\d+)?")


def state_of(
    needed: Iterable[Any], parameters: Iterable[Any], variables: Iterable[Any]
) -> list[Any]:
    """Return the variables that hold an optimizer's state for parameters.

    Parameters
    ----------
    needed : iterable of tf.Operation
        What a training step runs.
    parameters : iterable of tf.Variable
    variables : iterable of tf.Variable
        Among which to look.
    """
    own = {v.op.name: v for v in parameters}
    writers = [op for op in needed if _WRITE.fullmatch(op.type) and variable_of(op, 0) in own]
    found = {
        variable_of(op, index)
        for op in writers
        if _APPLY.fullmatch(op.type)
        for index in range(1, len(op.inputs))
    }
    others = [v for v in variables if v.op.name not in own and v.dtype.is_floating]
    return [v for v in others if v.op.name in found or _is_named(v, own.values(), writers)]


def powers_of(needed: Iterable[Any]) -> list[str]:
    """Return the names of the variables by which Adam counts steps: beta to the power of them."""
    return [op.name for op in needed if op.type in VARIABLES and _POWER.fullmatch(op.name)]


def variable_of(op: Any, index: int) -> str | None:
    """Return the name of the variable that an operation takes itself, not its value."""
    tensor = op.inputs[index] if index < len(op.inputs) else None
    while tensor is not None and (tensor.dtype.name == "resource" or tensor.dtype._is_ref_dtype):
        if tensor.op.type in VARIABLES:
            return str(tensor.op.name)
        tensor = tensor.op.inputs[0] if len(tensor.op.inputs) else None
    return None


def _is_named(variable: Any, parameters: Iterable[Any], writers: Sequence[Any]) -> bool:
    """Whether a variable is called, and used, as the state of a parameter."""
    for parameter in parameters:
        name = parameter.op.name
        if f"/{name}/" in f"/{variable.op.name}" and variable.shape == parameter.shape:
            mine = [op for op in writers if variable_of(op, 0) == name]
            # A moving average of the parameter has such a name, too, but no update needs it.
            return any(op.name == variable.op.name for op in ancestors(mine, waits=lambda _: False))
    return False
