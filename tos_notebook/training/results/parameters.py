"""A run's parameters, by name and in the user's model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ...common.arrays import Array
from ...errors import UnsupportedProgram
from .held_model import HeldModel

if TYPE_CHECKING:
    from ...coordination.exchange import Parameters
    from ...program.export.base import Program


def parameters(program: Program, store: Parameters) -> dict[str, Array]:
    """Return a copy of the center parameters, by name."""
    buffer, _ = store.read()
    tensors = program.layout.tensors(buffer)
    return {spec.name: tensors[spec.name] for spec in program.layout.of_model.specs}


def torn(store: Parameters) -> tuple[str, ...]:
    """Say so if the parameters are not what a sequence of whole pushes makes of them."""
    why = store.torn
    if why is None:
        return ()
    advice = "If the run has checkpoints, tos.resume continues from the last good one."
    return (f"{why} The model and run.parameters() hold such parameters. {advice}",)


def warn_of_torn(run_id: str, store: Parameters) -> None:
    """Warn, where the run was called, that its parameters are `torn`."""
    for text in torn(store):
        warnings.warn(f"Run {run_id}: {text}", RuntimeWarning, stacklevel=3)


def keras_model(model: HeldModel, run_id: str) -> Any:
    """Return the user's Keras model with the present parameters; see `Run.model`."""
    with model.present() as program:
        if program.model is None:
            raise UnsupportedProgram(
                f"Run {run_id} has no Keras model in this process, but trains "
                f"{program.summary}. run.parameters() returns the values by name; a graph's "
                "are in its session, and tos.resume(uri, program=model) takes a model."
            )
        return program.model
