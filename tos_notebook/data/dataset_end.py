"""Whether a `tf.data.Dataset` has an end."""

from __future__ import annotations

from typing import Any

from ..errors import DataError
from ..runtime.eager import eagerly

INFINITE, UNKNOWN = -1, -2
"""TensorFlow's numbers for how many elements such a dataset has."""


def require_end(dataset: Any) -> None:
    """Refuse a dataset whose epoch would never end.

    Raises
    ------
    DataError
        It repeats itself without an end.
    """
    with eagerly():
        count = int(dataset.cardinality())
        endless = count == INFINITE or (count == UNKNOWN and _is_endless(dataset))
    if endless:
        raise DataError(
            "Expected a dataset with an end, which ends the epoch: leave repeat() out, or take(n)."
        )


def _is_endless(dataset: Any) -> bool:
    """Tell whether a dataset repeats itself for ever, however its elements are chosen."""
    kind = type(dataset).__name__
    if "Take" in kind:
        return False
    if "Repeat" in kind and int(getattr(dataset, "_count", 1)) < 0:
        return True
    # Of datasets beside each other the shortest decides.
    joined = all if "Zip" in kind else any
    inputs = dataset._inputs()
    return bool(inputs) and joined(map(_is_endless, inputs))
