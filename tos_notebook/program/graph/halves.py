"""Cut the train operation of a TF1-style graph where it gives gradients to an optimizer.

The optimizer's operations, such as ``ApplyAdam(var, m, v, ..., grad)``, and what comes after them
are its update. All else is for the gradients of a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorflow.python.framework import auto_control_deps_utils as resources

from ..export.cut import cannot_be_cut
from .optimizer_state import VARIABLES, variable_of
from .rebuild import Part, ancestors

_DENSE = re.compile(r"(?:Resource)?Apply\w+")
_SPARSE = re.compile(r".*(?:SparseApply|Scatter).*")


@dataclass(frozen=True)
class Halves:
    """A step in two parts.

    Parameters
    ----------
    gradients : mapping of str to tf.Tensor
        By the names of the parameters' operations, what the first part gives to the second.
    first, update : Part
    shared : sequence of str
        Names of the operations of variables, not parameters, that the second part changes and the
        first needs: a count of the steps, say.
    """

    gradients: Mapping[str, Any]
    first: Part
    update: Part
    shared: Sequence[str]


def halves_of(
    needed: Sequence[Any],
    outputs: Iterable[Any],
    feeds: Collection[Any],
    constants: Collection[Any],
    parameters: Iterable[Any],
) -> Halves:
    """Return the parts of a step.

    Gradients that the graph itself clips are clipped on each worker, before the mean.

    Parameters
    ----------
    needed : sequence of tf.Operation
        What the whole step runs.
    outputs : iterable of tf.Tensor
        Its loss and metrics.
    feeds, constants : collection of tf.Tensor
        What a batch feeds, and what is always fed the same.
    parameters : iterable of tf.Variable

    Raises
    ------
    UnsupportedProgram
        It has no place to cut.
    """
    trained = {v.op.name: v.trainable for v in parameters}
    updates = _updates(needed, trained)
    gradients = {name: op.inputs[_gradient(op)] for name, op in updates.items()}
    later = _users(needed, [op.name for op in updates.values()])

    def is_later(op: Any) -> bool:
        return op.name in later

    # What one part only has to wait for is over if it is in the other.
    given = [*gradients.values(), *constants]
    changes = [op for op in needed if is_later(op) and _acts(op)]
    update = set(ancestors(changes, given, is_later))
    _refuse_feeds(changes, update, feeds, lambda op: ancestors([op], given, is_later))
    fetches, fed = [*outputs, *gradients.values()], [*feeds, *constants]
    done = {*update, *ancestors(fetches, fed, lambda op: not is_later(op))}
    runs = [op for op in needed if _acts(op) and not is_later(op) and op not in done]
    _refuse_conditional([*changes, *runs])
    first = ancestors([*fetches, *runs], fed, lambda op: not is_later(op))
    for op in first:
        if is_later(op) and any(variable_of(op, index) for index in range(len(op.inputs))):
            raise cannot_be_cut(
                f"its loss, a metric or a gradient needs {_text(op)}, which comes after an update"
            )
        if _acts(op) and op in update:
            raise cannot_be_cut(f"both its gradients and their update need {_text(op)}")
    changed = {name for op in changes for name in _written(op)} - trained.keys()
    shared = [op.name for op in first if op.type in VARIABLES and op.name in changed]
    # A caller that reads their variables must wait for those, too, that a fetch has to wait for.
    # What is in a loop, such as a stack of its values, is waited for with the loop.
    alone = (op for op in first if op._get_control_flow_context() is None)
    runs += [op for op in alone if _acts(op) and op not in runs]
    parts = Part(first, _names(runs)), Part(list(update), _names(changes))
    return Halves(gradients, *parts, shared)


def _updates(needed: Iterable[Any], trained: Mapping[str, bool]) -> dict[str, Any]:
    """Return by parameter the operation in which an optimizer changes it."""
    found: dict[str, Any] = {}
    for op in needed:
        if _DENSE.fullmatch(op.type) and variable_of(op, 0) not in trained:
            raise cannot_be_cut(
                f"{_text(op)} changes variable {variable_of(op, 0)!r}, which is not one of its "
                "parameters"
            )
        for name in _written(op):
            if _DENSE.fullmatch(op.type) and name == variable_of(op, 0):
                other = found.setdefault(name, op)
                if other is not op:
                    raise cannot_be_cut(
                        f"operations {other.name!r} and {op.name!r} both update parameter {name!r}"
                    )
            elif trained.get(name):
                by = "" if _SPARSE.fullmatch(op.type) else "by hand or "
                raise cannot_be_cut(
                    f"{_text(op)} changes parameter {name!r} {by}by a sparse gradient"
                )
    if not found:
        raise cannot_be_cut("no optimizer's operation changes its parameters")
    return found


def _gradient(op: Any) -> int:
    """Return at which place an optimizer's operation takes the gradient."""
    names = [argument.name for argument in op.op_def.input_arg]
    places = [index for index, name in enumerate(names) if name in ("grad", "delta")]
    if not places:
        raise cannot_be_cut(f"{_text(op)} takes its gradient under another name")
    return places[0]


def _users(needed: Iterable[Any], names: Iterable[str]) -> set[str]:
    """Return the operations of these names, and all that come after one of them."""
    users: dict[str, list[str]] = {}
    for op in needed:
        for before in [*(tensor.op for tensor in op.inputs), *op.control_inputs]:
            users.setdefault(before.name, []).append(op.name)
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(users.get(name, ()))
    return found


def _written(op: Any) -> list[str]:
    """Return the names of the variables that an operation may change."""
    _, written = resources.get_read_write_resource_inputs(op)
    references = {index for index, a in enumerate(op.op_def.input_arg) if a.is_ref}
    taken = [i for i, tensor in enumerate(op.inputs) if tensor in written or i in references]
    return [name for name in (variable_of(op, index) for index in taken) if name is not None]


def _acts(op: Any) -> bool:
    """Whether it matters that an operation runs, and how often."""
    if op.type in VARIABLES or op.type in resources.RESOURCE_READ_OPS:
        return False
    return bool(op.op_def.is_stateful) or any(a.is_ref for a in op.op_def.input_arg)


def _refuse_feeds(
    changes: Iterable[Any],
    update: Collection[Any],
    feeds: Iterable[Any],
    before: Callable[[Any], Collection[Any]],
) -> None:
    for feed in feeds:
        if feed.op in update:
            op = next(op for op in changes if feed.op in before(op))
            raise cannot_be_cut(
                f"{_text(op)} is part of the update, and needs {feed.name!r} of the batch"
            )


def _refuse_conditional(operations: Iterable[Any]) -> None:
    for op in operations:
        if op._get_control_flow_context() is not None:
            raise cannot_be_cut(f"{_text(op)} runs in a condition or a loop")


def _text(op: Any) -> str:
    return f"operation {op.name!r} ({op.type})"


def _names(operations: Iterable[Any]) -> list[str]:
    return [op.name for op in operations]
