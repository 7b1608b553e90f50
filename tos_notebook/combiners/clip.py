"""Limit how far one push can move the center, before another rule merges it."""

from __future__ import annotations

from collections.abc import Sequence

from ..common.arrays import Array
from ..common.checks import positive
from ..errors import ConfigError
from .arithmetic import global_norm
from .base import Combiner, Part, PushInfo
from .stateless import Downpour


class Clip(Combiner):
    """Scale a push down to a global L2 norm, then merge it by another rule.

    The norm is taken over all floating-point parameters; integers are left alone.

    Parameters
    ----------
    norm : float
        The largest norm of a change that is left as it is, above 0.
    then : Combiner, optional
        What merges the change; by default it is added.

    Raises
    ------
    ConfigError
        `norm` is not above 0, or `then` does not take changes.

    Examples
    --------
    >>> Clip(1.0, then=Median(k=5, then=FedAdam()))  # doctest: +SKIP
    """

    name = "clip"
    rule = "Δ = Δ min(1, norm / ‖Δ‖), then another rule"
    source = "Pascanu, Mikolov, Bengio 2013, arXiv:1211.5063"
    when = "Rare changes are far too large."
    state = "that of `then`"

    def __init__(self, norm: float, then: Combiner | None = None) -> None:
        self.norm = positive("Clip(norm)", norm)
        self.then = Downpour() if then is None else then
        if not isinstance(self.then, Combiner) or self.then.pushes != "delta":
            raise ConfigError(
                f"Clip: expected then to be a combiner that takes changes, got {then!r}. "
                "Wrap an object or function by as_combiner first."
            )
        self.striped = self.then.striped
        self.fixed_point = self.then.fixed_point
        self.one_step = self.then.one_step
        self.compares = self.then.compares

    def of_statistics(self) -> Combiner:
        """Return the other rule's; see `Combiner.of_statistics`."""
        return self.then.of_statistics()

    def begin(self, like: Array) -> Combiner:
        """Return the other rule for a slice: clipping is done before; see `Combiner.begin`."""
        return self.then.begin(like)

    def prepare(self, parts: Sequence[Part], push: PushInfo) -> None:
        """Scale the updates down, then let the other rule prepare; see `Combiner.prepare`."""
        updates = [part.update for part in parts if part.update.dtype.kind == "f"]
        if push.finite and (length := global_norm(updates)) > self.norm:
            for update in updates:
                update *= self.norm / length
        self.then.prepare(parts, push)

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Clip and merge one array, as a whole model that meets empty state."""
        part = Part(self.begin(center), center, update)
        self.prepare([part], push)
        part.rule.merge(center, update, push)
