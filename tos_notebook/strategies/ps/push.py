"""What is pushed into the center, what comes of it, and a copy of the center."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...combiners.base import Pushes
from ...common.arrays import Array, Buffer
from ...errors import NonFiniteUpdate
from .served.saved import SavedRows


class Push(NamedTuple):
    """What a worker says about its update."""

    worker: int
    """Its partition."""
    base_version: int
    """The version it pulled last."""
    steps: int
    """Batches trained since then."""
    samples: int
    """Records in those batches."""
    workers: int
    """Active workers, as the server counts them."""
    pushes: Pushes | None = None
    """What the update is, if it may have been computed for the combiner before the last
    `Center.swap`; None for what the present one asks for."""
    finite: bool = True
    """Whether the worker found neither NaN nor infinity in it: it looks where the update is still
    in its core's cache, and all do so at the same time. Rules that compare do not rely on it."""
    skip: bool = False
    """Whether a rule that compares may leave it out, where the worker found some."""


class Merge(NamedTuple):
    """The outcome of a merge."""

    version: int
    """The version that the push made; the base of the worker's next push."""
    staleness: int
    """Versions committed between the worker's pull and the push."""
    left_out: NonFiniteUpdate | None = None
    """Why the rule, one that compares, has given the update no voice."""


class Copied(NamedTuple):
    """A store as of one version."""

    center: Buffer
    version: int
    state: dict[str, Any]
    """Of the combiner's rules, as `checkpoint.values` encodes it."""
    arrays: list[Array]
    """Those of the state."""
    rows: SavedRows | None = None
    """Those of served tables; None for a model without."""
