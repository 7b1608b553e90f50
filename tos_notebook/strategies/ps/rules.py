"""A combiner's rules over the center, each with the state of its part."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextvars import Context
from typing import NamedTuple

import numpy as np

from ...combiners.base import Combiner, Part, PushInfo
from ...combiners.stateless import ADAG, Downpour, DynSGD
from ...common.arrays import Array
from ...errors import CombinerError
from ...layout import Layout
from ...persist.values import decode, revive
from ...transport.fast_path import BY_ONE, BY_STALENESS, BY_STEPS
from ...transport.fast_path import Part as FastPart
from .push import Copied
from .stripes import STRIPE_BYTES, Stripe

_STATELESS = (Downpour, DynSGD, ADAG)
"""A user's own subclass may do anything, for any time."""


class Bound(NamedTuple):
    """A combiner, and its rules with their state."""

    combiner: Combiner
    stripes: list[Combiner]
    """One for each stripe, if the combiner is striped."""
    tensors: dict[str, Combiner]
    """One for each parameter, if it is not."""
    stateless: bool = False
    """Whether it is one of ours that takes a single pass and keeps nothing between pushes."""
    at_once: bool = False
    """Whether that pass is short."""
    parts: tuple[FastPart, ...] = ()
    """The same for the fast path; empty if it has no such rule."""


def bind(
    combiner: Combiner, layout: Layout, stripes: Sequence[Stripe], tensors: Mapping[str, Array]
) -> Bound:
    """Return a combiner's rules, whose state is empty.

    Raises
    ------
    CombinerError
        The combiner could not begin.
    """
    try:
        rules = {True: combiner, False: combiner.of_statistics()}
        if combiner.striped:
            stateless = type(combiner) in _STATELESS
            short = stateless and sum(s.center.nbytes for s in stripes) <= STRIPE_BYTES
            begun = [rules[s.trained].begin(s.center) for s in stripes]
            parts = [_part(s, rules[s.trained]) for s in stripes] if short else []
            fast = () if None in parts else tuple(part for part in parts if part is not None)
            return Bound(combiner, begun, {}, stateless, short, fast)
        pairs = zip(layout.specs, tensors.values(), strict=True)
        own = {spec.name: rules[spec.trained].begin(t.reshape(-1)) for spec, t in pairs}
        return Bound(combiner, [], own)
    except Exception as error:
        raise CombinerError(
            f"Combiner {combiner.name} could not begin: {type(error).__name__}: {error}."
        ) from error


def _part(stripe: Stripe, rule: Combiner) -> FastPart | None:
    """Return what the fast path does with a stripe; None if it cannot."""
    kind, size = stripe.center.dtype, stripe.center.nbytes
    if kind not in (np.float32, np.float64):
        return None
    at = stripe.first, size, bool(kind.itemsize == 8)
    if type(rule) is Downpour:
        return FastPart(*at, BY_ONE)
    if type(rule) is ADAG:
        return FastPart(*at, BY_STEPS)
    return FastPart(*at, BY_STALENESS, rule.exponent) if type(rule) is DynSGD else None


def put_back(bound: Bound, copied: Copied, nbytes: int) -> None:
    """Give rules that are not in use yet the state of a copy."""
    rules = list(zip(bound.stripes, copied.state["stripes"], strict=True))
    tensors = dict(copied.state["tensors"])
    if copied.center.shape != (nbytes,) or tensors.keys() != bound.tensors.keys():
        raise ValueError(f"{copied.center.nbytes} bytes, {len(tensors)} tensors with rules.")
    rules += [(bound.tensors[name], saved) for name, saved in tensors.items()]
    for rule, saved in rules:
        revive(rule, decode(saved, copied.arrays))


class _Strict(threading.local):
    """A context of each thread in which numpy raises for what is beyond a dtype's range.

    The processor notes an overflow by itself, so that no look at the sums is needed. To enter
    such a context costs a small push a third of what `np.errstate` costs.
    """

    def __init__(self) -> None:
        self.run = Context().run
        self.run(np.seterr, over="raise", divide="raise", invalid="raise")


strict = _Strict()


def prepare(combiner: Combiner, parts: Sequence[Part], info: PushInfo) -> None:
    """Let a combiner look at a whole push before any of it is merged.

    Raises
    ------
    CombinerError
        It raised; the push was not merged.
    """
    try:
        combiner.prepare(parts, info)
    except CombinerError:
        raise
    except Exception as error:
        raise CombinerError(
            f"Combiner {combiner.name}: raised {type(error).__name__}: {error} in prepare. "
            "The push was not merged."
        ) from error


def merged_in_part(name: str, error: BaseException) -> CombinerError:
    """Return the error of a combiner that failed when a part was merged."""
    what = f"raised {type(error).__name__}: {error}. It promised with striped=True not to"
    if isinstance(error, FloatingPointError):
        what = (
            f"expected sums within the range of the parameters' dtype, got one beyond it ({error})."
            " The training diverges: lower the learning rate"
        )
    return CombinerError(
        f"Combiner {name} {what}. A part of the push is in the parameters, and no checkpoint is "
        "written of them. tos.resume continues from the last one before."
    )
