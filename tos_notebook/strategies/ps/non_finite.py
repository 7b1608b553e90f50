"""NaN and infinity in parameters, and where they are."""

from __future__ import annotations

from ...combiners.staging import count_non_finite
from ...common.arrays import Buffer, is_finite
from ...errors import NonFiniteUpdate
from ...layout import Layout


def find_non_finite(layout: Layout, update: Buffer) -> NonFiniteUpdate | None:
    """Return the error that names the first parameter with NaN or infinity; None without any."""
    if all(map(is_finite, layout.vectors(update))):
        return None
    tensors = layout.tensors(update)
    counts = {n: count_non_finite(t) for n, t in tensors.items()}
    name = next(name for name, bad in counts.items() if bad)
    others = sum(map(bool, counts.values())) - 1
    return NonFiniteUpdate(
        f"Parameter {name!r}: expected finite values, got {counts[name]} of "
        f"{tensors[name].size} that are NaN or infinite"
        + (f" (as in {others} other parameters). " if others else ". ")
        + "Lower the learning rate, or look for a division by zero in the loss."
    )
