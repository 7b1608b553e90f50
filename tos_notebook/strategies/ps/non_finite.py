"""NaN and infinity in parameters, and where they are."""

from __future__ import annotations

from ...combiners.base import Combiner
from ...combiners.staging import count_non_finite
from ...common.arrays import Buffer, is_finite
from ...errors import NonFiniteUpdate
from ...layout import Layout
from .push import Push


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


def look(layout: Layout, combiner: Combiner, update: Buffer, push: Push) -> NonFiniteUpdate | None:
    """Look for NaN and infinity where it matters; return what a rule must leave out.

    Raises
    ------
    NonFiniteUpdate
        There are some, and the rule does not compare updates.
    """
    if push.finite and not combiner.compares:
        return None
    error = find_non_finite(layout, update)
    if error is None or (combiner.compares and (push.finite or push.skip)):
        return error
    raise error
