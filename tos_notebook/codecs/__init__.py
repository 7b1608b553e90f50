"""How an update, or a reply, is turned into few bytes; no threads, no sockets."""

from __future__ import annotations

from .base import FP32, Codec, Coder
from .halves import BF16, FP16
from .powersgd import PowerSGD
from .registry import CODECS, as_codec, describe
from .rounding import Int4, Int8
from .sign import Sign
from .topk import TopK

__all__ = [
    "BF16",
    "CODECS",
    "FP16",
    "FP32",
    "Codec",
    "Coder",
    "Int4",
    "Int8",
    "PowerSGD",
    "Sign",
    "TopK",
    "as_codec",
    "describe",
]
