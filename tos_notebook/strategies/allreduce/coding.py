"""Which vectors of a mesh travel encoded, and by which codecs."""

from __future__ import annotations

import numpy as np

from ...codecs.base import FP32, Codec
from ...codecs.halves import BF16, FP16
from ...codecs.pair import CodecPair
from ...errors import ConfigError
from ...layout import Layout
from ...reduction.coded import CodedReducer
from ...reduction.mesh import Mesh
from ...reduction.reducer import Reducer
from ...reduction.schedules import Schedule


def check_codecs(codecs: CodecPair) -> None:
    """Check that workers can exchange with each other by codecs.

    Parameters
    ----------
    codecs : CodecPair

    Raises
    ------
    ConfigError
        They cannot.
    """
    if not all(_is_short(codec) for codec in (codecs.up, codecs.down)):
        raise ConfigError(
            "codec: expected 'fp32', 'bf16' or 'fp16' where workers exchange with each other, got "
            f"'{codecs}'. Choose one of those, or train with strategy='allreduce:star'."
        )


def _is_short(codec: Codec) -> bool:
    """Whether sums of it can be encoded again by each worker on their way."""
    return isinstance(codec, FP32 | BF16 | FP16) and not codec.feedback


def reducers_for(
    layout: Layout, mesh: Mesh, schedule: Schedule, codecs: CodecPair
) -> list[Reducer]:
    """Return what averages each vector of a layout.

    What is trained travels encoded. Integers travel as they are, and so do statistics: those are
    whole values and no changes, and few.

    Parameters
    ----------
    layout : Layout
    mesh : Mesh
        Formed.
    schedule : Schedule
    codecs : CodecPair
        Its `up` is for sums on their way, its `down` for means.
    """

    def made(coded: bool) -> Reducer:
        return CodedReducer(mesh, schedule, codecs) if coded else Reducer(mesh, schedule)

    return [
        made(not codecs.lossless and segment.trained and np.dtype(segment.dtype).kind == "f")
        for segment in layout.segments
    ]
