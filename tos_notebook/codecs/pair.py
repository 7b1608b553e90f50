"""Both ways between a worker and the server: a codec for updates and one for replies."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import CodecError
from .base import FP32, Codec
from .registry import as_codec


@dataclass(frozen=True, slots=True)
class CodecPair:
    """How updates travel up, and replies down."""

    up: Codec
    down: Codec

    @property
    def lossless(self) -> bool:
        """Whether everything travels as it is."""
        return self.up.lossless and self.down.lossless

    def __str__(self) -> str:
        return str(self.up) if self.up == self.down else f"{self.up}/{self.down}"


PLAIN = CodecPair(FP32(), FP32())
"""Nothing is encoded."""


def as_codecs(value: str | Codec | CodecPair) -> CodecPair:
    """Return codecs for what a user gives; see `as_codec`, also for what is raised.

    It is one codec for both ways, or two names: ``"topk:0.01+ef/int8"`` sends updates by the first
    and replies by the second.
    """
    if isinstance(value, CodecPair):
        return value
    if not isinstance(value, str):
        both = as_codec(value)
        return CodecPair(both, both)
    names = value.split("/")
    if len(names) > 2:
        raise CodecError(f"Expected one codec, or two with a slash between; got {value!r}.")
    return CodecPair(as_codec(names[0]), as_codec(names[-1]))
