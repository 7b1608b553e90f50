"""Names that cannot be used: of a Keras model by TensorFlow, of metrics by what tells of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import CaptureError, UnsupportedProgram
from ...readable import LONGEST_NAME, readable
from ...wire.limits import MOST_METRICS

_INSIDE = re.compile(r"[A-Za-z0-9_.\\/>-]*")
_OUTSIDE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
"""The latter for what is inside of nothing else."""


@contextmanager
def named_plainly(model: Any) -> Iterator[None]:
    """Say which name it is, if TensorFlow refuses one of a model's inside.

    Raises
    ------
    CaptureError
        The name of a layer, a metric, the optimizer or the model does not suit TensorFlow.
    """
    from keras.src.backend.common import global_state

    # Keras stays in a scope that TensorFlow refuses to enter: each later model would be in it.
    scopes = global_state.get_global_attribute("name_scope_stack", [], set_to_default=True)
    depth = len(scopes)
    try:
        yield
    except ValueError as error:
        del scopes[depth:]
        for what, name in _unfit(model):
            # What TensorFlow says of a name with a colon does not have the name in it.
            if name in str(error) or ":" in name:
                raise CaptureError(
                    f"TensorFlow cannot use the name of {what} {name!r}. Expected letters from A "
                    "to Z, digits, '_', '-' and '.', with a letter or a digit first: give it "
                    f"another name. TensorFlow says: {error}"
                ) from error
        raise


def _unfit(model: Any) -> Iterator[tuple[str, str]]:
    for layer in model._flatten_layers(include_self=False):
        if not _INSIDE.fullmatch(layer.name):
            yield "layer", layer.name
    # What compile was given is inside of one metric.
    metrics = [inner for metric in model.metrics for inner in getattr(metric, "metrics", [metric])]
    others = {"metric": metrics, "optimizer": [model.optimizer], "model": [model]}
    for what, owners in others.items():
        for owner in owners:
            name = getattr(owner, "name", None)
            if name is not None and not _OUTSIDE.fullmatch(name):
                yield what, name


def check_metrics(outputs: Sequence[str]) -> None:
    """Refuse metrics that a worker could not tell the server of.

    Parameters
    ----------
    outputs : sequence of str
        Names of the loss and the metrics.

    Raises
    ------
    UnsupportedProgram
        There are too many, or two have one name once it is readable and short enough.
    """
    names = [name for name in outputs if name != "loss"]
    if len(names) > MOST_METRICS:
        raise UnsupportedProgram(
            f"Expected at most {MOST_METRICS} metrics, got {len(names)}: {names[0]!r}, "
            f"{names[1]!r} and so on. Return fewer."
        )
    told: dict[str, str] = {}
    for name in names:
        other = told.setdefault(readable(name, LONGEST_NAME), name)
        if other != name:
            raise UnsupportedProgram(
                f"Metrics {other!r} and {name!r} have the same name once it is cut to "
                f"{LONGEST_NAME} readable characters. Give one of them another name."
            )
