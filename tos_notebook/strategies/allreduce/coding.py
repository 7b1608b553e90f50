"""Which vectors of a mesh travel encoded, and by which codecs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...codecs.base import FP32
from ...codecs.halves import BF16, FP16
from ...codecs.pair import CodecPair
from ...codecs.powersgd import PowerSGD
from ...common.arrays import Array
from ...errors import ConfigError
from ...layout import Layout
from ...reduction.coded import CodedReducer
from ...reduction.gathered import GatheringReducer
from ...reduction.mesh import Mesh
from ...reduction.reducer import Reducer
from ...reduction.schedules import Schedule


def check_codecs(codecs: CodecPair, direct: bool) -> None:
    """Check that workers can exchange with each other by codecs.

    Parameters
    ----------
    codecs : CodecPair
    direct : bool
        Whether they can send to each other directly, so that nothing is encoded on its way.

    Raises
    ------
    ConfigError
        They cannot.
    """
    if any(isinstance(codec, PowerSGD) for codec in (codecs.up, codecs.down)):
        raise ConfigError(
            f"codec: expected one for parts of vectors where workers exchange with each other, got "
            f"'{codecs}', which needs whole matrices. Choose another one, such as 'int8', or train "
            "with strategy='allreduce:star'."
        )
    if not (direct or on_their_way(codecs)):
        raise ConfigError(
            "codec: expected 'fp32', 'bf16' or 'fp16' with an algorithm by which workers add to "
            f"what others have encoded, got '{codecs}'. Choose one of those, or "
            "algorithm='direct'."
        )


def on_their_way(codecs: CodecPair) -> bool:
    """Return whether sums can be encoded again by each worker on their way."""
    both = codecs.up, codecs.down
    return all(isinstance(one, FP32 | BF16 | FP16) and not one.feedback for one in both)


def reducers_for(
    layout: Layout,
    mesh: Mesh,
    schedule: Schedule,
    codecs: CodecPair,
    aggregate: Callable[[Array], Array] | None = None,
) -> list[Reducer]:
    """Return what averages each vector of a layout.

    What is trained travels encoded. Integers travel as they are, and so do statistics: those are
    whole values and no changes, and few. Both are averaged, whatever the rule.

    Parameters
    ----------
    layout : Layout
    mesh : Mesh
        Formed.
    schedule : Schedule
    codecs : CodecPair
        Its `up` is for sums on their way, its `down` for means.
    aggregate : callable, optional
        A rule that takes the place of the mean; see `GatheringReducer`.
    """

    def made(changes: bool) -> Reducer:
        if changes and aggregate is not None:
            return GatheringReducer(mesh, schedule, aggregate)
        if changes and not codecs.lossless:
            return CodedReducer(mesh, schedule, codecs)
        return Reducer(mesh, schedule)

    return [
        made(segment.trained and np.dtype(segment.dtype).kind == "f") for segment in layout.segments
    ]
